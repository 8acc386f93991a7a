"""Writes minimal PDF files for tests: lines of Helvetica, one list of lines per page."""

from __future__ import annotations

from benchmarks.seeds import assemble_pdf


def write_pdf(pages: list[list[str]], trailer: str = "") -> bytes:
    """A PDF with the given lines on each page, 14 points apart."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * i} 0 R' for i in range(len(pages)))}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for i, lines in enumerate(pages):
        escaped = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in lines]
        stream = "BT /F1 10 Tf 50 800 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in escaped) + " ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    return assemble_pdf([body.encode("cp1252") for body in objects], trailer.encode())
