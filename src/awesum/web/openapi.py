"""The description of the API in the form of OpenAPI, which the page at `/api` shows and other programs read."""

from __future__ import annotations

from typing import Any

from awesum.summary import SCHEMA
from awesum.version import __version__

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


_TEXT, _NUMBER, _INTEGER, _FLAG = ({"type": name} for name in ("string", "number", "integer", "boolean"))
_TEXT_OR_NONE, _NUMBER_OR_NONE = {"type": ["string", "null"]}, {"type": ["number", "null"]}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: dict[str, Any] = {
    "Error": _object({"error": _TEXT}, ["error"]),
    "Document": _object(
        {
            "id": _TEXT,
            "name": _TEXT,
            "created": _NUMBER,
            "characters": _INTEGER,
            "words": _INTEGER,
            "page_starts": _list(_INTEGER),
            "page_sizes": _list(_list(_NUMBER)),
            "notes": _list(_TEXT),
        }
    ),
    "Quote": _object({"start": _INTEGER, "end": _INTEGER, "text": _TEXT}),
    "Sentence": _object({"text": _TEXT, "source": _reference("Quote"), "similarity": _NUMBER, "support": _NUMBER}),
    "Part": _object(
        {
            "text": _TEXT,
            "segment": _INTEGER,
            "start": _INTEGER,
            "end": _INTEGER,
            "pages": _list(_INTEGER),
            "salient": _list(_reference("Quote")),
            "sentences": _list(_reference("Sentence")),
        }
    ),
    "Summary": _object(
        {
            "schema": {"const": SCHEMA},
            "summary": _TEXT,
            "complete": _FLAG,
            "parts": _list(_reference("Part")),
            "document": _object(
                {"path": _TEXT, "characters": _INTEGER, "tokens": _INTEGER, "segments": _list(_list(_INTEGER))}
            ),
            "figures": _object({"tokens_read": _INTEGER, "seconds": _NUMBER, "peak_memory_bytes": _INTEGER}),
            "settings": {"type": "object"},
            "notes": _list(_TEXT),
        }
    ),
    "Record": _object(
        {
            "id": _TEXT,
            "document": _TEXT,
            "name": _TEXT,
            "created": _NUMBER,
            "length": _TEXT_OR_NONE,
            "query": _TEXT_OR_NONE,
            "style": _TEXT_OR_NONE,
            "strict": _FLAG,
            "state": {"enum": ["waiting", "reading", "writing", "done", "stopped", "failed"]},
            "error": _TEXT_OR_NONE,
            "is_watched": _FLAG,
            "finished": _NUMBER_OR_NONE,
            "opening": _TEXT,
        }
    ),
    "Wanted": _object(
        {
            "document": _TEXT,
            "length": {"type": ["string", "integer", "null"], "description": "200 or 200w, 12s, 5%, auto"},
            "query": _TEXT_OR_NONE,
            "style": {"enum": ["extract", "abstract", None]},
            "strict": _FLAG,
        },
        ["document"],
    ),
    "Spans": _object({"spans": _list(_list(_INTEGER))}, ["spans"]),
    "Boxes": _object(
        {
            "spans": _list(
                _object({"located": _FLAG, "pages": _list(_object({"page": _INTEGER, "boxes": _list(_list(_NUMBER))}))})
            )
        }
    ),
}


def _answer(text: str, schema: dict[str, Any] | None = None, kind: str = "application/json") -> dict[str, Any]:
    return {"description": text} | ({"content": {kind: {"schema": schema}}} if schema else {})


