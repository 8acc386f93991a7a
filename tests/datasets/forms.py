"""Rows for tests, and the file formats they may come in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from awesum.errors import AwesumError

ROWS = [{"id": f"r{number}", "document": f"Document {number}. 国会", "summary": f"S {number}."} for number in range(7)]


def plain(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def long_zstd(data: bytes) -> bytes:
    """With the window of `zstd --long=27`, streamed, so that the content size is not recorded."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(data) + compressor.flush()


def written(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(AwesumError) as error:
        call()
    message = str(error.value)
    assert "\n" not in message
    return message


FORMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "plain": ("train.jsonl", bytes),
    "zstd": ("train.jsonl.zst", zstd),
    "zstd with a long window": ("train.jsonl.zst", long_zstd),
    "zstd of two frames": ("train.jsonl.zst", lambda data: zstd(data[:100]) + zstd(data[100:])),
    "gzip": ("train.jsonl.gz", gzip.compress),
    "gzip of two members": ("train.jsonl.gz", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
}

DAMAGED = [
    ("train.jsonl.zst", zstd(plain(ROWS))[:-20]),
    ("train.jsonl.zst", zstd(plain(ROWS))[:3]),
    ("train.jsonl.zst", plain(ROWS)),
    ("train.jsonl.zst", zstd(plain(ROWS)) + b"garbage"),
    ("train.jsonl.gz", gzip.compress(plain(ROWS))[:-20]),
    ("train.jsonl.gz", gzip.compress(plain(ROWS))[:-5] + b"wrong"),
    ("train.jsonl.gz", plain(ROWS)),
]
