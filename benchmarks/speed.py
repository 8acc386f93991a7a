"""The time of the side-by-side writing against a plain loop over the same prompts with the same weights and lengths."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from awesum import Settings
from awesum.compose.prompts import DocumentPrompt
from awesum.models.prompt import Answer, Prompt
from awesum.reading import read
from awesum.summary import Part
from awesum.systems.chat import Chat
from awesum.systems.smollm2 import SmolLM2
from awesum.systems.system import open_session
from awesum.weights import smollm2_folder
from benchmarks import SAMPLE, report

BAR = 3
"""Times as fast as the plain loop, on the longest parts: the more there is to write, the less reading weighs."""


@dataclass
class Recording:
    """What a summary of some length asked of the model, and how long each way of writing it took."""

    length: str
    written: list[tuple[list[int], int]] = field(default_factory=list)
    """Each prompt, and how many tokens were written to it."""
    side_by_side: float = 0.0
    plain: float = 0.0

    @property
    def tokens_written(self) -> int:
        """Tokens of all parts."""
        return sum(length for _, length in self.written)

    @property
    def part(self) -> float:
        """Tokens of a part, on average."""
        return self.tokens_written / len(self.written)

    @property
    def ratio(self) -> float:
        """How many times as fast as the plain loop."""
        return self.plain / self.side_by_side

    def row(self, note: str = "") -> str:
        """A row of the table."""
        read = sum(len(tokens) for tokens, _ in self.written)
        return (
            f"{self.length:>6}  {len(self.written):>8}  {read:>6,}  {self.tokens_written:>7,}  {self.part:>8.0f}  "
            f"{self.plain:>7.1f} s  {self.side_by_side:>10.1f} s  {self.ratio:>6.2f}{note}"
        )


def summarize(system: Chat, file: str, length: str) -> Recording:
    """Write a summary as the command does; record prompts, answers and the time that writing took."""
    recording = Recording(length)
    settings = Settings(length=length)
    session = open_session(system, read(file), settings)
    prompts: dict[int, Prompt] = {}
    next_prompt, accept = session.next_prompt, session.accept

    def asked() -> Prompt | DocumentPrompt | None:
        prompt = next_prompt()
        if isinstance(prompt, Prompt):
            prompts[prompt.number] = prompt
        return prompt

    def answered(number: int, answer: Answer) -> list[Part]:
        recording.written.append((prompts[number].tokens, len(answer.tokens)))
        return accept(number, answer)

    session.next_prompt, session.accept = asked, answered  # type: ignore[method-assign]
    started = time.perf_counter()
    for _ in system.engine(settings).run(session):
        pass
    recording.side_by_side = time.perf_counter() - started
    return recording


def loop(model: PreTrainedModel, recording: Recording) -> None:
    """Write as many tokens to the same prompts one after the other, as one would with the library alone.

    Denormal numbers stay flushed, as the engine left them: that is no part of what is compared here.
    """
    started = time.perf_counter()
    for tokens, length in recording.written:
        ids = torch.tensor([tokens])
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, min_new_tokens=length, do_sample=False
        )
    recording.plain = time.perf_counter() - started


def main() -> int:
    """Write the sample's summary in several lengths, both ways, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", default=str(SAMPLE))
    parser.add_argument("--lengths", nargs="+", default=["5%", "10%", "20%"], metavar="LENGTH")
    options = parser.parse_args()
    system = SmolLM2()  # as it is: the plain loop knows no adapter
    recordings = [summarize(system, options.file, length) for length in options.lengths]
    plain = AutoModelForCausalLM.from_pretrained(smollm2_folder(), dtype=system.writer.model.dtype).eval()
    longest = max(recordings, key=lambda recording: recording.part)
    print("length  segments    read  written  per part  plain loop  side by side  times")
    for recording in recordings:
        loop(plain, recording)
        print(recording.row("  (the longest parts: the bar is taken here)" if recording is longest else ""), flush=True)
    claim = f"speed, against the plain loop, on the longest parts ({longest.length})"
    return 0 if report(claim, longest.ratio, BAR, " times", at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