def _operation(summary: str, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    refused = {"401": _answer("No token, or a wrong one", _reference("Error"))}
    return {"summary": summary, "responses": answers | refused} | more


def _query(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": _TEXT}


_SUMMARY_OR_NONE = {"anyOf": [_reference("Summary"), {"type": "null"}]}
_GONE = {"404": _answer("There is none", _reference("Error"))}
_WRONG = {"422": _answer("What is wrong, in one line", _reference("Error"))}
_BUSY = {"429": _answer("Too many are waiting: Retry-After has the seconds", _reference("Error"))}
_EVENTS = _answer(
    "Server-sent events: `part` for each part, with a number by which to resume; `state` and `progress` on the way; at "
    "the end `done`, `stopped` or `failed`, with the summary",
    _TEXT,
    "text/event-stream",
)

PATHS: dict[str, Any] = {
    "/api/documents": {
        "post": _operation(
            "Read a document: a file as it is, or JSON with a text or a url",
            {"201": _answer("The document", _reference("Document")), "413": _answer("Larger than --max-upload")}
            | _WRONG
            | _BUSY,
            parameters=[_query("name", "the name of the file; its ending is a hint at the format")],
            requestBody={
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                    "application/json": {"schema": _object({"text": _TEXT, "url": _TEXT, "name": _TEXT})},
                }
            },
        ),
        "get": _operation(
            "All documents, the newest first", {"200": _answer("Documents", _list(_reference("Document")))}
        ),
    },
    "/api/documents/{id}": {
        "get": _operation("A document", {"200": _answer("The document", _reference("Document"))} | _GONE),
        "delete": _operation("Delete a document and its summaries", {"204": _answer("Deleted")} | _GONE),
        "parameters": [_ID],
    },
    "/api/documents/{id}/text": {
        "get": _operation(
            "The text, to which all spans refer by character", {"200": _answer("Text", _TEXT, "text/plain")}
        ),
        "parameters": [_ID],
    },
    "/api/documents/{id}/pages/{page}": {
        "get": _operation("A page of a PDF as an image", {"200": _answer("The image", _TEXT, "image/jpeg")} | _GONE,
                          parameters=[_query("width", "pixels")]),
        "parameters": [_ID, {"name": "page", "in": "path", "required": True, "schema": _INTEGER}],
    },
    "/api/documents/{id}/boxes": {
        "post": _operation(
            "Where spans of the text stand on the pages of a PDF: left, top, right and bottom as fractions of the page",
            {"200": _answer("Boxes", _reference("Boxes"))} | _GONE | _WRONG,
            requestBody={"content": {"application/json": {"schema": _reference("Spans")}}},
        ),
        "parameters": [_ID],
    },
    "/api/summaries": {
        "post": _operation(
            "Ask for a summary. With `Accept: text/event-stream` it is written while you watch, and stops when you "
            "leave; otherwise it is written in any case",
            {"200": _EVENTS, "202": _answer("It will be written", _reference("Record"))} | _GONE | _WRONG | _BUSY,
            requestBody={"content": {"application/json": {"schema": _reference("Wanted")}}},
        ),
        "get": _operation(
            "All summaries, the newest first",
            {"200": _answer("Summaries", _list(_reference("Record")))},
            parameters=[_query("search", "words of the name, the question or the text")],
        ),
    },
    "/api/summaries/{id}": {
        "get": _operation(
            "A summary and its state; `summary` is what `awesum summarize --json` prints",
            {
                "200": _answer(
                    "The summary",
                    {"allOf": [_reference("Record"), _object({"summary": _SUMMARY_OR_NONE})]},
                )
            }
            | _GONE,
        ),
        "delete": _operation("Delete a summary; a running one is stopped", {"204": _answer("Deleted")} | _GONE),
        "parameters": [_ID],
    },
    "/api/summaries/{id}/events": {
        "get": _operation(
            "Follow a summary from `Last-Event-ID` on; one that was stopped is resumed",
            {"200": _EVENTS} | _GONE | _BUSY,
            parameters=[{"name": "Last-Event-ID", "in": "header", "schema": _INTEGER}],
        ),
        "parameters": [_ID],
    },
    "/api/summaries/{id}/stop": {
        "post": _operation("Stop writing, and keep what is there", {"202": _answer("It will stop")} | _GONE),
        "parameters": [_ID],
    },
    "/api/summaries/{id}/export": {
        "get": _operation(
            "A summary as a file",
            {"200": _answer("The file", _TEXT, "*/*"), "409": _answer("Nothing is written yet")} | _GONE,
            parameters=[_query("format", "text, markdown, html, json or docx")],
        ),
        "parameters": [_ID],
    },
    "/api/history": {"delete": _operation("Delete all documents and summaries", {"204": _answer("Deleted")})},
    "/api/status": {"get": _operation("What this server can do", {"200": _answer("The status", {"type": "object"})})},
}  # fmt: skip


def description() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "awesum",
            "version": __version__,
            "description": "Summaries of documents of any length, on your own machine. Every request carries the token "
            "that `awesum serve` prints, as `Authorization: Bearer TOKEN`.",
        },
        "paths": PATHS,
        "components": {"schemas": SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }
