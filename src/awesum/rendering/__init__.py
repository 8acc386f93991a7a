"""Render a summary as plain text, Markdown, JSON or one HTML page. Text and Markdown can be rendered part by part."""

from __future__ import annotations

import json
from typing import Literal

from awesum.summary import Part, Summary, count

Format = Literal["text", "markdown", "html", "json"]
SUFFIX: dict[Format, str] = {"text": ".txt", "markdown": ".md", "html": ".html", "json": ".json"}


def render(summary: Summary, form: Format) -> str:
    """The whole summary in one of the formats."""
    if form == "json":
        return json.dumps(summary.to_dict(), ensure_ascii=False, indent=2) + "\n"
    if form == "html":
        from awesum.rendering.html import page

        return page(summary)
    partial = (
        "" if summary.complete else f"\n[interrupted after {count(len(summary.parts), 'part')}: the rest is missing]\n"
    )
    return "\n".join(render_part(part, form) for part in summary.parts) + partial


def render_part(part: Part, form: Format) -> str:
    """One part, exactly as in the full text or Markdown."""
    text = " ".join(part.text.split())
    return f"{text} *({where(part)})*\n" if form == "markdown" else f"{text}\n"


def where(part: Part) -> str:
    """`pages 3-4`, or `segment 2` if the document has no pages."""
    if not part.pages:
        return f"segment {part.segment + 1}"
    first, last = part.pages[0], part.pages[-1]
    return f"page {first}" if first == last else f"pages {first}-{last}"
