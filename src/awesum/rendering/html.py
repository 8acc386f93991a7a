"""One self-contained page: the summary next to the source, with the selected sentences highlighted.

Each sentence of the summary links to the source sentence that supports it. The page uses no scripts and loads nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from html import escape

from awesum.summary import Part, Summary

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fcfcfa; --soft: #667; --line: #d9dbe0; --mark: #fff1b8;
  --here: #ffd34d; --link: #1a4f9c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --paper: #15181d; --soft: #99a; --line: #333a44;
  --mark: #4a4116; --here: #7a6710; --link: #8ab6ff; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 16px/1.6 Georgia, "Times New Roman", serif; }
header, footer { padding: 1rem 1.5rem; color: var(--soft); font: 13px/1.5 system-ui, sans-serif; }
header h1 { margin: 0; color: var(--ink); font-size: 18px; overflow-wrap: anywhere; }
main { display: grid; grid-template-columns: minmax(20rem, 2fr) 3fr; border-block: 1px solid var(--line); }
section { padding: 1rem 1.5rem; overflow-y: auto; height: calc(100vh - 8.5rem); }
section + section { border-left: 1px solid var(--line); }
h2 { font: 600 13px/1.5 system-ui, sans-serif; color: var(--soft); margin: 0 0 .5rem; }
#summary a { color: inherit; text-decoration: none; border-bottom: 1px dotted var(--link); }
#summary a:hover, #summary a:focus { background: var(--mark); }
#summary .where { color: var(--soft); font: 12px system-ui, sans-serif; border: 0; white-space: nowrap; }
#source { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 14px; }
#source .segment { display: block; border-left: 3px solid transparent; padding-left: .75rem; margin-bottom: .75rem; }
#source .segment:target { border-color: var(--here); }
#source .name { color: var(--soft); font: 12px system-ui, sans-serif; display: block; }
mark { background: var(--mark); color: inherit; }
span:target, mark:target { background: var(--here); scroll-margin-top: 30vh; }
@media (max-width: 50rem) { main { grid-template-columns: 1fr; } section { height: auto; }
  section + section { border-left: 0; border-top: 1px solid var(--line); } }
"""


def page(summary: Summary) -> str:
    """The whole page as HTML."""
    document = summary.document
    notes = "".join(f"<br>Note: {escape(note)}" for note in summary.notes)
    interrupted = "" if summary.complete else "<p><em>Interrupted: the rest of the summary is missing.</em></p>"
    return f"""{opening(f"Summary of {escape(document.path)}", _STYLE)}
<header><h1>Summary of {escape(document.path)}</h1>Click a sentence to see its source. Highlighted in the source: the
selected sentences.</header>
<main>
<section id="summary"><h2>Summary</h2>
{"".join(_paragraph(part) for part in summary.parts)}{interrupted}</section>
<section id="source"><h2>Source</h2>{"".join(_source(summary))}</section>
</main>
<footer>{escape(summary.closing_line())}{notes}</footer>
</body>
</html>
"""


def opening(title: str, style: str) -> str:
    """The start of an HTML page, up to and including `<body>`."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="awesum">
<title>{title}</title>
<style>{style}</style>
</head>
<body>"""


def _paragraph(part: Part) -> str:
    from awesum.rendering import where

    sentences = " ".join(
        f'<a href="#c{sentence.source.start}" title="support {sentence.support:.2f}">{escape(sentence.text)}</a>'
        for sentence in part.sentences
    )
    return f'<p dir="auto">{sentences} <a class="where" href="#s{part.segment + 1}">{where(part)}</a></p>\n'


def _source(summary: Summary) -> Iterator[str]:
    """The source, segment by segment: selected sentences as `<mark>`, other link targets as `<span>`."""
    text = summary.document.text
    salient = {quote.start: (quote.end, "mark") for part in summary.parts for quote in part.salient}
    sources = {s.source.start: (s.source.end, "span") for part in summary.parts for s in part.sentences}
    quotes = deque(sorted((sources | salient).items()))
    for number, segment in enumerate(summary.segments, 1):
        pages = summary.document.pages(segment.start, segment.end)
        name = f"segment {number}" + (f", page {pages[0]}" if pages else "")
        yield f'<span class="segment" id="s{number}" dir="auto"><span class="name">{name}</span>'
        at = segment.start
        while quotes and quotes[0][0] < segment.end:
            start, (end, tag) = quotes.popleft()
            yield f'{escape(text[at:start])}<{tag} id="c{start}">{escape(text[start:end])}</{tag}>'
            at = end
        yield f"{escape(text[at : segment.end].rstrip())}</span>"
