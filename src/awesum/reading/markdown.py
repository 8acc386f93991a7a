"""Markdown: the text of the rendered page, without markup, link targets and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awesum.document import Document
from awesum.reading.html import parse, visible_text
from awesum.reading.source import Source
from awesum.reading.text import decode

if TYPE_CHECKING:
    from markdown_it.token import Token

DEEPEST = 100
"""Levels of lists, quotes and brackets. By default the parser silently drops anything nested deeper than 20."""

_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w\"'-]+[ \t]*:|#)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_BRACKET = re.compile(r"[\[\]]|\n\s*\n")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.I)


def read(source: Source) -> Document:
    """Read the text without its markup."""
    text, notes = decode(source.data, source.charset)
    text = text.removeprefix("\ufeff")
    if front_matter := _FRONT_MATTER.match(text):
        text = text[front_matter.end() :]
        notes = (*notes, "the YAML front matter was left out")
    blocks = None if _is_tangled(text) else _blocks(text)
    if blocks is None:
        notes = (*notes, "the Markdown is nested too deeply to be understood: it was read as plain text")
        return Document(text, path=source.path, notes=notes)
    return Document("\n\n".join(blocks), path=source.path, notes=notes)


def _is_tangled(text: str) -> bool:
    """Whether too many brackets are left open: the parser's time grows with the square of their depth."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth = {"[": depth + 1, "]": max(0, depth - 1)}.get(match[0], 0)
        if depth > DEEPEST:
            return True
    return False


def _blocks(text: str) -> list[str] | None:
    """The blocks of the rendered page, or None if the parser dropped deeply nested ones."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"]).parse(text)
    if any(token.level >= DEEPEST - 1 for token in tokens):  # anything deeper was dropped
        return None
    return [block.strip("\n").rstrip() for block in _texts(tokens) if block.strip()]


def _texts(tokens: list[Token]) -> Iterator[str]:
    row: list[str] | None = None  # cells of the current table row
    for token in tokens:
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield " | ".join(row or [])
            row = None
        elif token.type == "inline" and row is not None:
            row.append(_inline(token.children or []))
        elif token.type == "inline":
            yield _inline(token.children or [])
        elif token.type in ("fence", "code_block"):
            yield token.content
        elif token.type == "html_block":
            yield visible_text(parse(f"<div>{token.content}</div>"))


def _inline(tokens: list[Token]) -> str:
    return "".join(map(_inline_text, tokens))


def _inline_text(token: Token) -> str:
    if token.type == "softbreak":
        return " "
    if token.type == "hardbreak" or (token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content)):
        return "\n"
    if token.type == "image":
        return _inline(token.children or [])
    return token.content if token.type in ("text", "code_inline", "text_special") else ""
