from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.files import write
from awesum.partial import PartialSummary, fingerprint
from awesum.settings import Settings
from awesum.summary import Part, Quote, SummarySentence


def part(number: int) -> Part:
    quote = Quote(number, number + 5, "Zwölf\n国会 \u2028 cranes.")
    return Part(f"Part {number}.", number, 0, 9, [1, 2], [quote], [SummarySentence("Part.", quote, 0.5)])


def test_parts_come_back_as_they_were_kept(tmp_path: Path) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    assert partial.parts() == []
    assert not list(tmp_path.iterdir()), "nothing is written before there is a part"
    for number in range(3):
        partial.add(part(number))
    assert PartialSummary(tmp_path / "out.txt", "key").parts() == [part(0), part(1), part(2)]


def test_parts_of_another_document_or_setting_are_not_taken(tmp_path: Path) -> None:
    PartialSummary(tmp_path / "out.txt", "key").add(part(0))
    assert PartialSummary(tmp_path / "out.txt", "other").parts() == []
    assert PartialSummary(tmp_path / "other.txt", "key").parts() == []


def test_line_that_was_not_written_to_its_end_is_passed_over(tmp_path: Path) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    partial.add(part(0))
    partial.add(part(1))
    whole = partial.path.read_bytes()
    for length in range(len(whole)):
        partial.path.write_bytes(whole[:length])
        assert partial.parts() == [part(0), part(1)][: max(0, whole[: length + 1].count(b"\n") - 1)]


def test_parts_go_on_behind_those_taken_over(tmp_path: Path) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    partial.add(part(0))
    with partial.path.open("a") as file:
        file.write('{"text": "half')
    partial.start(partial.parts())
    partial.add(part(1))
    assert partial.parts() == [part(0), part(1)]


def test_starting_without_parts_forgets_those_of_another_run(tmp_path: Path) -> None:
    PartialSummary(tmp_path / "out.txt", "other").add(part(7))
    partial = PartialSummary(tmp_path / "out.txt", "key")
    partial.start([])
    partial.add(part(0))
    assert partial.parts() == [part(0)]


def test_nothing_is_left_after_removal(tmp_path: Path) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    partial.remove()
    partial.add(part(0))
    partial.remove()
    assert not list(tmp_path.iterdir())


def test_fingerprint_tells_documents_settings_and_models_apart() -> None:
    document, settings = Document("text", path="a.txt"), Settings()
    prints = [
        fingerprint(document, settings, "m"),
        fingerprint(replace(document, text="Text"), settings, "m"),
        fingerprint(document, Settings(length="100w"), "m"),
        fingerprint(document, Settings(query="Who?"), "m"),
        fingerprint(document, settings, "n"),
    ]
    assert len(set(prints)) == 5
    assert fingerprint(Document("text", path="a.txt"), Settings(), "m") == prints[0]


def test_file_is_written_whole_and_nothing_beside_it_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    write(target, "first")
    write(target, "zweite Fassung – 国会")
    assert target.read_text(encoding="utf-8") == "zweite Fassung – 国会"
    assert list(tmp_path.iterdir()) == [target]


def test_old_file_stays_when_the_new_one_cannot_be_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    write(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write(target, "new \ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("content", ["precious notes\n", '{"text": "a row of somebody"}\n', '{"key": "not ours!"}\n'])
def test_file_of_somebody_else_is_left_alone(tmp_path: Path, content: str) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    partial.path.write_text(content)
    with pytest.raises(AwesumError, match="not of an interrupted run"):
        partial.parts()
    assert partial.path.read_text() == content


def test_part_with_a_wrong_value_ends_what_is_resumed(tmp_path: Path) -> None:
    partial = PartialSummary(tmp_path / "out.txt", "key")
    for number in range(3):
        partial.add(part(number))
    for wrong in ('"segment": "1"', '"segment": true', '"segment": 0'):
        lines = partial.path.read_text().split("\n")
        changed = [line.replace('"segment": 1', wrong) for line in lines]
        (tmp_path / "changed.txt.partial.jsonl").write_text("\n".join(changed))
        assert PartialSummary(tmp_path / "changed.txt", "key").parts() == [part(0)]
