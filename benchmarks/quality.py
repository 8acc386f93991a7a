"""Summaries of the same documents by several systems, at the reference's length, for `awesum evaluate` to measure.

    python -m benchmarks.quality --data govreport/ --out FOLDER [--documents 50] [--longest 4000]
    python -m benchmarks.quality --data qmsum/ --split test --one-each --out FOLDER
    python -m benchmarks.quality --data govreport/ --out FOLDER --documents 100 --systems --adapters se3/ attentive/
    python -m benchmarks.quality --data qmsum/ --split test --documents 281 --longest 99999 --out FOLDER \
      --keep SEGMENTS --systems extract --adapters se3/ attentive/

Adapters that `awesum train` made write several documents side by side, a part of each at a time, with --own-length as
much as they have learned to; `zero-shot` is the embedded model with the same prompts and no adapter. With --keep, a
segment is read once for all adapters and all questions, and their seconds do not count what was read before.

The documents are taken evenly from the split; with a query, every system gets it. FOLDER has `references.jsonl` and a
file for each system, to which every summary is added as soon as it is written: interrupted, it goes on from there. The
table is that of `awesum evaluate FOLDER/se3.jsonl FOLDER/references.jsonl --compare FOLDER/lead.jsonl ...`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np

from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.text import augment
from awesum.analysis.salience.trained import TrainedSalience
from awesum.datasets import Example, load
from awesum.length import count_words
from awesum.models.adapter import AdapterConfig
from awesum.models.causal import Prompt, load_base
from awesum.models.prefix_cache import KeptSegments
from awesum.prompting import enough_words, tidy
from awesum.recurrent import CausalRecurrentRun, finish_together
from awesum.settings import SMOLLM2
from awesum.summarizer import INPUT, SIDE_BY_SIDE
from awesum.weights import minilm_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

ZERO_SHOT = "zero-shot"


def evenly(data: Path, split: str, number: int, longest: int, one_each: bool) -> list[Example]:
    """So many documents of at most `longest` words, evenly spaced over the split, first and last included."""
    fitting = []
    before = ""
    for index, example in enumerate(examples := load(data, split)):
        if count_words(example.document) <= longest and not (one_each and example.document == before):
            fitting.append(index)
        before = example.document
    wanted = sorted({round(place * (len(fitting) - 1) / max(number - 1, 1)) for place in range(number)})
    return [examples[fitting[place]] for place in wanted]


class Once(SentenceEncoder):
    """An encoder that reads a sentence once, whatever is asked about its document and whoever summarizes it."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__(encoder.model, encoder.tokenizer)
        self._known: dict[str, NDArray[np.float32]] = {}

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], object] = lambda done: None
    ) -> NDArray[np.float32]:
        """One unit vector a text."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(unknown, super().encode(unknown), strict=True))
        progress(len(texts))
        return np.stack([self._known[text] for text in texts]) if texts else super().encode(texts)


class Systems:
    """Each method is a system: an example and a number of words in, a summary out."""

    def __init__(self) -> None:
        encoder = Once(SentenceEncoder.load(minilm_folder()))
        self.summarizer = Summarizer(encoder=encoder, salience=TrainedSalience.load())

    @cached_property
    def by_centrality(self) -> Summarizer:
        """The same, but for what says which sentences matter."""
        return Summarizer(encoder=self.summarizer.encoder, salience=Centrality())

    @cached_property
    def bare(self) -> Summarizer:
        """The embedded model without its adapter."""
        return Summarizer(SMOLLM2, encoder=self.summarizer.encoder, salience=self.summarizer.salience)

    def lead(self, example: Example, words: int) -> str:
        """The first words of the document."""
        return " ".join(example.document.split()[:words])

    def unsupervised(self, example: Example, words: int) -> str:
        """The central sentences, verbatim."""
        return self._extract(self.by_centrality, example, words)

    def extract(self, example: Example, words: int) -> str:
        """The sentences that the shipped extractor chooses, verbatim."""
        return self._extract(self.summarizer, example, words)

    def _extract(self, summarizer: Summarizer, example: Example, words: int) -> str:
        document = Document(example.document)
        return summarizer.summarize(document, style="extract", length=f"{words}w", query=example.query).text

    def awesum(self, example: Example, words: int) -> str:
        """What `awesum summarize` writes."""
        return self.summarizer.summarize(Document(example.document), length=f"{words}w", query=example.query).text

    def untrained(self, example: Example, words: int) -> str:
        """The same without the adapter."""
        return self.bare.summarize(Document(example.document), length=f"{words}w", query=example.query).text

    def se3(self, example: Example, words: int) -> str:
        """The embedded model on the same segments, each alone, with equal shares and no salient content."""
        text = example.document
        run = self.bare.start(Document(text), Settings(length=f"{words}w"))
        run._read()
        share = words / len(run.segments)
        chat = self.bare.chat
        request = "Summarize the current chunk" + _about(example) + "."
        prompts = [
            Prompt(
                chat.prompt(f"{augment(text[segment.start : segment.end].strip())}\n\n{request}"),
                enough_words(share),
                24 + round(1.4 * 1.35 * share),
            )
            for segment in run.segments
        ]
        return "\n\n".join(" ".join(tidy(answer)) for answer in chat.write(prompts, SIDE_BY_SIDE))

    def truncated(self, example: Example, words: int) -> str:
        """The same model on the document, cut to what its window takes beside the summary."""
        text = example.document
        chat = self.bare.chat
        limit = 24 + round(1.4 * 1.35 * words)
        tokens = chat.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        room = chat.window - limit - (INPUT // 8)
        cut = tokens["offset_mapping"][: room + 1][-1][0] if len(tokens["input_ids"]) > room else len(text)
        request = f"Summarize the document{_about(example)}."
        prompt = Prompt(chat.prompt(f"{text[:cut]}\n\n{request}"), enough_words(words), limit)
        return " ".join(tidy(next(chat.write([prompt]))))


def _about(example: Example) -> str:
    return f" in view of the question {example.query.strip()!r}" if example.query else ""


def written_before(path: Path) -> set[str]:
    """The documents whose summaries an earlier run has written."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {json.loads(line)["id"] for line in lines}


