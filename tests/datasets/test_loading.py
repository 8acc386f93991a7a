"""Datasets as files: read completely in every supported format, otherwise refused in one clear line."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.datasets import Example, load, parse
from tests.datasets.forms import DAMAGED, FORMS, ROWS, plain, refusal, written, zstd


@pytest.mark.parametrize(("name", "form"), FORMS.values(), ids=FORMS)
def test_split_is_read_in_every_format(name: str, form: Callable[[bytes], bytes], tmp_path: Path) -> None:
    folder = written(tmp_path / "data", name, form(plain(ROWS)))
    expected = [Example(row["id"], row["document"], row["summary"], None, (row["summary"],)) for row in ROWS]
    for examples in (load(folder, "train"), load(str(folder / name), "test")):
        assert len(examples) == 7
        assert list(examples) == expected
        assert [examples[number] for number in (6, 0, -1, 3)] == [expected[number] for number in (6, 0, 6, 3)]
        assert list(examples[1::2]) == expected[1::2]
        with pytest.raises(IndexError):
            examples[7]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(documents=st.lists(TEXT.filter(str.strip), min_size=1, max_size=5), summary=TEXT, ascii_only=st.booleans())
def test_any_text_round_trips(
    documents: list[str], summary: str, ascii_only: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [{"document": document, "summary": summary} for document in documents]
    lines = [json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows]
    folder = written(tmp_path_factory.mktemp("data"), "test.jsonl.zst", zstd("".join(lines).encode()))
    examples = load(folder, "test")
    assert [(example.document, example.summary) for example in examples] == [(d, summary) for d in documents]
    assert [example.id for example in examples] == [str(line) for line in range(1, len(rows) + 1)]


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    rows = [{"document": "one\u2028two\x85three\x0bfour\x0cfive", "summary": "s\u2029t"}, ROWS[0]]
    folder = written(tmp_path / "data", "test.jsonl", plain(rows))
    examples = load(folder, "test")
    assert [example.document for example in examples] == [row["document"] for row in rows]


def test_blank_lines_windows_line_ends_and_a_missing_last_newline_are_accepted(tmp_path: Path) -> None:
    lines = [json.dumps(row).encode() for row in ROWS[:3]]
    data = b"\xef\xbb\xbf" + lines[0] + b"\r\n\r\n \n" + lines[1] + b"\n" + lines[2]
    examples = load(written(tmp_path / "data", "test.jsonl", data), "test")
    assert [example.id for example in examples] == ["r0", "r1", "r2"]


def test_long_document_is_not_cut(tmp_path: Path) -> None:
    row = {"document": "word " * 1_000_000 + "end", "summary": "s"}
    for name, form in (("train.jsonl.zst", zstd), ("test.jsonl", bytes)):
        folder = written(tmp_path / "data", name, form(plain([row, row])))
        assert load(folder, name.split(".")[0])[1].document == row["document"]


@pytest.mark.parametrize(("name", "form"), [FORMS[form] for form in ("plain", "zstd", "gzip")])
def test_memory_does_not_grow_with_the_dataset(name: str, form: Callable[[bytes], bytes], tmp_path: Path) -> None:
    chance = random.Random(0)
    rows = [{"document": chance.randbytes(50_000).hex(), "summary": "s"} for _ in range(200)]  # 20 MB
    folder = written(tmp_path / "data", name, form(plain(rows)))
    del rows
    tracemalloc.start()
    length = sum(len(example.document) for example in load(folder, "train"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == 20_000_000
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"report": "d", "summary": "s"}, ("d", "s", None)),
        ({"article": "d", "abstract": "s", "section_names": ["x"]}, ("d", "s", None)),
        ({"article": "d", "highlights": "s"}, ("d", "s", None)),
        ({"input": "d", "output": "s", "pid": "p"}, ("d", "s", None)),
        ({"document": "d", "summary": "s", "question": "q?", "title": "t"}, ("d", "s", "q?")),
        ({"document": "d", "article": "other", "summary": "s", "abstract": "other", "query": "q"}, ("d", "s", "q")),
        ({"document": None, "article": "d", "summary": "", "query": ""}, ("d", "", None)),
        ({"document": "d", "summary": "s", "query": None}, ("d", "s", None)),
    ],
)
def test_field_names_of_the_hub_are_accepted(row: dict[str, Any], expected: tuple[str, str, str | None]) -> None:
    example = parse(json.dumps(row).encode(), "data.jsonl", 4)
    assert (example.document, example.summary, example.query) == expected
    assert example.id == "4"


def test_references_are_all_kept_and_there_is_always_one() -> None:
    row = {"id": 17, "document": "d", "summary": "a", "references": ["a", "b", "c"]}
    assert parse(json.dumps(row).encode(), "data.jsonl", 1) == Example("17", "d", "a", None, ("a", "b", "c"))
    for nothing in ([], None):
        row["references"] = nothing
        assert parse(json.dumps(row).encode(), "data.jsonl", 1).references == ("a",)


DOCUMENT = b'{"document": "d", "summary": "s"'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"document": "d", "summary": }', ["not JSON", "column 30", "remove"]),
        (b"<html>", ["not JSON", "column 1"]),
        (b'["d", "s"]', ["not a JSON object", '"document"']),
        (b'{"summary": "s", "body": "d"}', ["no 'document'", "'summary', 'body'", "'report'"]),
        (b"{}", ["no 'document'", "no fields"]),
        (b'{"document": "d"}', ["no 'summary'", "'abstract'"]),
        (b'{"document": "d", "summary": null}', ["no 'summary'"]),
        (b'{"document": " \\n", "summary": "s"}', ["empty 'document'"]),
        (b'{"report": "", "summary": "s"}', ["empty 'report'"]),
        (b'{"document": ["d"], "summary": "s"}', ["list", "'document'"]),
        (b'{"document": "d", "abstract": 3}', ["int", "'abstract'"]),
        (DOCUMENT + b', "query": {}}', ["dict", "'query'"]),
        (DOCUMENT + b', "references": "r"}', ["str", "'references'", "list of texts"]),
        (DOCUMENT + b', "references": [1]}', ["int", "'references'"]),
        (DOCUMENT + b', "id": [1]}', ["list", "'id'"]),
        (DOCUMENT + b', "id": ' + b"[" * 100_000, ["cannot be read"]),
        (DOCUMENT + b', "id": ' + b"1" * 5_000 + b"}", ["cannot be read"]),
        (b'{"document": "\xff", "summary": "s"}', ["utf-8", "remove"]),
        (b'{"document": "a\\ud800b", "summary": "s"}', ["half a character", "'document'"]),
    ],
)
def test_invalid_line_is_refused_with_its_number(line: bytes, words: list[str], tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl", plain(ROWS[:2]) + b"\n" + line + b"\n" + plain(ROWS[2:]))
    examples = load(folder, "train")
    assert examples[1].id == "r1"
    assert examples[3].id == "r2"
    message = refusal(lambda: examples[2])
    assert message.startswith(f"{folder / 'train.jsonl'}, line 4 ")
    for word in words:
        assert word in message
    assert refusal(lambda: list(examples[2:])) == message  # a slice keeps the line numbers


def test_invalid_line_of_a_compressed_file_is_reported_under_that_file(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl.zst", zstd(plain(ROWS) + b"{\n"))
    assert str(folder / "train.jsonl.zst") + ", line 8 " in refusal(lambda: list(load(folder, "train")))


def test_missing_folder_is_refused_with_advice(tmp_path: Path) -> None:
    message = refusal(lambda: load(tmp_path / "nowhere", "train"))
    assert str(tmp_path / "nowhere") in message
    assert "validation.jsonl" in message


def test_missing_split_is_refused_listing_the_existing_ones(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl.gz", b"")
    written(folder, "validation.jsonl", b"")
    assert refusal(lambda: load(folder, "test")).endswith("no split 'test': it has train, validation")


def test_folder_without_any_split_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "notes.txt", b"")
    assert "test.jsonl" in refusal(lambda: load(folder, "test"))


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_file_without_a_row_is_refused(data: bytes, tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl", data)
    assert f"{folder / 'train.jsonl'} is empty" in refusal(lambda: load(folder, "train"))


@pytest.mark.parametrize(("name", "data"), DAMAGED)
def test_damaged_file_is_refused_and_leaves_nothing_in_the_cache(
    name: str, data: bytes, tmp_path: Path, cache: Path
) -> None:
    folder = written(tmp_path / "data", name, data)
    message = refusal(lambda: load(folder, "train"))
    assert message.startswith(f"cannot decompress {folder / name} (")
    assert message.endswith("again")
    assert list((cache / "datasets").iterdir()) == []


def test_plain_file_takes_precedence_over_a_compressed_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl.zst", zstd(plain(ROWS)))
    written(folder, "train.jsonl", plain(ROWS[:2]))
    assert len(load(folder, "train")) == 2


def test_compressed_file_is_decompressed_once_and_again_when_it_changes(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path / "data", "train.jsonl.zst", zstd(plain(ROWS)))
    load(folder, "train")
    assert "decompressing" in capsys.readouterr().err
    assert list(load(folder, "train")) == list(load(folder, "train"))
    assert capsys.readouterr().err == ""
    written(folder, "train.jsonl.zst", zstd(plain(ROWS[::-1])))
    assert [example.id for example in load(folder, "train")] == [row["id"] for row in ROWS[::-1]]
    assert len(list((cache / "datasets").iterdir())) == 2


def test_unwritable_cache_is_refused_with_advice(tmp_path: Path, cache: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl.zst", zstd(plain(ROWS)))
    cache.write_text("a file where the folder should be")
    assert "AWESUM_CACHE" in refusal(lambda: load(folder, "train"))


def test_deleted_file_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl", plain(ROWS))
    examples = load(folder, "train")
    (folder / "train.jsonl").unlink()
    assert refusal(lambda: examples[0]).startswith(f"cannot read {folder / 'train.jsonl'} (")


def test_importing_loads_neither_the_decompressor_nor_the_hub_library() -> None:
    code = (
        "import sys, awesum.datasets; sys.exit(bool({'zstandard', 'torch', 'datasets', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
