"""Make a sheet on which a reader labels written sentences without knowing which version wrote them; join the labels.

    awesum summarize documents/ --style abstract --length 200w --json -o now/    # an earlier version: before/
    python -m benchmarks.sheet make --documents documents/ --before before/ --now now/ --sheet sheet.jsonl
    python -m benchmarks.sheet join --documents documents/ --before before/ --now now/ --answers answers.jsonl

The sheet has every sentence that is not a copy, those of both versions shuffled together, with the passage that it
rests on. An answer is a line {"number": 7, "label": "true"}: true, false or unclear. `join` prints the lines of
docs/labels.jsonl, which `benchmarks.truth` counts. Documents and summaries correspond by their names: report.txt and
report.json; the part of a name before the first "_" is the dataset.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awesum.analysis.sentences import sentence_spans
from awesum.verify import Verifier

SEED = 16
AROUND = 900
"""Characters of the source on both sides of the sentence that a written one rests on."""
PUBLISHED = ("govreport",)
"""The datasets whose sentences may be published."""
LABELS = ("true", "false", "unclear")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a summary, with what it rests on."""

    version: str
    document: str
    text: str
    start: int
    end: int
    segment: tuple[int, int]
    support: float | None
    """None where the version had no verifier."""
    is_copy: bool


def sentences(version: str, folder: Path) -> Iterator[Sentence]:
    """The sentences of all summaries in a folder."""
    for path in sorted(folder.glob("*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        for part in summary["parts"]:
            for each in part["sentences"]:
                source = each["source"]
                yield Sentence(
                    version,
                    path.stem,
                    each["text"],
                    source["start"],
                    source["end"],
                    (part["start"], part["end"]),
                    each.get("support"),
                    " ".join(each["text"].split()) == " ".join(source["text"].split()),
                )


def shuffled(options: argparse.Namespace) -> list[Sentence]:
    """The written sentences of both versions in an order that tells nothing; the same order every time.

    A sentence that both versions wrote is read once.
    """
    both = [*sentences("before", options.before), *sentences("now", options.now)]
    written = {(each.document, each.text): each for each in both if not each.is_copy}
    order = [written[key] for key in sorted(written)]
    random.Random(SEED).shuffle(order)
    return order


def make(options: argparse.Namespace) -> None:
    """Write the sheet."""
    with options.sheet.open("w", encoding="utf-8") as sheet:
        for number, each in enumerate(shuffled(options)):
            text = (options.documents / f"{each.document}.txt").read_text(encoding="utf-8")
            first = max(each.segment[0], each.start - AROUND)
            last = min(each.segment[1], each.end + AROUND)
            row = {"number": number, "document": each.document, "text": each.text, "passage": text[first:last]}
            sheet.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(options.sheet)


def join(options: argparse.Namespace) -> None:
    """Print a line for every sentence: of a copy, that it is true, and of a written one, what the reader found."""
    answers = [json.loads(line) for line in options.answers.read_text(encoding="utf-8").splitlines()]
    assert all(answer["label"] in LABELS for answer in answers), f"a label is one of {', '.join(LABELS)}"
    found = {answer["number"]: answer["label"] for answer in answers}
    labels = {(each.document, each.text): found[number] for number, each in enumerate(shuffled(options))}
    for each in [*sentences("before", options.before), *sentences("now", options.now)]:
        dataset, _, name = each.document.partition("_")
        row: dict[str, Any] = {
            "version": each.version,
            "document": f"{dataset}/{name}",
            "start": each.start,
            "end": each.end,
            "copied": each.is_copy,
            "support": round(support(each, options.documents), 3),
            "label": "true" if each.is_copy else labels[each.document, each.text],
        }
        if dataset in PUBLISHED:
            row["text"] = each.text
        print(json.dumps(row, ensure_ascii=False))


def support(sentence: Sentence, documents: Path) -> float:
    """As the version reported it, or by today's verifier."""
    if sentence.is_copy or sentence.support is not None:
        return 1.0 if sentence.is_copy else float(sentence.support or 0.0)
    text = (documents / f"{sentence.document}.txt").read_text(encoding="utf-8")[slice(*sentence.segment)]
    return Verifier.load().support([text[start:end] for start, end in sentence_spans(text)], sentence.text)


def main() -> int:
    """Make a sheet, or join the answers to it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command, name in ((make, "--sheet"), (join, "--answers")):
        options = commands.add_parser(command.__name__, help=command.__doc__)
        for needed in ("--documents", "--before", "--now", name):
            options.add_argument(needed, type=Path, required=True)
        options.set_defaults(command=command)
    chosen = parser.parse_args()
    chosen.command(chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
