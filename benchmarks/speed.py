"""The time of the batched writing against a plain loop over the same prompts with the same weights and lengths."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator

import torch
from transformers import AutoModelForCausalLM

from awesum import Settings, Summarizer
from awesum.models.causal import Prompt
from awesum.reading import read
from awesum.weights import smollm2_folder
from benchmarks import SAMPLE, report


def main() -> int:
    """Write the sample's summary with `Summarizer`, recording prompts and answers; then write the same in a loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", default=str(SAMPLE))
    parser.add_argument("--length", default="5%")
    options = parser.parse_args()
    summarizer = Summarizer.load()
    chat = summarizer.chat
    written: list[tuple[list[int], int]] = []
    seconds = 0.0
    write_tokens = chat.write_tokens

    def recording(prompts: Iterable[Prompt], side_by_side: int = 8) -> Iterator[list[int]]:
        nonlocal seconds
        prompts = list(prompts)
        started = time.perf_counter()
        answers = list(write_tokens(prompts, side_by_side))
        seconds += time.perf_counter() - started
        written.extend((prompt.tokens, len(answer)) for prompt, answer in zip(prompts, answers, strict=True))
        yield from answers

    chat.write_tokens = recording  # type: ignore[method-assign]
    summarizer.start(read(options.file), Settings(length=options.length)).finish()

    plain = AutoModelForCausalLM.from_pretrained(smollm2_folder(), dtype=torch.float32).eval()
    started = time.perf_counter()
    for tokens, length in written:
        ids = torch.tensor([tokens])
        plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, min_new_tokens=length, do_sample=False
        )
    loop = time.perf_counter() - started
    tokens_read = sum(len(tokens) for tokens, _ in written)
    tokens_written = sum(length for _, length in written)
    print(f"{len(written)} segments, {tokens_read:,} tokens read, {tokens_written:,} written")
    print(f"plain loop {loop:.1f} s, side by side {seconds:.1f} s")
    return 0 if report("speed, against the plain loop", loop / seconds, 3, " times", at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
