"""A shard: prepared documents in one Parquet file, with the digests of their examples.

One row per document. Sentences, segments and the oracle are lists of integers; the embeddings are one list of
half-precision numbers, sentence after sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 16
"""Documents per shard; the last shard of a split may have fewer."""


@dataclass(frozen=True, eq=False, slots=True)
class PreparedDocument:
    """An example with everything that is computed before training."""

    id: str
    document: str
    summary: str
    query: str | None
    sentences: list[tuple[int, int]]
    """Start and end of each sentence in `document`, in characters. They tile it."""
    tokens: list[int]
    """The length of each sentence, in tokens of the tokenizer it was prepared with."""
    segments: list[tuple[int, int]]
    """First and last sentence (exclusive) of each segment."""
    targets: list[str]
    """The part of the summary that each segment has to write."""
    coverage: float | None
    """The share of the summary's distinct words (ROUGE stems) that occur in the segment that has to write them; None if
    it has no such words."""
    oracle: list[int]
    """The sentences closest to the summary, in document order."""
    embeddings: NDArray[np.float16]
    """(N, d): one unit vector per sentence."""


@dataclass(frozen=True)
class Shard:
    """The content of one file."""

    documents: list[PreparedDocument]
    digests: list[str]
    """The digest of each document's example."""


def require() -> Any:
    """Import pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise AwesumError(
            "prepared documents are stored as Parquet with the library `pyarrow`, which is not installed: "
            "run `pip install 'awesum[data]'`"
        ) from error
    return pyarrow


def to_bytes(documents: Sequence[PreparedDocument], digests: Sequence[str]) -> bytes:
    """Serialize a shard."""
    arrow = require()
    numbers = arrow.list_(arrow.int32())
    columns = {
        "id": (arrow.string(), [document.id for document in documents]),
        "document": (arrow.string(), [document.document for document in documents]),
        "summary": (arrow.string(), [document.summary for document in documents]),
        "query": (arrow.string(), [document.query for document in documents]),
        "sentence_start": (numbers, [[start for start, _ in document.sentences] for document in documents]),
        "sentence_end": (numbers, [[end for _, end in document.sentences] for document in documents]),
        "sentence_tokens": (numbers, [document.tokens for document in documents]),
        "segment_first": (numbers, [[first for first, _ in document.segments] for document in documents]),
        "segment_last": (numbers, [[last for _, last in document.segments] for document in documents]),
        "targets": (arrow.list_(arrow.string()), [document.targets for document in documents]),
        "coverage": (arrow.float64(), [document.coverage for document in documents]),
        "oracle": (numbers, [document.oracle for document in documents]),
        "embeddings": (arrow.list_(arrow.float16()), [document.embeddings.ravel() for document in documents]),
    }
    schema = arrow.schema(
        [(name, kind) for name, (kind, _) in columns.items()], metadata={"digests": json.dumps(list(digests))}
    )
    table = arrow.Table.from_arrays([arrow.array(values, kind) for kind, values in columns.values()], schema=schema)
    written = arrow.BufferOutputStream()
    arrow.parquet.write_table(
        table,
        written,
        # Vectors look random: compression does not shrink them, and they never repeat.
        compression={name: "none" if name == "embeddings" else "zstd" for name in columns},
        use_dictionary=False,
        row_group_size=1,  # lets one document be read without the others
        write_page_checksum=True,
    )
    return bytes(written.getvalue().to_pybytes())


def read(path: Path) -> Shard:
    """Read all documents of a file; a damaged file raises an error before any is returned."""
    with _opened(path) as file:
        digests = json.loads(file.schema_arrow.metadata[b"digests"])
        documents = list(_documents(file))
        if len(digests) != len(documents):
            raise ValueError(f"{len(documents)} documents but {len(digests)} digests")
        return Shard(documents, digests)


def stream(path: Path) -> Iterator[PreparedDocument]:
    """Read the documents of a file one at a time; damage raises an error when it is reached."""
    with _opened(path) as file:
        yield from _documents(file)


def one(path: Path, row: int) -> PreparedDocument:
    """Read one document of a file without the others."""
    with _opened(path) as file:
        return next(_documents(file, [row]))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file, turning any error into a one-line `AwesumError`."""
    arrow = require()
    try:
        with (
            arrow.OSFile(str(path)) as file,
            arrow.parquet.ParquetFile(file, page_checksum_verification=True) as parquet,
        ):
            yield parquet
    except FileNotFoundError as error:
        raise AwesumError(f"{path} is missing: run the same `awesum data prepare` again to restore it") from error
    except (arrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise AwesumError(
            f"{path} is damaged ({why}): run the same `awesum data prepare` again to restore it"
        ) from error


@contextmanager
def _system_allocator() -> Iterator[None]:
    """Use the system allocator, which returns freed RAM: pyarrow's own keeps some of every document."""
    arrow = require()
    default = arrow.default_memory_pool()
    arrow.set_memory_pool(arrow.system_memory_pool())
    try:
        yield
    finally:
        arrow.set_memory_pool(default)


def _documents(file: Any, rows: Sequence[int] | None = None) -> Iterator[PreparedDocument]:
    for group in range(file.num_row_groups) if rows is None else rows:
        with _system_allocator():
            table = file.read_row_group(group, use_threads=False)
            table.validate(full=True)
            columns = {
                name: table.column(name).combine_chunks() if name == "embeddings" else table.column(name).to_pylist()
                for name in table.column_names
            }
        for row in range(table.num_rows):
            yield _document(columns, row)


def _document(columns: dict[str, Any], row: int) -> PreparedDocument:
    sentences = list(zip(columns["sentence_start"][row], columns["sentence_end"][row], strict=True))
    # A copy, so that keeping the vectors of one document does not keep those of the whole shard.
    vectors = columns["embeddings"][row].values.to_numpy(zero_copy_only=False).copy()
    return PreparedDocument(
        id=columns["id"][row],
        document=columns["document"][row],
        summary=columns["summary"][row],
        query=columns["query"][row],
        sentences=sentences,
        tokens=columns["sentence_tokens"][row],
        segments=list(zip(columns["segment_first"][row], columns["segment_last"][row], strict=True)),
        targets=columns["targets"][row],
        coverage=columns["coverage"][row],
        oracle=columns["oracle"][row],
        embeddings=vectors.reshape(len(sentences), -1),
    )
