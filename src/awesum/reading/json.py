"""JSON files: data, not prose. Refused, unless the user names the keys whose text is to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source
from awesum.reading.text import decode
from awesum.reading.text import read as read_text

SHOWN = 8
"""Keys in an error."""


def read(source: Source) -> Document:
    """Read the texts under some keys, wherever they are, in order."""
    text, notes = decode(source.data, source.charset)
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        if source.suffix == ".json" or source.content_type == "application/json":
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise AwesumError(
                f"{source.path} is not valid JSON ({reason}): mend it, or rename it to .txt to read it as text."
            ) from error
        return read_text(source)  # it only begins like JSON
    keys = list(dict.fromkeys(key for key, value in _items(data) if isinstance(value, str)))
    shown = ", ".join(keys[:SHOWN]) + (", ..." if len(keys) > SHOWN else "")
    if not source.fields:
        raise AwesumError(
            f"{source.path} holds data (JSON), not a text: name the keys whose text is to be read with --fields "
            f"(it has {shown or 'no texts'})."
        )
    if unknown := [field for field in source.fields if field not in keys]:
        raise AwesumError(f"{source.path} has no text under the key {unknown[0]!r}: it has {shown or 'none'}.")
    blocks = Blocks()
    for key, value in _items(data):
        if key in source.fields and isinstance(value, str):
            blocks.add(value)
    left_out = (f"of the data, only the texts under {', '.join(source.fields)} were read",)
    return Document(blocks.text, path=source.path, notes=(*notes, *left_out))


def _items(data: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, in order, however deep."""
    pending: list[Any] = [iter([("", data)])]
    while pending:
        for key, value in pending[-1]:
            if isinstance(value, dict):
                pending.append(iter(value.items()))
                break
            if isinstance(value, list):
                pending.append(iter([(key, item) for item in value]))
                break
            yield key, value
        else:
            pending.pop()
