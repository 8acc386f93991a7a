"""ROUGE on GovReport at the reference's length: awesum against Se3, the truncated document, the lead and the extract.

    python -m benchmarks.quality --data FOLDER --out FOLDER [--documents 50] [--systems lead extract awesum ...]

`--data` holds `validation.jsonl` (or `.jsonl.zst`) with `id`, `document` and `summary`; the documents are taken evenly
from the whole split. Every output is kept in `--out` as soon as it is written: interrupted, it goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rouge_score.rouge_scorer import RougeScorer

from awesum import Document, Settings, Summarizer
from awesum.datasets import Example, load
from awesum.length import count_words
from awesum.models.causal import Prompt
from awesum.prompting import enough_words, tidy
from awesum.reading.sentences import sentence_spans
from awesum.salience.text import augment
from awesum.summarizer import INPUT, SIDE_BY_SIDE

METRICS = ("rouge1", "rouge2", "rougeLsum")


def evenly(data: Path, number: int, longest: int) -> list[Example]:
    """So many documents of at most `longest` words, evenly spaced over the split, first and last included."""
    examples = load(data, "validation")
    fitting = [index for index, example in enumerate(examples) if count_words(example.document) <= longest]
    wanted = sorted({round(place * (len(fitting) - 1) / max(number - 1, 1)) for place in range(number)})
    return [examples[fitting[place]] for place in wanted]


class Systems:
    """Each method is a system: a document and a number of words in, a summary out."""

    def __init__(self) -> None:
        self.summarizer = Summarizer()

    def lead(self, text: str, words: int) -> str:
        """The first words of the document."""
        return " ".join(text.split()[:words])

    def extract(self, text: str, words: int) -> str:
        """The salient sentences, verbatim."""
        return self.summarizer.summarize(Document(text), style="extract", length=f"{words}w").text

    def awesum(self, text: str, words: int) -> str:
        """What `awesum summarize` writes."""
        return self.summarizer.summarize(Document(text), length=f"{words}w").text

    def se3(self, text: str, words: int) -> str:
        """The same model on the same segments, each alone, with equal shares and no salient content."""
        run = self.summarizer.start(Document(text), Settings(length=f"{words}w"))
        run._read()
        share = words / len(run.segments)
        chat = self.summarizer.chat
        request = "Summarize the current chunk."
        prompts = [
            Prompt(
                chat.prompt(f"{augment(text[segment.start : segment.end].strip())}\n\n{request}"),
                enough_words(share),
                24 + round(1.4 * 1.35 * share),
            )
            for segment in run.segments
        ]
        return "\n\n".join(" ".join(tidy(answer)) for answer in chat.write(prompts, SIDE_BY_SIDE))

    def truncated(self, text: str, words: int) -> str:
        """The same model on the document, cut to what its window takes beside the summary."""
        chat = self.summarizer.chat
        limit = 24 + round(1.4 * 1.35 * words)
        tokens = chat.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        room = chat.window - limit - (INPUT // 8)
        cut = tokens["offset_mapping"][: room + 1][-1][0] if len(tokens["input_ids"]) > room else len(text)
        prompt = Prompt(chat.prompt(f"{text[:cut]}\n\nSummarize the document."), enough_words(words), limit)
        return " ".join(tidy(next(chat.write([prompt]))))


def outputs(name: str, write: Callable[[str, int], str], chosen: list[Example], folder: Path) -> dict[str, str]:
    """The summaries of one system, those of an earlier run included."""
    path = folder / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = {row["id"]: row["summary"] for row in map(json.loads, lines)}
    for number, example in enumerate(chosen, 1):
        if example.id not in done:
            started = time.perf_counter()
            done[example.id] = write(example.document, count_words(example.summary))
            seconds = round(time.perf_counter() - started, 1)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": example.id, "summary": done[example.id], "seconds": seconds}) + "\n")
            print(f"{name}: {number} of {len(chosen)}, {seconds} s", file=sys.stderr, flush=True)
    return done


def scores(summaries: dict[str, str], chosen: list[Example]) -> NDArray[np.float64]:
    """R-1, R-2 and R-Lsum (F, stemmed, a sentence a line) and the length ratio, averaged over the documents."""
    scorer = RougeScorer(METRICS, use_stemmer=True)
    table = []
    for example in chosen:
        result = scorer.score(_lines(example.summary), _lines(summaries[example.id]))
        ratio = count_words(summaries[example.id]) / count_words(example.summary)
        table.append([*(100 * result[metric].fmeasure for metric in METRICS), ratio])
    return np.mean(table, axis=0)


def _lines(text: str) -> str:
    return "\n".join(" ".join(text[start:end].split()) for start, end in sentence_spans(text))


def main() -> int:
    """Write what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--longest", type=int, default=4_000, help="words of the longest document (%(default)s)")
    names = ["lead", "extract", "awesum", "se3", "truncated"]
    parser.add_argument("--systems", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--only-done", action="store_true", help="write nothing: score the documents that all systems have"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = evenly(options.data, options.documents, options.longest)
    systems = Systems()
    written = {
        name: outputs(name, getattr(systems, name), [] if options.only_done else chosen, options.out)
        for name in options.systems
    }
    chosen = [example for example in chosen if all(example.id in done for done in written.values())]
    print(f"{len(chosen)} documents\n{'system':<10} {'R-1':>6} {'R-2':>6} {'R-Lsum':>6} {'length':>6}")
    for name, done in written.items():
        r1, r2, rl, ratio = scores(done, chosen)
        print(f"{name:<10} {r1:6.2f} {r2:6.2f} {rl:6.2f} {ratio:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
