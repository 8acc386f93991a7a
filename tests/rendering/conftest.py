from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from awesum.document import Document, Segment
from awesum.summary import Figures, Part, Quote, Summary, SummarySentence

SENTENCES = [
    "The <script>alert('crane')</script> broke in 2015 & nobody saw it.\n\n",
    'A quay sank "slowly" into the harbour.  ',
    "The ferry <b>stayed</b> where it was.\n",
    "قررت اللجنة تأجيل الاجتماع. ",
    "国会は予算案を可決した。",
    "The last tax was paid at https://example.org/a?b=1&c=2 in May.\n",
]


def quote(index: int) -> Quote:
    start = len("".join(SENTENCES[:index]))
    text = SENTENCES[index].strip()
    return Quote(start, start + len(text), text)


def part(number: int, first: int, last: int, salient: list[int], sentences: list[tuple[str, int]]) -> Part:
    """A part for the sentences `first` to `last`; each summary sentence comes with the index of its source."""
    start, end = len("".join(SENTENCES[:first])), len("".join(SENTENCES[:last]))
    written = [SummarySentence(text, quote(index), 0.75) for text, index in sentences]
    text = " ".join(text for text, _ in sentences)
    return Part(text, number, start, end, [number + 1], [quote(index) for index in salient], written)


@pytest.fixture
def summary() -> Summary:
    """Three segments, the second without a part; markup, right-to-left text and a URL in the source."""
    text = "".join(SENTENCES)
    ends = [len("".join(SENTENCES[:last])) for last in (0, 2, 4, 6)]
    segments = [Segment(2 * n, 2 * n + 2, start, end, 10) for n, (start, end) in enumerate(pairwise(ends))]
    parts = [
        part(0, 0, 2, [0], [("A <script> crane\nbroke.", 0), ("A quay sank & stayed.", 1), ("It broke.", 0)]),
        part(2, 4, 6, [5], [("The tax was paid.", 5)]),
    ]
    document = Document(text, path="<i>report</i>.txt", page_starts=(0, ends[1], ends[2]), notes=("a <note>",))
    settings = {"length": "200w", "query": None, "style": "abstract", "max_memory": None, "model": "tiny"}
    return Summary(parts, document, 30, segments, Figures(30, 1.5, 1_100_000_000), settings, ["a <note>"])


@pytest.fixture
def interrupted(summary: Summary) -> Summary:
    return replace(summary, parts=summary.parts[:1], complete=False)


@pytest.fixture
def without_pages(summary: Summary) -> Summary:
    document = replace(summary.document, page_starts=())
    return replace(summary, document=document, parts=[replace(part, pages=[]) for part in summary.parts])
