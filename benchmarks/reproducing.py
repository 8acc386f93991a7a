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

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    LongT5Config,
    LongT5ForConditionalGeneration,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from awesum.cli import main as awesum
from awesum.datasets import examples
from benchmarks import SAMPLE, report

WORDS = 1_500
"""Of a document that is made of pieces of the sample."""


def tiny_models(folder: Path, texts: list[str]) -> tuple[Path, Path, Path]:
    """A BART, a LongT5 and a sentence encoder with random weights, whose tokenizers know these texts."""
    torch.manual_seed(0)
    bart, t5, encoder = (folder / name for name in ("tiny-bart", "tiny-long-t5", "tiny-encoder"))
    tokenizer = _tokenizer(texts, ["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>")
    size = {"encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, init_std=0.1, **size
    )
    BartForConditionalGeneration(config).save_pretrained(bart)
    tokenizer.save_pretrained(bart)
    tokenizer = _tokenizer(texts, ["<pad>", "</s>", "<unk>"], "$A </s>")
    long = LongT5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        encoder_attention_type="transient-global",
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    LongT5ForConditionalGeneration(long).save_pretrained(t5)
    tokenizer.save_pretrained(t5)
    tokenizer = _tokenizer(texts, ["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>", cls_token="<s>", sep_token="</s>")
    small = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    RobertaModel(small, add_pooling_layer=False).save_pretrained(encoder)
    tokenizer.save_pretrained(encoder)
    return bart, t5, encoder


def _tokenizer(texts: list[str], special: list[str], template: str, **names: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    marks = [(token, tokenizer.token_to_id(token)) for token in special]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    names |= {"bos_token": "<s>"} if "<s>" in special else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>", unk_token="<unk>", **names
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
