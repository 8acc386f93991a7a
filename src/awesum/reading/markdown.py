"""Markdown: the text of the rendered page, without markup, link targets and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awesum.document import Document, Kind
from awesum.reading.blocks import Blocks
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
    return Document(blocks.text, path=source.path, notes=notes, blocks=tuple(blocks.found))


def _is_tangled(text: str) -> bool:
    """Whether too many brackets are left open: the parser's time grows with the square of their depth."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth = {"[": depth + 1, "]": max(0, depth - 1)}.get(match[0], 0)
        if depth > DEEPEST:
            return True
    return False


def _blocks(text: str) -> Blocks | None:
    """The blocks of the rendered page, or None if the parser dropped deeply nested ones."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"]).parse(text)
    if any(token.level >= DEEPEST - 1 for token in tokens):  # anything deeper was dropped
        return None
    blocks = Blocks()
    for block, kind, level in _texts(tokens):
        blocks.add(block, kind, level)
    return blocks


def _texts(tokens: list[Token]) -> Iterator[tuple[str, Kind | None, int]]:
    row: list[str] | None = None  # cells of the current table row
    heading = depth = 0  # the level of the current heading, and of the current list
    for token in tokens:
        if token.type == "heading_open":
            heading = int(token.tag[1])
        elif token.type == "heading_close":
            heading = 0
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            depth -= 1
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield " | ".join(row or []), "table", 0
            row = None
        elif token.type == "inline" and row is not None:
            row.append(_inline(token.children or []))
        elif token.type == "inline":
            text = _inline(token.children or [])
            yield (text, "heading", heading) if heading else (text, "list" if depth else None, depth)
        elif token.type in ("fence", "code_block"):
            yield token.content.strip("\n").rstrip(), None, 0
        elif token.type == "html_block":
            yield visible_text(parse(f"<div>{token.content}</div>")), None, 0


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
