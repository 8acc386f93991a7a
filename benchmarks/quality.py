"""Predictions of several systems for the same documents, at the reference's length, for `awesum evaluate` to score.

    python -m benchmarks.quality --data govreport/ --out FOLDER [--documents 50] [--longest 4000]
    python -m benchmarks.quality --data qmsum/ --split test --one-each --out FOLDER
    python -m benchmarks.quality --data govreport/ --out FOLDER --documents 100 --systems awesum extract se3/ attentive/
    python -m benchmarks.quality --data govreport/ --out FOLDER --length 80w --systems MODEL.gguf

A system is a name from `awesum systems`, a folder, a GGUF file, an address, or one of the baselines below. The
documents are taken evenly from the split. FOLDER gets `references.jsonl` and the predictions of each system as `awesum
predict` writes them; interrupted, the same command resumes. The processor time is that of this process; its peak
belongs to a system only if that is the only one. The table is that of
`awesum evaluate FOLDER/lead.jsonl FOLDER/references.jsonl --compare FOLDER/extract.jsonl ...`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from awesum import systems
from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.text import augment
from awesum.compose.drafts import enough_words, tidy
from awesum.compose.plan import Plan
from awesum.datasets import Example, load
from awesum.length import count_words
from awesum.models.prompt import Answer, Prompt
from awesum.predict import REFERENCE, Job, predict
from awesum.settings import SMOLLM2, Settings
from awesum.summary import Part, SummarySentence
from awesum.systems.chat import Chat
from awesum.systems.extract import Extract
from awesum.systems.system import System

TOKENS_PER_WORD = 1.4 * 1.35
"""Tokens to allow for each word of a summary: of SmolLM2's tokenizer, and some more."""


class Unsupervised(Extract):
    """The central sentences, verbatim: the extract of an extractor that was not trained."""

    def __init__(self) -> None:
        super().__init__(analyst=Analyst(extractor=Centrality()))


class _Asked(Plan):
    """One request about each of some texts, each with an equal share of the length; nothing is checked."""

    def __init__(self, analysis: Analysis, chat: Chat, texts: Sequence[str], request: str) -> None:
        super().__init__(analysis)
        self.chat, self.texts, self.request = chat, texts, request
        self.order = range(len(texts))

    def prompt(self, number: int, parts: Sequence[Part], reached: int) -> Prompt:
        """The text, then the request."""
        words = self.analysis.selection.amount / len(self.texts)
        tokens = self.chat.writer.prompt(f"{self.texts[number]}\n\n{self.request}{_about(self.analysis.query)}.")
        return Prompt(tokens, enough_words(words), 24 + round(TOKENS_PER_WORD * words), number=number)

    def compose(self, number: int, answer: Answer, parts: Sequence[Part]) -> list[SummarySentence]:
        """Whatever it says."""
        return [SummarySentence(sentence, self.analysis.quote(0), 0.0, 0.0) for sentence in tidy(answer.text)]


class SegmentBySegment(Chat):
    """The embedded model on each segment alone, with equal shares and no salient content: Se3 without training."""

    default_model = SMOLLM2

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """One request about each segment."""
        texts = [augment(analysis.segment_text(number)) for number in range(len(analysis.segments))]
        return _Asked(analysis, self, texts, "Summarize the current chunk")


class Truncated(Chat):
    """The embedded model on the document, cut to what its window takes beside the summary."""

    default_model = SMOLLM2

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """One request about the beginning."""
        text = analysis.document.text
        room = self.window - 24 - round(TOKENS_PER_WORD * analysis.selection.amount) - 112
        offsets = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        cut = offsets["offset_mapping"][: room + 1][-1][0] if len(offsets["input_ids"]) > room else len(text)
        return _Asked(analysis, self, [text[:cut]], "Summarize the document")


BASELINES: dict[str, type[System]] = {
    "unsupervised": Unsupervised,
    "segment-by-segment": SegmentBySegment,
    "truncated": Truncated,
}


def _about(query: str | None) -> str:
    return f" in view of the question {query.strip()!r}" if query else ""


def evenly(data: Path, split: str, number: int, longest: int, one_each: bool) -> list[Example]:
    """A number of documents of at most `longest` words, evenly spaced over the split, first and last included."""
    fitting = []
    before = ""
    for index, example in enumerate(examples := load(data, split)):
        if count_words(example.document) <= longest and not (one_each and example.document == before):
            fitting.append(index)
        before = example.document
    wanted = sorted({round(place * (len(fitting) - 1) / max(number - 1, 1)) for place in range(number)})
    return [examples[fitting[place]] for place in wanted]


def main() -> int:
    """Write what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--longest", type=int, default=4_000, help="words of the longest document (%(default)s)")
    parser.add_argument("--one-each", action="store_true", help="only the first of the rows with the same document")
    every = ["lead", "extract", "smollm2", "awesum", *BASELINES]
    parser.add_argument("--systems", nargs="+", default=every, metavar="SYSTEM", help=f"default: {' '.join(every)}")
    parser.add_argument("--length", default=REFERENCE, help="words of each summary, such as 80w (%(default)s)")
    parser.add_argument("--own-length", action="store_true", help="let each system decide how much it writes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    references = options.out / "references.jsonl"
    chosen = evenly(options.data, options.split, options.documents, options.longest, options.one_each)
    references.write_text("".join(json.dumps(asdict(example)) + "\n" for example in chosen), encoding="utf-8")
    job = Job(str(references), length=None if options.own_length else options.length)
    suffix = "-own-length" if options.own_length else ""
    for name in options.systems:
        system = BASELINES[name]() if name in BASELINES else systems.load(name)
        before = time.process_time()
        totals = predict(system, job, options.out / f"{Path(name).name}{suffix}.jsonl")
        print(f"{totals}, {time.process_time() - before:.0f} s of processor time", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
