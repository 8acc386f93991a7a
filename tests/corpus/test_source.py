"""Reading a corpus: every document once, from every form; what is wrong with it, in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import fsspec
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from awesum.corpus import storage
from awesum.corpus.job import Columns, Job
from awesum.corpus.source import BATCH, CHARACTERS, DIED, Batch, Item, Plan, _groups, batches, plan
from awesum.errors import AwesumError
from awesum.settings import Settings
from tests.corpus.fakes import documents, texts, write_lines


def read(job: Job) -> tuple[list[Item], list[str]]:
    """All documents of a source, and what was skipped."""
    planned = plan(job)
    found = all_batches(planned)
    skipped = [line for batch in found for line in batch.skipped]
    assert sum(batch.size for batch in found) == planned.size
    return [item for batch in found for item in batch.items], planned.skipped + skipped


def all_batches(planned: Plan) -> list[Batch]:
    return [
        batch for piece in planned.pieces for batch in batches(piece, planned.columns, "job", lambda identifier: True)
    ]


def write_parquet(path: Path, rows: list[dict[str, Any]], group: int = 10) -> Path:
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows), path, row_group_size=group, write_page_checksum=True, use_dictionary=False
    )
    return path


def corpus(form: str, folder: Path, number: int = 100) -> str:
    """The same documents in some form."""
    rows = documents(number)
    plain = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if form == "parquet":
        return str(write_parquet(folder / "a.parquet", rows))
    if form == "lines":
        (folder / "a.jsonl").write_bytes(plain)
        return str(folder / "a.jsonl")
    if form == "gz":
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(plain))
        return f"file://{folder}/a.jsonl.gz"
    if form == "zst":
        (folder / "a.jsonl.zst").write_bytes(zstandard.compress(plain))
        return str(folder / "a.jsonl.zst")
    if form == "glob":
        write_parquet(folder / "1.parquet", rows[:30])
        write_lines(folder / "2.jsonl", rows[30:])
        write_lines(folder / "other.jsonl", documents(3))
        return f"{folder}/[0-9].*"
    if form == "memory":
        system = fsspec.filesystem("memory")
        system.pipe("/corpus/a.jsonl", plain[: len(plain) // 2].rpartition(b"\n")[0])
        system.pipe("/corpus/b.jsonl", plain[len(plain[: len(plain) // 2].rpartition(b"\n")[0]) :])
        return "memory://corpus"
    for row in rows:
        (folder / f"{row['id']}.txt").write_text(row["text"])
    (folder / ".hidden.txt").write_text("not to be read")
    return str(folder)


@pytest.mark.parametrize("form", ["parquet", "lines", "gz", "zst", "glob", "memory", "files"])
def test_every_form_has_the_same_documents(form: str, tmp_path: Path) -> None:
    items, skipped = read(Job(corpus(form, tmp_path)))
    assert not skipped
    assert len({item.id for item in items}) == len(items) == 100
    if form == "files":
        assert sorted(item.name for item in items) == sorted(f"d{number}.txt" for number in range(100))
        assert all(item.text is None and item.row is None for item in items)
    else:
        assert sorted((item.name, item.text) for item in items) == sorted(
            (row["id"], row["text"]) for row in documents(100)
        )
        assert all(item.row is not None for item in items)


def test_ids_do_not_depend_on_the_form_or_the_order(tmp_path: Path) -> None:
    ids = set()
    for form in ("parquet", "zst", "glob"):
        (tmp_path / form).mkdir()
        items, _ = read(Job(corpus(form, tmp_path / form)))
        ids.add(frozenset(item.id for item in items))
    assert len(ids) == 1


def test_an_id_changes_with_the_text_the_name_the_query_and_the_job(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "One text.", "query": "Why?"},
        {"id": "b", "text": "One text.", "query": "Why?"},
        {"id": "a", "text": "Another text.", "query": "Why?"},
        {"id": "a", "text": "One text.", "query": "How?"},
        {"id": "a", "text": "One text."},
    ]
    planned = plan(Job(str(write_lines(tmp_path / "a.jsonl", rows))))
    ids = [
        item.id
        for job in ("one", "two")
        for batch in batches(planned.pieces[0], planned.columns, job, lambda identifier: True)
        for item in batch.items
    ]
    assert len(set(ids)) == 10


def test_built_in_file_systems_of_pyarrow_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with s3://, for which nothing else has to be installed."""
    corpus("glob", tmp_path)
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())

    class Stand:
        @staticmethod
        def from_uri(address: str) -> tuple[Any, str]:
            return below, address.removeprefix("s3://bucket/")

    monkeypatch.setattr(pyarrow.fs, "FileSystem", Stand)
    for source, number in (("s3://bucket/[0-9].*", 100), ("s3://bucket/other.jsonl", 3)):
        items, _ = read(Job(source))
        assert len(items) == number
        assert all(item.file.startswith("s3://") for item in items)


