"""A row of the result: a summary with its parts, its sources, its figures and its notes, or the error of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from awesum.corpus.source import Item, require
from awesum.files import shown
from awesum.length import count_words
from awesum.settings import Settings

if TYPE_CHECKING:
    from awesum.summary import Summary


def schema() -> Any:
    """The columns of the result."""
    arrow = require()
    text, number, real = arrow.string(), arrow.int64(), arrow.float64()
    span = [("start", number), ("end", number)]
    part = arrow.struct(
        [
            ("text", text),
            ("segment", number),
            *span,
            ("pages", arrow.list_(number)),
            ("salient", arrow.list_(arrow.struct(span))),
        ]
    )
    sentence = arrow.struct(
        [("segment", number), ("text", text), *span, ("source", text), ("similarity", real), ("support", real)]
    )
    figures = arrow.struct(
        [
            ("words", number),
            ("tokens", number),
            ("segments", number),
            ("seconds", real),
            ("peak_memory_bytes", number),
        ]
    )
    return arrow.schema(
        [
            ("id", text),
            ("document", text),
            ("file", text),
            ("row", number),
            ("query", text),
            ("summary", text),
            ("parts", arrow.list_(part)),
            ("provenance", arrow.list_(sentence)),
            ("figures", figures),
            ("settings", text),
            ("notes", arrow.list_(text)),
            ("error", text),
        ]
    )


def written(item: Item, summary: Summary) -> dict[str, Any]:
    """The row of a summary. Spans are in characters of the document's text."""
    import json

    return _row(item) | {
        "query": item.query or summary.settings.get("query"),
        "summary": summary.text,
        "parts": [
            {
                "text": part.text,
                "segment": part.segment,
                "start": part.start,
                "end": part.end,
                "pages": part.pages,
                "salient": [{"start": quote.start, "end": quote.end} for quote in part.salient],
            }
            for part in summary.parts
        ],
        "provenance": [
            {
                "segment": part.segment,
                "text": sentence.text,
                "start": sentence.source.start,
                "end": sentence.source.end,
                "source": sentence.source.text,
                "similarity": sentence.similarity,
                "support": sentence.support,
            }
            for part in summary.parts
            for sentence in part.sentences
        ],
        "figures": {
            "words": count_words(summary.text),
            "tokens": summary.tokens,
            "segments": len(summary.segments),
            "seconds": summary.figures.seconds,
            "peak_memory_bytes": summary.figures.peak_memory_bytes,
        },
        "settings": json.dumps(summary.settings, sort_keys=True),
        "notes": summary.notes,
    }


def failed(item: Item, error: str, settings: Settings) -> dict[str, Any]:
    """The row of a document that could not be summarized."""
    import json

    return _row(item) | {"settings": json.dumps(asdict(settings), sort_keys=True), "error": shown(error)}


def _row(item: Item) -> dict[str, Any]:
    return {"id": item.id, "document": shown(item.name), "file": shown(item.file), "row": item.row, "query": item.query}


def to_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows as they go from a worker to the process that writes them."""
    arrow = require()
    kind = schema()
    columns = [arrow.array([row.get(name) for row in rows], kind.field(name).type) for name in kind.names]
    stream = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(stream, kind) as writer:
        writer.write_table(arrow.Table.from_arrays(columns, schema=kind))
    return bytes(stream.getvalue().to_pybytes())


def from_bytes(content: bytes) -> Any:
    """The table of `to_bytes`."""
    return require().ipc.open_stream(content).read_all()


def join(tables: Sequence[bytes]) -> bytes:
    """Several results of `to_bytes` as one."""
    arrow = require()
    stream = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(stream, schema()) as writer:
        for table in tables:
            writer.write_table(from_bytes(table))
    return bytes(stream.getvalue().to_pybytes())
