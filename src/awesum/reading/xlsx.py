"""Excel workbooks: each sheet as a table, a row a line. There is little prose in them, and a note says so."""

from __future__ import annotations

import io

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source
from awesum.summary import count

MOST_CELLS = 5_000_000
"""Of one sheet. A single value in the last corner makes a sheet of 17 billion."""


def read(source: Source) -> Document:
    """Read a workbook."""
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    blocks = Blocks()
    rows = hidden = 0
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(source.data))
        for sheet in workbook.sheets_metadata:
            if sheet.typ != SheetTypeEnum.WorkSheet:
                continue
            hidden += sheet.visible != SheetVisibleEnum.Visible
            table = workbook.get_sheet_by_name(sheet.name)
            if table.height * table.width > MOST_CELLS:
                raise AwesumError(
                    f"{source.path}: the sheet {sheet.name!r} spans {table.height:,} rows and {table.width:,} columns, "
                    "too many to read: delete the empty ones, or save it as text."
                )
            heading = False
            for row in table.iter_rows():
                if cells := " | ".join(text for cell in row if (text := _text(cell))):
                    if not heading:
                        blocks.add(sheet.name, "heading", 1)
                        heading = True
                    blocks.add(cells, "table")
                    rows += 1
    except AwesumError:
        raise
    except BaseException as error:  # the library is written in Rust, and panics on some broken files
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise AwesumError(
            f"{source.path} is a damaged Excel workbook ({' '.join(str(error).split())[:200]}): open it in Excel, "
            "which may repair it, and save it."
        ) from error
    notes = [f"the workbook was read as {count(rows, 'row')} of tables: a summary of figures says little"]
    if hidden:
        notes.append(f"{hidden} hidden sheets were read, too")
    return Document(blocks.text, path=source.path, notes=tuple(notes), blocks=tuple(blocks.found))


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return " ".join(str(cell).split())
