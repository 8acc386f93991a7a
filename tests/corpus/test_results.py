"""The folder of results: whole files, no row twice, nobody else's files touched."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.corpus import results as module
from awesum.corpus import rows
from awesum.corpus.results import RECORD, Ids, Results, is_new, read
from awesum.corpus.source import Item
from awesum.errors import AwesumError
from awesum.settings import Settings
from tests.corpus.fakes import summary

KEY = {"system": "fake", "length": "3w"}


def identifier(number: int) -> str:
    return f"{number:032x}"


def table(numbers: list[int], failed: bool = False) -> Any:
    made = []
    for number in numbers:
        item = Item(identifier(number), f"d{number}", "a.jsonl", number)
        made.append(rows.failed(item, "no", Settings()) if failed else rows.written(item, summary(f"This is {number}")))
    return rows.from_bytes(rows.to_bytes(made))


def opened(folder: Path | str, **options: Any) -> Results:
    made = Results(str(folder), KEY, "/source")
    made.open(**options)
    return made


def ids(folder: Path | str) -> Counter[int]:
    return Counter(int(row["id"], 16) for row in read(str(folder)))


@given(st.lists(st.integers(0, 300)), st.integers(1, 5))
def test_ids_are_a_set(numbers: list[int], recent: int) -> None:
    made = Ids()
    made.RECENT = recent  # type: ignore[misc]
    known: set[int] = set()
    for number in numbers:
        shifted = identifier(number << (8 * (number % 16)) & (2**128 - 1))  # also with zeros at the end
        assert made.add(shifted) is (shifted not in known)  # type: ignore[comparison-overlap]
        known.add(shifted)  # type: ignore[arg-type]
    assert len(made) == len(known)
    filter_new = is_new(made.compact())
    assert not any(map(filter_new, known))  # type: ignore[arg-type]
    assert filter_new("ab" * 16)
    assert len(made.sorted) == len(known)


def test_ids_of_zeros_and_of_random_bytes() -> None:
    random = np.random.default_rng(0)
    made, known = Ids(), set()
    for _ in range(3000):
        raw = random.bytes(16)[: random.integers(1, 17)].ljust(16, b"\0").hex()
        assert made.add(raw) is (raw not in known)
        known.add(raw)
    made.compact()
    assert all(raw in made for raw in known)


@pytest.mark.parametrize("place", ["local", "memory"])
def test_rows_are_merged_and_resumed(place: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "out") if place == "local" else "memory://out"
    made = opened(folder)
    for start in range(0, 3000, 50):
        assert made.add(table(list(range(start, start + 50)))) == 50
    assert made.add(table([1, 2, 3000])) == 1
    made.commit()
    made.merge()
    made.save({}, finished=True)
    made.close()
    assert ids(folder) == Counter(range(3001))
    system = fsspec.filesystem("memory" if place == "memory" else "file")
    assert len(system.ls("/out" if place == "memory" else folder)) <= 6
    again = opened(folder)
    assert len(again.ids) == 3001
    assert identifier(3000) in again.ids
    again.close()


def test_every_tool_reads_the_folder(tmp_path: Path) -> None:
    made = opened(tmp_path / "out")
    made.add(table([1, 2]))
    made.commit()
    made.close()
    found = pyarrow.parquet.read_table(tmp_path / "out").to_pylist()
    assert found[0]["summary"] == "This is 1"
    assert found[0]["provenance"] == [
        {"segment": 0, "text": "This is 1", "start": 0, "end": 9, "source": "This is 1", "similarity": 1, "support": 1}
    ]
    assert found[0]["parts"][0]["salient"] == [{"start": 0, "end": 9}]
    assert found[0]["error"] is None


def test_merge_that_was_killed_leaves_no_row_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = opened(tmp_path / "out")
    for number in range(5):
        made.add(table([2 * number, 2 * number + 1]))
        made.commit()

    class Killed(BaseException):
        pass

    def kill(self: Results, name: str) -> None:
        raise Killed

    monkeypatch.setattr(Results, "_remove", kill)
    with pytest.raises(Killed):
        made.merge()
    made.close()
    monkeypatch.undo()
    assert ids(tmp_path / "out") == Counter(dict.fromkeys(range(10), 2))
    opened(tmp_path / "out").close()
    assert ids(tmp_path / "out") == Counter(range(10))


def test_rows_that_are_there_in_part_are_removed_from_the_second_file(tmp_path: Path) -> None:
    made = opened(tmp_path / "out")
    made._write(made._new_name(), table([1, 2, 3]))
    made._write(made._new_name(), table([3, 4]))
    made.close()
    opened(tmp_path / "out").close()
    assert ids(tmp_path / "out") == Counter([1, 2, 3, 4])


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    made = opened(tmp_path / "out")
    made.add(table([1]))
    made.commit()
    made.close()
    (tmp_path / "out" / ".part-000001-0a0a0a0a.parquet.4711").write_bytes(b"half a file")
    opened(tmp_path / "out").close()
    assert not list((tmp_path / "out").glob(".part*"))
    assert ids(tmp_path / "out") == Counter([1])


def test_failed_rows_are_tried_again_only_if_asked(tmp_path: Path) -> None:
    made = opened(tmp_path / "out")
    made.add(table([1, 2]))
    made.add(table([3], failed=True))
    made.commit()
    assert made.failed == 1
    made.close()
    again = opened(tmp_path / "out")
    assert (len(again.ids), again.failed) == (3, 1)
    again.close()
    again = opened(tmp_path / "out", retry_failed=True)
    assert (len(again.ids), again.failed) == (2, 0)
    again.close()
    assert ids(tmp_path / "out") == Counter([1, 2])


def test_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "out").close()
    for key, source, why in (
        (KEY | {"length": "9w"}, "/source", r"another job \(length: 3w, not 9w\)"),
        (KEY, "/other", r"another job \(source: /source, not /other\)"),
    ):
        other = Results(str(tmp_path / "out"), key, source)
        with pytest.raises(AwesumError, match=why):
            other.open()
        other.close()


def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_bytes(b"x")
    other = Results(str(tmp_path), KEY, "/source")
    with pytest.raises(AwesumError, match=r"not of a corpus \(thesis.docx\)"):
        other.open()
    other.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.docx"]


def test_damage_is_one_line(tmp_path: Path) -> None:
    made = opened(tmp_path)
    made.add(table([1]))
    made.commit()
    made.close()
    (part,) = tmp_path.glob("part-*")
    part.write_bytes(part.read_bytes()[:100])
    made = Results(str(tmp_path), KEY, "/source")
    with pytest.raises(AwesumError, match=r"part-000000-\w+\.parquet is damaged .*: delete it"):
        made.open()
    made.close()
    part.unlink()
    (tmp_path / RECORD).write_text(json.dumps({"job": 7}))
    made = Results(str(tmp_path), KEY, "/source")
    with pytest.raises(AwesumError, match="is damaged"):
        made.open()
    made.close()


def test_two_writers_are_one_too_many(tmp_path: Path) -> None:
    first = opened(tmp_path / "out")
    second = Results(str(tmp_path / "out"), KEY, "/source")
    with pytest.raises(AwesumError, match="another process is writing"):
        second.open()
    second.close()
    first.close()
    opened(tmp_path / "out").close()


def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = opened(tmp_path / "out")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.files, "write", full)
    made.add(table([1]))
    with pytest.raises(AwesumError, match="No space left on device"):
        made.commit()
    made.close()
