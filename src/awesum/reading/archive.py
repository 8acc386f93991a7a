"""ZIP archives with XML in them (DOCX, PPTX, XLSX, ODT, EPUB): refuse those that are made to exhaust a machine.

Sizes in an archive's directory may lie, so the XML is unpacked once, piece by piece, before any library sees it.
"""

from __future__ import annotations

import io
import re
import zipfile

from awesum.errors import AwesumError
from awesum.reading.source import Source

UNPACKED_LIMIT = 1_000_000_000
"""Bytes. An archive that unpacks to more is a zip bomb or full of video, not a text."""
XML_LIMIT = 300_000_000
"""Bytes of XML, in all parts together."""
ELEMENT_LIMIT = 3_000_000
"""Elements of XML, in all parts together: a tree of them takes about 500 MB."""
CHUNK = 1 << 16

_XML = re.compile(r"\.(?:xml|rels|xhtml|html?|opf|ncx|vml)$", re.I)
_ELEMENT = re.compile(rb"<[A-Za-z_]")


def open_archive(source: Source) -> zipfile.ZipFile:
    """Open an archive, or raise the error that says what is wrong with it."""
    try:
        return zipfile.ZipFile(io.BytesIO(source.data))
    except MemoryError:
        raise
    except Exception as error:  # zipfile raises a dozen kinds on broken archives
        raise damaged(source, error) from error


def beginning(archive: zipfile.ZipFile, name: str, size: int = 100) -> bytes:
    """The first bytes of a member, however large it is; none if there is no such member."""
    try:
        with archive.open(name) as member:
            return member.read(size)
    except KeyError:
        return b""


def check(source: Source, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that unpacks to too much, that lies about it, or whose XML has too many elements."""
    members = archive.infolist()
    if (unpacked := sum(member.file_size for member in members)) > UNPACKED_LIMIT:
        raise AwesumError(
            f"{source.path} would unpack to {unpacked / 1e9:,.1f} GB, more than the limit of "
            f"{UNPACKED_LIMIT / 1e9:.0f} GB: remove its pictures and videos, or save it as text."
        )
    size = elements = 0
    for member in members:
        if not _XML.search(member.filename):
            continue
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise damaged(source, f"{member.filename} is packed in an unusual way")
        try:
            with archive.open(member) as file:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    elements += len(_ELEMENT.findall(chunk))
                    _check_xml(source, size, elements)
        except (AwesumError, MemoryError):
            raise
        except Exception as error:  # among them the wrong checksum of a member that is larger than it says
            raise damaged(source, error) from error


def _check_xml(source: Source, size: int, elements: int) -> None:
    if size > XML_LIMIT or elements > ELEMENT_LIMIT:
        what = f"{XML_LIMIT / 1e6:,.0f} MB" if size > XML_LIMIT else f"{ELEMENT_LIMIT:,} elements"
        raise AwesumError(
            f"{source.path} has more than {what} of XML, which no reader could hold in memory: save it as text."
        )


def damaged(source: Source, why: object) -> AwesumError:
    """The error for an archive that cannot be unpacked."""
    return AwesumError(
        f"{source.path} is a damaged Office, EPUB or ZIP file ({' '.join(str(why).split())}): it may be truncated, "
        "download it again."
    )
