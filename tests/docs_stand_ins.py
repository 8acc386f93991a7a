"""What the blocks of the docs find where they run: a user's small files, and tiny stand-ins for models and datasets.

A stand-in is a folder of the same name in the working folder, which awesum and the library take instead of the hub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.reading.pdf_writer import write_pdf

SAMPLE = Path(__file__).parent.parent / "samples" / "commercial-crew.txt"


def paragraphs(first: int, words: int) -> str:
    """Paragraphs of the sample from the `first` on, until there are so many words; plain ASCII, for a PDF."""
    text = SAMPLE.read_text(encoding="utf-8").replace("’", "'").replace("“", '"').replace("”", '"')
    lines = [line for line in text.encode("ascii", "ignore").decode().splitlines() if len(line.split()) > 20]
    taken: list[str] = []
    while sum(len(line.split()) for line in taken) < words:
        taken.append(lines[(first + len(taken)) % len(lines)])
    return "\n\n".join(taken)


def pdf(path: Path, first: int = 0, words: int = 280) -> None:
    text = re.sub(r"(.{60,90}) ", r"\1\n", paragraphs(first, words).replace("\n\n", "\n"))
    lines = text.splitlines()
    path.write_bytes(write_pdf([lines[start : start + 50] for start in range(0, len(lines), 50)]))


def docx(path: Path) -> None:
    from docx import Document

    document = Document()
    for paragraph in paragraphs(8, 300).split("\n\n"):
        document.add_paragraph(paragraph)
    document.save(str(path))


def folder(path: Path) -> None:
    path.mkdir()
    pdf(path / "first.pdf", 0, 200)
    (path / "second.md").write_text(f"# A report\n\n{paragraphs(12, 200)}\n")


def row(number: int, **fields: str) -> dict[str, str]:
    """A short document, and two of its sentences as a summary."""
    sentences = paragraphs(5 * number, 150).replace("\n\n", " ").split(". ")[:6]
    document = ". ".join(sentences) + "."
    summary = f"{sentences[1]}. {sentences[4]}."
    return {"id": f"report-{number}", "document": document, "summary": summary, **fields}


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def references(path: Path) -> None:
    write_rows(path, [row(number) for number in range(4)])


def predictions(start: int, numbers: Sequence[int] = range(4)) -> Callable[[Path], None]:
    """The beginning of each document, from a sentence on."""

    def write(path: Path) -> None:
        rows = [row(number) for number in numbers]
        texts = [". ".join(each["document"].split(". ")[start : start + 2]) + "." for each in rows]
        write_rows(path, [{"id": each["id"], "summary": text} for each, text in zip(rows, texts, strict=True)])

    return write


FILES: dict[str, Callable[[Path], None]] = {
    "report.pdf": pdf,
    "a.pdf": lambda path: pdf(path, 4, 250),
    "b.docx": docx,
    "notes.md": lambda path: path.write_text(f"# Notes\n\n{paragraphs(20, 300)}\n"),
    "reports": folder,
    "references.jsonl": references,
    "ours.jsonl": predictions(0),
    "se3.jsonl": predictions(1),
    "lead.jsonl": predictions(2),
    "pagesum.jsonl": predictions(1, range(2, 4)),  # of a dataset's validation split
}
"""The files of a user, made where a block names them, unless the block itself writes them."""


def dataset(path: Path, query: str = "") -> None:
    path.mkdir()
    fields = {"query": query} if query else {}
    for number, split in enumerate(("train", "validation", "test")):
        write_rows(path / f"{split}.jsonl", [row(2 * number + each, **fields) for each in range(2)])
