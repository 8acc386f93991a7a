"""The speed of `awesum data prepare`, and a check that the peak memory of reading does not grow with the dataset.

    python -m benchmarks.preparing --data FOLDER [--memory]

Time: the whole command on all cores, against a plain loop that computes the same but embeds one sentence at a time, in
this process with torch's default threads. The loop processes the first tenth of the documents, and times are compared
per sentence (`--whole`: all of them).
Memory (`--memory`): the peak of a process that streams rows and prepared documents, 1,000 of each against 50.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from awesum import datasets
from awesum.footprint import peak_memory
from awesum.prepared.splits import prepared
from benchmarks import given_back, report

if TYPE_CHECKING:
    from awesum.prepared.prepare import Preparer

SPLIT = "train"
FEW, MANY = 50, 1_000


def one_at_a_time() -> Preparer:
    """A preparer whose encoder gets one sentence at a time."""
    import numpy as np
    from numpy.typing import NDArray

    from awesum.analysis.embedding import SentenceEncoder
    from awesum.loading import load_tokenizer
    from awesum.prepared.prepare import Preparer
    from awesum.settings import SMOLLM2
    from awesum.weights import minilm_folder, smollm2_folder

    class OneAtATime(SentenceEncoder):
        def encode(self, texts: Sequence[str], progress: object = None) -> NDArray[np.float32]:
            return np.concatenate([super(OneAtATime, self).encode([text]) for text in texts])

    return Preparer(load_tokenizer(SMOLLM2, smollm2_folder()), OneAtATime.load(minilm_folder()))


def compare_time(data: Path, documents: int, whole: bool) -> bool:
    """Print how many times faster the command is than the plain loop."""
    from awesum.prepared.prepare import prepare

    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        preparations = prepare(data, out, [SPLIT], documents=documents, quiet=True)
        ours = time.perf_counter() - started
        sentences = preparations.splits[0].sentences
        print(preparations.splits[0])
    looped = documents if whole else -(-documents // 10)
    prepare_one = one_at_a_time()
    started = time.perf_counter()
    read = sum(len(prepare_one(example).sentences) for example in islice(datasets.examples(data, SPLIT), looped))
    plain = time.perf_counter() - started
    for name, count, total, seconds in (("command", documents, sentences, ours), ("plain loop", looped, read, plain)):
        each = 1000 * seconds / total
        print(f"{name}, {count} documents, {total:,} sentences: {seconds:.1f} s, {each:.2f} ms per sentence")
    how = "" if whole else f", per sentence, the loop on the first {looped} documents only"
    ratio = (plain / read) / (ours / sentences)
    return report(f"preparing {documents} documents against one sentence at a time{how}", ratio, 3, " times", False)


def stream(data: Path, folder: Path, documents: int) -> None:
    """Read rows and prepared documents to the end; print the peak memory."""
    for example, document in islice(
        zip(datasets.examples(data, SPLIT), prepared(folder, SPLIT), strict=False), documents
    ):
        assert example.id == document.id
        assert len(document.embeddings) == len(document.sentences)
    print(json.dumps(peak_memory()))


def compare_memory(data: Path, folder: Path) -> bool:
    """Print the ratio of the peaks for many and for few documents, each in its own process.

    The rows are decompressed first: the decompressor's window would hide the effect of the documents.
    """
    available = len(prepared(folder, SPLIT))
    if available < MANY:
        raise SystemExit(f"{folder} has {available} documents: prepare {MANY:,} of the split {SPLIT}")
    peaks = []
    with tempfile.TemporaryDirectory() as plain:
        with (Path(plain) / f"{SPLIT}.jsonl").open("w", encoding="utf-8") as file:
            for example in islice(datasets.examples(data, SPLIT), MANY):
                file.write(json.dumps(asdict(example)) + "\n")
        for documents in (FEW, MANY):
            command = [sys.executable, "-m", "benchmarks.preparing", "--data", plain, "--prepared", str(folder)]
            command += ["--stream", str(documents)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=given_back())
            peaks.append(int(json.loads(done.stdout)))
            print(f"{documents:,} documents: {peaks[-1] / 1e6:,.0f} MB")
    return report(f"peak memory of streaming, {MANY:,} documents against {FEW}", peaks[1] / peaks[0], 1.2)


def main() -> int:
    """Print the figure for time or for memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a dataset of reports, such as GovReport")
    parser.add_argument("--documents", type=int, default=100, help="documents to prepare (default: %(default)s)")
    parser.add_argument("--whole", action="store_true", help="run the plain loop on all documents")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    parser.add_argument(
        "--prepared", type=Path, help=f"folder with {MANY:,} prepared documents (default: prepare them)"
    )
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stream:
        stream(options.data, options.prepared, options.stream)
        return 0
    if not options.memory:
        return 0 if compare_time(options.data, options.documents, options.whole) else 1
    if options.prepared:
        return 0 if compare_memory(options.data, options.prepared) else 1
    from awesum.prepared.prepare import prepare

    with tempfile.TemporaryDirectory() as out:
        prepare(options.data, out, [SPLIT], documents=MANY)
        return 0 if compare_memory(options.data, Path(out)) else 1


if __name__ == "__main__":
    sys.exit(main())