def write(name: str, system: Callable[[Example, int], str], chosen: list[Example], folder: Path) -> Path:
    """The summaries of one system, those of an earlier run included."""
    path = folder / f"{name}.jsonl"
    done = written_before(path)
    for number, example in enumerate(chosen, 1):
        if example.id not in done:
            started = time.perf_counter()
            summary = system(example, count_words(example.summary))
            seconds = round(time.perf_counter() - started, 1)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": example.id, "summary": summary, "seconds": seconds}) + "\n")
            print(f"{name}: {number} of {len(chosen)}, {seconds} s", file=sys.stderr, flush=True)
    return path


def write_trained(folder: str, chosen: list[Example], options: argparse.Namespace, like: Summarizer) -> Path:
    """The summaries of an adapter, those of an earlier run included."""
    path = options.out / f"{Path(folder).name}{'-own-length' if options.own_length else ''}.jsonl"
    done = written_before(path)
    todo = [example for example in chosen if example.id not in done]
    with TemporaryDirectory() as aside:
        if folder == ZERO_SHOT:
            model, _ = load_base(SMOLLM2, AdapterConfig(base=SMOLLM2, memory="none", update="none"))
            model.save_pretrained(aside)
            folder = aside
        summarizer = Summarizer(folder, encoder=like.encoder, salience=like.salience)
        chat = summarizer.chat
        if options.keep and chat.memory:
            chat.kept = KeptSegments(chat.memory, options.keep)
        started = time.perf_counter()
        runs = (
            summarizer.start(
                Document(example.document),
                Settings(
                    query=example.query, length=None if options.own_length else f"{count_words(example.summary)}w"
                ),
            )
            for example in todo
        )
        together = finish_together(chat, cast("Iterator[CausalRecurrentRun]", runs), options.side_by_side)
        for number, (example, summary) in enumerate(zip(todo, together, strict=True), 1):
            seconds = round((time.perf_counter() - started) / number, 1)  # of all so far: they are written together
            row = {
                "id": example.id,
                "summary": summary.text,
                "seconds": seconds,
                "peak": summary.figures.peak_memory_bytes,
            }
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{path.stem}: {number} of {len(todo)}, {seconds} s each", file=sys.stderr, flush=True)
    return path


def main() -> int:
    """Write what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--longest", type=int, default=4_000, help="words of the longest document (%(default)s)")
    parser.add_argument("--one-each", action="store_true", help="only the first of the rows with the same document")
    names = ["se3", "lead", "unsupervised", "extract", "untrained", "awesum", "truncated"]
    parser.add_argument("--systems", nargs="*", choices=names, default=names)
    parser.add_argument("--adapters", nargs="+", default=[], metavar="FOLDER", help=f"or {ZERO_SHOT}")
    parser.add_argument("--own-length", action="store_true", help="let adapters decide how much they write")
    parser.add_argument(
        "--by-centrality",
        action="store_true",
        help="let adapters take for salient what is central, not what the extractor chooses",
    )
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE, help="documents of an adapter (%(default)s)")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep there what segments are read as, 46 KB a token"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = evenly(options.data, options.split, options.documents, options.longest, options.one_each)
    references = options.out / "references.jsonl"
    references.write_text("".join(json.dumps(asdict(example)) + "\n" for example in chosen), encoding="utf-8")
    systems = Systems()
    for name in options.systems:
        write(name, getattr(systems, name), chosen, options.out)
    for folder in options.adapters:
        write_trained(folder, chosen, options, systems.by_centrality if options.by_centrality else systems.summarizer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
