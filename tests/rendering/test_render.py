from __future__ import annotations

import json

import pytest

from awesum.rendering import SUFFIX, render, render_part, where
from awesum.summary import Summary


def test_json_has_the_documented_keys(summary: Summary) -> None:
    data = json.loads(render(summary, "json"))
    assert {"summary", "parts", "document", "figures", "settings"} <= data.keys()
    for part in data["parts"]:
        assert {"text", "segment", "start", "end", "pages", "salient"} <= part.keys()
    assert data["document"].keys() == {"path", "characters", "tokens", "segments"}
    assert data["figures"].keys() == {"tokens_read", "seconds", "peak_memory_bytes"}
    assert {"length", "query", "style", "max_memory", "model"} <= data["settings"].keys()


def test_json_matches_the_summary(summary: Summary) -> None:
    data = json.loads(render(summary, "json"))
    assert data["summary"] == summary.text
    assert [part["text"] for part in data["parts"]] == [part.text for part in summary.parts]
    assert data["document"]["characters"] == len(summary.document.text)
    assert data["document"]["segments"] == [[segment.start, segment.end] for segment in summary.segments]
    assert data["complete"] is True
    text = summary.document.text
    for part in data["parts"]:
        for quote in part["salient"]:
            assert text[quote["start"] : quote["end"]] == quote["text"]


def test_text_has_one_paragraph_per_part(summary: Summary) -> None:
    assert render(summary, "text") == ("A <script> crane broke. A quay sank & stayed. It broke.\n\nThe tax was paid.\n")


def test_markdown_gives_the_place_of_each_part(summary: Summary, without_pages: Summary) -> None:
    assert "The tax was paid. *(page 3)*\n" in render(summary, "markdown")
    assert "The tax was paid. *(segment 3)*\n" in render(without_pages, "markdown")


def test_whole_text_is_its_parts_with_a_blank_line_between(summary: Summary) -> None:
    for form in ("text", "markdown"):
        assert render(summary, form) == "\n".join(render_part(part, form) for part in summary.parts)


@pytest.mark.parametrize(("pages", "place"), [([], "segment 1"), ([3], "page 3"), ([3, 4, 5], "pages 3-5")])
def test_place_is_the_pages_or_else_the_segment(summary: Summary, pages: list[int], place: str) -> None:
    from dataclasses import replace

    assert where(replace(summary.parts[0], pages=pages)) == place


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_interrupted_summary_is_marked_as_such(form: str, interrupted: Summary, summary: Summary) -> None:
    assert "interrupted" in render(interrupted, form).lower()
    assert "interrupted" not in render(summary, form).lower()


def test_interrupted_summary_is_marked_as_such_in_json(interrupted: Summary) -> None:
    assert json.loads(render(interrupted, "json"))["complete"] is False


def test_every_format_has_its_own_suffix(summary: Summary) -> None:
    assert len(set(SUFFIX.values())) == 4
    for form in SUFFIX:
        assert render(summary, form).endswith("\n")


def test_closing_line_has_the_figures(summary: Summary) -> None:
    line = summary.closing_line()
    assert line.startswith("read 30 of 30 tokens in 3 segments")
    assert "peak 1.1 GB" in line


def test_summary_prints_as_its_text(summary: Summary) -> None:
    assert (
        str(summary) == summary.text == "A <script> crane broke. A quay sank & stayed. It broke.\n\nThe tax was paid."
    )