@given(lengths=st.lists(st.integers(0, 3 * CHARACTERS), max_size=80), most=st.integers(1, BATCH))
def test_documents_of_a_length_share_a_batch(lengths: list[int], most: int) -> None:
    items = [Item(str(number), "", "", text="x" * length) for number, length in enumerate(lengths)]
    groups = _groups(items, most)
    assert sorted(item.id for group in groups for item in group) == sorted(item.id for item in items)
    assert [len(item) for group in groups for item in group] == sorted(lengths, reverse=True)
    for group in groups:
        assert 1 <= len(group) <= most
        assert len(group) == 1 or sum(map(len, group)) <= CHARACTERS


def test_documents_that_are_done_are_not_read_into_a_batch(tmp_path: Path) -> None:
    planned = plan(Job(corpus("lines", tmp_path)))
    done = {item.id for batch in all_batches(planned) for item in batch.items if len(item) < 100}
    left = list(batches(planned.pieces[0], planned.columns, "job", lambda identifier: identifier not in done))
    assert {len(item) >= 100 for batch in left for item in batch.items} == {True}
    assert len(done) + sum(len(batch.items) for batch in left) == 100
    assert sum(batch.size for batch in left) == planned.size


# What is wrong with it


@pytest.mark.parametrize("form", ["parquet", "lines"])
@pytest.mark.parametrize("column", ["text", "id", "query"])
def test_missing_column_lists_those_that_are_there(form: str, column: str, tmp_path: Path) -> None:
    with pytest.raises(AwesumError, match=rf"a\.\w+ has no column 'body': it has id, text; .*--{column}-column"):
        plan(Job(corpus(form, tmp_path), Columns(**{column: "body"})))


def test_no_usual_column_is_an_error(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [{"title": "x", "words": "y"}])
    with pytest.raises(AwesumError, match="has no column 'text': it has title, words"):
        plan(Job(str(source)))


