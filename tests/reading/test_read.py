"""`read` finds the right reader, or refuses in one line that says why."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from awesum.errors import AwesumError
from awesum.reading import parse, read, readable_files
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source


def refusal(path: Path) -> str:
    with pytest.raises(AwesumError) as error:
        read(path)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_document_keeps_the_name_the_user_gave(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello.")
    assert read(tmp_path / "a.txt").path == str(tmp_path / "a.txt")
    assert read(str(tmp_path / "a.txt")).text == "Hello."


def test_standard_input_is_read_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xef\xbb\xbfHello\r\nyou.")))
    document = read("-")
    assert (document.path, document.text) == ("-", "Hello\nyou.")


def test_empty_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(AwesumError, match="Standard input is empty"):
        read("-")


def test_content_decides_before_the_suffix(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("<!-- x -->\n<!DOCTYPE html><html><body><p>Hello &amp; goodbye.</p></body></html>")
    assert read(page).text == "Hello & goodbye."


def test_suffix_decides_if_content_does_not(tmp_path: Path) -> None:
    for name, expected in (("a.md", "Title"), ("a.MD", "Title"), ("a.txt", "# Title"), ("a", "# Title")):
        (tmp_path / name).write_text("# Title")
        assert read(tmp_path / name).text == expected


def test_missing_file_suggests_the_near_miss(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text("x")
    assert f"Did you mean {tmp_path / 'report.txt'}?" in refusal(tmp_path / "Reprot.txt")
    assert "Did you mean" not in refusal(tmp_path / "zzzz")
    assert "no folder" in refusal(tmp_path / "nowhere" / "report.txt")


def test_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


def test_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError

    # Not chmod(0): tests in containers often run as root, who may read everything.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    path = tmp_path / "secret.txt"
    path.write_text("x")
    with pytest.raises(AwesumError, match="permissions"):
        parse(Source(b"", path=str(path), file=str(path)))


def test_empty_path_is_an_error_and_not_the_current_folder() -> None:
    with pytest.raises(AwesumError, match="the path is empty"):
        read("")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_closed_standard_input_is_one_line() -> None:
    code = "from awesum.reading import read; read('-')"
    done = subprocess.run(f'{sys.executable} -c "{code}" <&-', shell=True, capture_output=True, text=True, check=False)
    assert "AwesumError: standard input is closed" in done.stderr


def test_endless_standard_input_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"y\n" * (size // 2)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Endless()))
    with pytest.raises(AwesumError, match="perhaps no end"):
        read("-", ReadLimits(memory=200_000_000))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_endless_device_is_refused() -> None:
    assert "is a device" in refusal(Path("/dev/zero"))


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), "x")  # without the time of day, which would be in the tests' names
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("empty.txt", b"", "is empty"),
        ("blank.txt", b" \n\t\n", "nothing but white space"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "an old Word"),
        ("locked.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "protected by a password"),
        ("image.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 99, "a PNG image"),
        ("photo.txt", b"\xff\xd8\xff\xe0rest", "a JPEG image"),
        ("nul.txt", b"some\0text", "NUL bytes"),
        ("control.txt", b"\x01\x02\x03a" * 50, "mostly control characters"),
        ("some.zip", zipped("a.txt"), "a ZIP archive"),
        ("table.xlsx", zipped("xl/workbook.xml"), "a damaged Excel workbook"),
        ("sheet.ods", zipped("content.xml"), "an OpenDocument file that is not a text"),
        ("cut.docx", zipped("word/document.xml")[:40], "damaged"),
    ],
)
def test_binary_file_is_refused_naming_its_kind(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert reason in refusal(tmp_path / name)


def test_readable_files_are_sorted_and_the_rest_is_listed(tmp_path: Path) -> None:
    for name in ("b.TXT", "a.md", "sub/c.pdf", "sub/d.jpg", ".hidden.txt", ".git/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    readable, others = readable_files(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in readable] == ["a.md", "b.TXT", "sub/c.pdf"]
    assert others == [tmp_path / "sub" / "d.jpg"]


def test_importing_the_package_loads_no_reader() -> None:
    heavy = ["pypdfium2", "trafilatura", "docx", "nupunkt", "httpx2", "charset_normalizer", "lxml", "fast_ebook"]
    code = f"import sys, awesum.reading; print([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
