"""CSV files: rows of values, not prose. Refused, unless the user names the columns whose text is to be read."""

from __future__ import annotations

import csv
import io

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source
from awesum.reading.text import decode

LONGEST_VALUE = 10_000_000
"""Characters of one value."""
SHOWN = 8
"""Names of columns in an error."""


def read(source: Source) -> Document:
    """Read the text of some columns, each row a paragraph."""
    text, notes = decode(source.data, source.charset)
    csv.field_size_limit(LONGEST_VALUE)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel_tab if source.suffix == ".tsv" else csv.excel
    try:
        rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), dialect)
        header = [name.strip() for name in next(rows, [])]
        columns = _columns(source, header)
        blocks = Blocks()
        number = 0
        for row in rows:
            number += 1
            for column in columns:
                blocks.add(row[column] if column < len(row) else "")
    except csv.Error as error:
        raise AwesumError(f"{source.path} is a damaged CSV file ({error}): save it again.") from error
    read_of = ", ".join(header[column] for column in columns)
    left_out = (f"of {number:,} rows, only the columns {read_of} were read",)
    return Document(blocks.text, path=source.path, notes=(*notes, *left_out), blocks=tuple(blocks.found))


def _columns(source: Source, header: list[str]) -> list[int]:
    shown = ", ".join(header[:SHOWN]) + (", ..." if len(header) > SHOWN else "")
    if not source.fields:
        raise AwesumError(
            f"{source.path} is a table (CSV), not a text: name the columns whose text is to be read with "
            f"--fields (it has {shown})."
        )
    names = [name.casefold() for name in header]
    unknown = [field for field in source.fields if field.casefold() not in names]
    if unknown:
        raise AwesumError(f"{source.path} has no column {unknown[0]!r}: it has {shown}.")
    return [names.index(field.casefold()) for field in source.fields]