def test_mixed_schemas_are_refused_before_any_work(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", documents(3))
    write_parquet(tmp_path / "b.parquet", [{"id": "x", "body": "y"}])
    with pytest.raises(AwesumError, match=r"b\.parquet has no column 'text': it has id, body.*another job"):
        plan(Job(str(tmp_path)))
    write_parquet(tmp_path / "b.parquet", [{"id": "x", "text": 7}])
    with pytest.raises(AwesumError, match=r"b\.parquet has int64 in the column 'text', not text"):
        plan(Job(str(tmp_path)))
    write_parquet(tmp_path / "b.parquet", [{"text": "More columns are no harm.", "id": 7, "more": 1.0}])
    with pytest.raises(AwesumError, match="--query and --query-column"):
        Job("x", Columns(query="id"), Settings(query="Why?"))
    items, _ = read(Job(str(tmp_path)))
    assert len(items) == 4
    assert {item.name for item in items} == {"d0", "d1", "d2", "7"}


def test_corrupt_row_group_is_skipped_and_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", documents(50))
    data = bytearray(path.read_bytes())
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(2).column(1)
    end = column.data_page_offset + column.total_compressed_size
    data[end - 30 : end - 10] = b"\xff" * 20
    path.write_bytes(data)
    items, skipped = read(Job(str(path)))
    assert len(items) == 40
    assert len(skipped) == 1
    assert "a.parquet, row group 2: 10 of 10 rows cannot be read" in skipped[0]


def test_file_that_is_not_parquet_is_skipped_and_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", documents(5))
    (tmp_path / "b.parquet").write_bytes(b"no parquet at all")
    items, skipped = read(Job(str(tmp_path)))
    assert len(items) == 5
    assert len(skipped) == 1
    assert "b.parquet" in skipped[0]


def test_truncated_lines_keep_what_was_read(tmp_path: Path) -> None:
    source = Path(corpus("gz", tmp_path).removeprefix("file://"))
    rows = [{"id": str(number), "text": text * 50} for number, text in enumerate(texts(3000))]
    packed = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), 1)
    source.write_bytes(packed[: len(packed) // 2])
    items, skipped = read(Job(str(source)))
    assert 0 < len(items) < 3000
    assert len(skipped) == 1
    assert "a.jsonl.gz, after line" in skipped[0]
    assert "download or compress it again" in skipped[0]


def test_rows_without_a_text_become_documents_with_an_error(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    lines = ['{"text": "A text."}', "{broken", "[1]", '{"text": ""}', '{"text": null}', '{"text": 7}', '{"other": "x"}']
    source.write_text("\n".join(lines) + "\n")
    items, skipped = read(Job(str(source)))
    assert not skipped
    assert len(items) == len({item.id for item in items}) == 7
    errors = {item.row: item.error for item in items}
    assert errors[1] is None
    assert "line 2 is not JSON" in str(errors[2])
    assert "line 3 is not a JSON object" in str(errors[3])
    assert "line 4 has no text in 'text'" in str(errors[4])
    assert "line 5 has nothing in 'text'" in str(errors[5])
    assert "line 6 has a int as 'text'" in str(errors[6])
    assert "line 7 has no 'text' (it has 'other')" in str(errors[7])


def test_sources_without_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AwesumError, match="does not exist"):
        plan(Job(str(tmp_path / "missing")))
    with pytest.raises(AwesumError, match="has no documents"):
        plan(Job(str(tmp_path)))
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(AwesumError, match="has no documents"):
        plan(Job(f"{tmp_path}/*.parquet"))
    with pytest.raises(AwesumError, match="cannot open nosuch://x"):
        plan(Job("nosuch://x"))


def test_files_of_other_kinds_are_counted(tmp_path: Path) -> None:
    corpus("files", tmp_path, 3)
    (tmp_path / "a.bin").write_bytes(b"x")
    items, skipped = read(Job(str(tmp_path)))
    assert len(items) == 3
    assert skipped == [f"1 files under {tmp_path} are of other kinds"]


def test_batch_that_kills_workers_is_divided_and_given_up() -> None:
    batch = Batch([Item("1", "", ""), Item("2", "", "")], 10, ["a line"], 0.5)
    first, second = batch.after_death()
    assert (first.size, first.skipped, second.size, second.skipped) == (10, ["a line"], 0, [])
    (again,) = second.after_death()
    assert again.items == second.items
    (ended,) = again.after_death()
    assert ended.items[0].error == DIED


def test_local_paths_and_addresses() -> None:
    assert not storage.is_remote("/a/b")
    assert not storage.is_remote("file:///a/b")
    assert storage.local_path("file:///a/b") == "/a/b"
    assert storage.is_remote("s3://a/b")


def test_addresses_keep_their_host_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system calls a file by its path alone; whoever opens it needs the rest of the address."""

    class Remote:
        paths = ("c/p/a.jsonl", "c/p/b/d.jsonl")

        def isdir(self, path: str) -> bool:
            return path == "c/p"

        def exists(self, path: str) -> bool:
            return path in self.paths

        def info(self, path: str) -> dict[str, Any]:
            return {"type": "file", "size": 7}

        def find(self, path: str, detail: bool) -> dict[str, Any]:
            return {each: self.info(each) for each in self.paths}

        glob = find

    monkeypatch.setattr(
        storage, "filesystem", lambda place: (Remote(), "c" + storage._options(place)[0].removeprefix("abfs://c@h"))
    )
    for options in ("", "?enable_tls=false"):
        expected = [f"abfs://c@h/p/a.jsonl{options}", f"abfs://c@h/p/b/d.jsonl{options}"]
        assert [file.path for file in storage.find(f"abfs://c@h/p{options}")] == expected
        assert [file.path for file in storage.find(f"abfs://c@h/p/*{options}")] == expected
        assert [file.path for file in storage.find(expected[0])] == expected[:1]
    assert [file.name for file in storage.find("abfs://c@h/p")] == ["a.jsonl", "b/d.jsonl"]


def test_file_that_vanishes_costs_that_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_parquet(tmp_path / f"{name}.parquet", [{"id": f"{name}{each}", "text": "Text."} for each in range(3)])
    planned = plan(Job(str(tmp_path)))
    (tmp_path / "a.parquet").unlink()
    found = all_batches(planned)
    assert [item.name for batch in found for item in batch.items] == ["b0", "b1", "b2"]
    [line] = [line for batch in found for line in batch.skipped]
    assert "a.parquet" in line


def test_files_of_about_the_same_size_share_a_batch() -> None:
    items = [Item(str(number), f"{number}.pdf", "", size=size) for number, size in enumerate((5, 900, 7, 800))]
    assert [[item.size for item in group] for group in _groups(items, 2)] == [[900, 800], [7, 5]]
