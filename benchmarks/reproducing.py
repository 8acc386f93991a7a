"""`awesum reproduce` from beginning to end: all rows of a table, from tiny random models, on ten documents.

    python -m benchmarks.reproducing [--data govreport/ --split validation] [--dataset govreport] [--out FOLDER]

Without `--data`, the documents are pieces of the sample. What it prints last is the time, which is to stay below five
minutes; the tables are in FOLDER/table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from awesum.cli import main as awesum
from awesum.datasets import examples
from benchmarks import SAMPLE, report
from benchmarks.tiny_models import (
    BART_TEMPLATE,
    BART_TOKENS,
    T5_TEMPLATE,
    T5_TOKENS,
    byte_level_tokenizer,
    save_both,
    tiny_bart,
    tiny_long_t5,
    tiny_roberta,
)

WORDS = 1_500
"""Of a document that is made of pieces of the sample."""


def tiny_models(folder: Path, texts: list[str]) -> tuple[Path, Path, Path]:
    """A BART, a LongT5 and a sentence encoder with random weights, whose tokenizers know these texts."""
    bart = byte_level_tokenizer(texts, BART_TOKENS, 4_000, BART_TEMPLATE)
    t5 = byte_level_tokenizer(texts, T5_TOKENS, 4_000, T5_TEMPLATE)
    roberta = byte_level_tokenizer(texts, BART_TOKENS, 4_000, BART_TEMPLATE, cls_token="<s>", sep_token="</s>")
    # One head of 32 dimensions: several of 8 would take as many times the time, nearly all of it for exponentials.
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    return (
        save_both(tiny_bart(bart, max_position_embeddings=1024, **heads), bart, folder / "tiny-bart"),
        save_both(tiny_long_t5(t5, num_heads=1, d_kv=32), t5, folder / "tiny-long-t5"),
        save_both(tiny_roberta(roberta, max_position_embeddings=514), roberta, folder / "tiny-encoder"),
    )


def sample_data(folder: Path, documents: int) -> Path:
    """A dataset of pieces of the sample, each with a few of its sentences as a summary."""
    words = SAMPLE.read_text(encoding="utf-8").split()
    data = folder / "sample"
    data.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(("train", "validation", "test")):
        rows = []
        for each in range(documents):
            start = (number * documents + each) * 311 % len(words)
            piece = (words[start:] + words)[:WORDS]
            summary = " ".join(piece[100:160] + piece[1200:1260])
            rows.append({"id": f"{split} {each}", "document": " ".join(piece), "summary": summary})
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return data


def run(dataset: str, data: Path, split: str, documents: int, folder: Path) -> tuple[float, float]:
    """Seconds that the command takes: by the clock, and of processor time with all its processes."""
    texts = [example.document for example in islice(examples(data, "train"), documents)]
    bart, t5, encoder = tiny_models(folder / "models", texts)
    started, before = time.perf_counter(), _processor_time()
    code = awesum(
        ["reproduce", dataset, "--data", str(data), "--split", split, "--documents", str(documents),
         "--base", str(bart), f"long-t5={t5}", f"extractor={encoder}", "--set", f"encoder={encoder}", "max_part=32",
         "--output", str(folder / "table")]
    )  # fmt: skip
    assert code == 0, "a row failed"
    return time.perf_counter() - started, _processor_time() - before


def _processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    """Run it and print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="govreport")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        data = options.data or sample_data(folder, options.documents)
        seconds, processor = run(options.dataset, data, options.split, options.documents, folder)
    print(f"{processor / 60:.2f} min of processor time, which is what counts on a machine that others use as well")
    sys.exit(0 if report("awesum reproduce, all rows", seconds / 60, 5, " min") else 1)


if __name__ == "__main__":
    main()
