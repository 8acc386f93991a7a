"""A split as a stream: every invalid row is reported and counted, nothing is kept, and damaged files are refused."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from awesum.datasets import Example, examples, load
from tests.datasets.forms import DAMAGED, FORMS, ROWS, plain, refusal, written, zstd


@pytest.mark.parametrize(("name", "form"), FORMS.values(), ids=FORMS)
def test_stream_yields_the_same_as_load_and_leaves_no_copy(
    name: str, form: Callable[[bytes], bytes], tmp_path: Path, cache: Path
) -> None:
    folder = written(tmp_path / "data", name, form(b"\xef\xbb\xbf" + plain(ROWS[:3]) + b"\r\n \n" + plain(ROWS[3:])))
    stream = examples(folder, "train")
    assert [example.id for example in stream] == [row["id"] for row in ROWS]
    assert not cache.exists()
    assert list(stream) == list(stream) == list(load(folder, "train"))
    assert list(examples(folder / name, "test")) == list(stream)
    assert not stream.skipped


def test_last_line_needs_no_newline(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "test.jsonl.zst", zstd(plain(ROWS)[:-1]))
    assert len(list(examples(folder, "test"))) == 7


GOOD = '{"id": "r0", "document": "Some text.", "summary": "s"}'
BAD = {
    "no document": '{"summary": "s"}',
    "no summary": '{"document": "d"}',
    "empty summary": '{"document": "d", "summary": " \\n"}',
    "broken JSON": '{"document": "d", "summary": }',
    "duplicate id": '{"id": "r0", "document": "Another text.", "summary": "s"}',
    "summary longer than the document": '{"document": "Short.", "summary": "Longer than that."}',
    "field of the wrong type": '{"document": ["d"], "summary": "s"}',
}


@pytest.mark.parametrize(("kind", "row"), BAD.items(), ids=BAD)
@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.zst"])
def test_invalid_row_is_reported_with_file_and_line_then_skipped_and_counted(
    kind: str, row: str, name: str, tmp_path: Path
) -> None:
    lines = [GOOD] + [json.dumps(other) for other in ROWS[1:6]] + [""] * 10 + [row, json.dumps(ROWS[6])]
    data = "\n".join(lines).encode()
    folder = written(tmp_path / "data", name, zstd(data) if name.endswith("zst") else data)
    notes: list[str] = []
    stream = examples(folder, "train", say=notes.append)
    assert [example.id for example in stream] == [f"r{number}" for number in range(7)]
    assert dict(stream.skipped) == {kind: 1}
    (note,) = notes
    assert note.startswith(f"skipped: {folder / name}, line 17 ")
    assert "\n" not in note
    assert stream.skipped_in_words() == f"1 × {kind}"
    # With on_bad="refuse", the same text is the error.
    assert refusal(lambda: list(examples(folder, "train", on_bad="refuse"))) == note.removeprefix("skipped: ")


def test_all_kinds_are_counted_and_each_row_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = "\n".join([GOOD, *BAD.values(), *BAD.values()]).encode()
    stream = examples(written(tmp_path / "data", "train.jsonl", data), "train")
    for _ in range(2):  # counted from zero each time
        assert len(list(stream)) == 1
        assert dict(stream.skipped) == dict.fromkeys(BAD, 2)
    assert len(capsys.readouterr().err.splitlines()) == 4 * len(BAD)


def test_valid_row_may_have_the_id_of_a_skipped_one(tmp_path: Path) -> None:
    rows = [{"id": "a", "document": "d", "summary": ""}, {"id": "a", "document": "d", "summary": "s"}]
    assert list(examples(written(tmp_path / "data", "train.jsonl", plain(rows)), "train")) == [
        Example("a", "d", "s", None, ("s",))
    ]


@pytest.mark.parametrize(("name", "data"), DAMAGED)
@pytest.mark.parametrize("on_bad", ["skip", "refuse"])
def test_damaged_file_is_refused_whatever_on_bad_says(name: str, data: bytes, on_bad: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "data", name, data)
    message = refusal(lambda: list(examples(folder, "train", on_bad=on_bad)))  # type: ignore[arg-type]
    assert message.startswith(f"cannot decompress {folder / name} (")


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_file_without_a_row_is_refused(data: bytes, tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl.zst", zstd(data))
    assert f"{folder / 'train.jsonl.zst'} is empty" in refusal(lambda: list(examples(folder, "train")))


def test_missing_split_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", "train.jsonl", b"{")
    assert "no split 'test'" in refusal(lambda: examples(folder, "test"))


@pytest.mark.parametrize(("name", "form"), [FORMS[form] for form in ("plain", "zstd", "gzip")])
def test_peak_memory_is_that_of_one_document(name: str, form: Callable[[bytes], bytes], tmp_path: Path) -> None:
    chance = random.Random(0)

    def peak(documents: int) -> int:
        rows = [
            {"id": f"{n}" * 20, "document": chance.randbytes(20_000).hex(), "summary": "s"} for n in range(documents)
        ]
        folder = written(tmp_path / str(documents), name, form(plain(rows)))
        del rows
        tracemalloc.start()
        assert sum(1 for _ in examples(folder, "train")) == documents
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)  # imports
    assert peak(1000) < 1.2 * peak(50) + 100_000  # the hashes of the ids
