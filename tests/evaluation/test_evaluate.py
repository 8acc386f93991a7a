"""Scores are those of each metric alone, matched with their references, saved and resumed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from math import isnan
from pathlib import Path

import numpy as np
import pytest
import zstandard

from awesum.cli import main
from awesum.errors import AwesumError
from awesum.evaluation import Pairs, difference, interval
from awesum.evaluation import run as running
from awesum.metrics import Sample, load
from tests.evaluation.samples import MODEL_FREE, NUMBER, document, prediction, reference, rows, score

# ----------------------------------------------------------------------------------------------------------- the scores


def test_scores_match_each_metric_alone(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])
    assert [system.name for system in found.systems] == ["ours", "theirs"]
    for number, system in enumerate(found.systems):
        for metric in map(load, MODEL_FREE):
            for index in range(NUMBER):
                sample = Sample(prediction(index, number), (reference(index),), document(index))
                for name, value in metric.measure(sample).items():
                    assert system.scores[name][index] == value
    assert found.document_words.tolist() == [len(document(index).split()) for index in range(NUMBER)]


def test_means_intervals_and_p_values_are_computed_from_the_scores(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])
    one, other = (system.scores["rouge-2"] for system in found.systems)
    cell = found.table["theirs"]["rouge-2"]
    assert cell.mean == other.mean()
    assert (cell.low, cell.high) == interval(other)
    assert cell.p == difference(other, one)
    assert cell.counted == NUMBER
    assert found.table["ours"]["rouge-2"].p is None


def test_several_processes_give_the_same_scores(ours: Path, theirs: Path, references: Path) -> None:
    alone = score(ours, references, compare=[theirs])
    together = score(ours, references, compare=[theirs], processes=2)
    assert [system.name for system in together.systems] == ["ours", "theirs"]
    for one, other in zip(alone.systems, together.systems, strict=True):
        assert {"rouge-1", "coverage", "repetition", "length-ratio"} <= one.scores.keys()
        for name in one.scores:
            np.testing.assert_array_equal(one.scores[name], other.scores[name])


def test_default_is_every_metric_without_a_model(ours: Path, references: Path) -> None:
    columns = [column.name for column in score(ours, references, metrics=()).columns]
    assert columns[:3] == ["rouge-1", "rouge-2", "rouge-l"]
    assert {"entity-precision", "entity-graph", "coverage", "repetition", "length-ratio"} < set(columns)
    assert not any(name.startswith(("summac", "disco")) for name in columns)


def test_without_documents_the_metrics_that_need_them_are_left_out_with_a_note(tmp_path: Path, ours: Path) -> None:
    alone = rows(tmp_path / "alone.jsonl", [{"id": f"d{n}", "summary": reference(n)} for n in range(NUMBER)])
    found = score(ours, alone, metrics=())
    assert "coverage" not in {column.name for column in found.columns}
    assert "entity-precision and coverage are left out: they need the documents (--documents FILE)" in found.notes


def test_all_of_several_references_are_used(tmp_path: Path) -> None:
    ours = rows(tmp_path / "ours.jsonl", [{"summary": reference(3)}])
    several = rows(tmp_path / "several.jsonl", [{"summary": reference(1), "references": [reference(1), reference(3)]}])
    assert score(ours, several, metrics=["rouge"]).table["ours"]["rouge-1"].mean == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------- how they match


def test_matched_by_id_in_any_order(tmp_path: Path, ours: Path, references: Path) -> None:
    mixed = rows(tmp_path / "mixed.jsonl", list(reversed([json.loads(line) for line in ours.read_text().splitlines()])))
    one, other = score(ours, references), score(mixed, references)
    np.testing.assert_array_equal(one.systems[0].scores["rouge-1"], other.systems[0].scores["rouge-1"])
    assert other.ids == tuple(f"d{n}" for n in range(NUMBER))


def test_matched_by_order_without_ids(tmp_path: Path, ours: Path, references: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(" ".join(prediction(n).split()) + "\n" for n in range(NUMBER)))
    one, other = score(ours, references), score(plain, references)
    np.testing.assert_array_equal(one.systems[0].scores["rouge-2"], other.systems[0].scores["rouge-2"])


@pytest.mark.parametrize("name", ["prediction", "summary", "output"])
@pytest.mark.parametrize("pack", [lambda raw: raw, gzip.compress, zstandard.ZstdCompressor().compress])
def test_file_formats(tmp_path: Path, ours: Path, references: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    suffix = {b"\x1f\x8b": ".gz", b"\x28\xb5": ".zst"}.get(pack(b"x")[:2], "")
    content = "".join(json.dumps({name: prediction(n)}) + "\n\n" for n in range(NUMBER)).encode()
    packed = tmp_path / f"packed.jsonl{suffix}"
    packed.write_bytes(pack(content))
    expected = score(ours, references, metrics=["rouge"]).systems[0].scores["rouge-1"]
    found = score(packed, references, metrics=["rouge"])
    assert found.systems[0].name == "packed"
    np.testing.assert_array_equal(found.systems[0].scores["rouge-1"], expected)


def test_folders_as_written_by_summarize(tmp_path: Path, ours: Path, references: Path) -> None:
    for folder, text, suffix in (("s", prediction, ".pdf.txt"), ("r", reference, ".txt"), ("d", document, ".md")):
        (tmp_path / folder).mkdir()
        for n in range(NUMBER):
            (tmp_path / folder / f"report{n}{suffix}").write_text(text(n))
    (tmp_path / "s" / ".hidden").write_text("no summary")
    found = score(tmp_path / "s", tmp_path / "r", documents=tmp_path / "d", metrics=["rouge", "length"])
    assert found.ids == tuple(f"report{n}" for n in range(NUMBER))
    expected = score(ours, references).systems[0].scores
    for name in ("rouge-1", "length-ratio"):
        np.testing.assert_allclose(found.systems[0].scores[name], expected[name])


def test_folder_of_json_summaries(tmp_path: Path, references: Path) -> None:
    (tmp_path / "s").mkdir()
    for n in range(NUMBER):
        (tmp_path / "s" / f"d{n}.json").write_text(json.dumps({"summary": prediction(n), "parts": []}, indent=2))
    assert score(tmp_path / "s", references).table["s"]["length-ratio"].counted == NUMBER


def test_documents_in_a_separate_file(tmp_path: Path, ours: Path, references: Path) -> None:
    alone = rows(tmp_path / "alone.jsonl", [{"id": f"d{n}", "summary": reference(n)} for n in range(NUMBER)])
    texts = rows(tmp_path / "texts.jsonl", [{"id": f"d{n}", "document": document(n)} for n in reversed(range(NUMBER))])
    expected = score(ours, references).systems[0].scores["coverage"]
    found = score(ours, alone, documents=texts).systems[0].scores["coverage"]
    np.testing.assert_array_equal(found, expected)


def test_texts_are_read_on_access(ours: Path, references: Path) -> None:
    pairs = Pairs([ours], references)
    references.write_text(references.read_text().replace("rocket", "walrus"))
    assert "walrus" in pairs[0][0].document


# -------------------------------------------------------------------------------------------------------- empty and NaN


def test_empty_prediction_scores_zero_and_is_counted_and_reported(
    tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [{"id": f"d{n}", "summary": "" if n == 2 else prediction(n)} for n in range(NUMBER)]
    gappy = rows(tmp_path / "gappy.jsonl", objects)
    found = score(gappy, references)
    (system,) = found.systems
    assert system.empty == 1
    for name in ("rouge-1", "coverage", "length-ratio"):
        assert system.scores[name][2] == 0
        assert found.table["gappy"][name].counted == NUMBER
    assert isnan(system.scores["repetition"][2])  # zero would be the best score
    assert found.table["gappy"]["repetition"].counted == NUMBER - 1
    assert main(["evaluate", str(gappy), str(references), "--metrics", *MODEL_FREE, "--processes", "1"]) == 0
    notes = capsys.readouterr().err
    assert "gappy: 1 of 6 summaries have no text: they score 0" in notes
    assert "gappy: Repeated is over 5 of 6 summaries" in notes


def test_empty_lines_of_text_keep_their_place(tmp_path: Path, references: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(("" if n == 2 else " ".join(prediction(n).split())) + "\n" for n in range(NUMBER)))
    found = score(plain, references).systems[0]
    assert found.scores["rouge-1"][2] == 0
    assert (np.delete(found.scores["rouge-1"], 2) > 0.2).all()


# ----------------------------------------------------------------------------------------------------- kept and resumed


def test_scores_are_saved_and_resumed_from(
    tmp_path: Path, ours: Path, theirs: Path, references: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = score(ours, references, compare=[theirs])
    file = tmp_path / "scores.jsonl"
    score(ours, references, compare=[theirs], scores=file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == NUMBER + 1
    row = json.loads(lines[3])
    assert row["id"] == "d2"
    assert row["scores"]["theirs"]["rouge-1"] == expected.systems[1].scores["rouge-1"][2]
    file.write_bytes(b"".join(lines[:4]) + lines[4][:20])  # killed while writing the fourth
    calls: list[str] = []
    light = running._LightMetrics.__call__
    monkeypatch.setattr(
        running._LightMetrics,
        "__call__",
        lambda self, samples: (calls.append(samples[0].prediction), light(self, samples))[1],
    )
    again = score(ours, references, compare=[theirs], scores=file)
    assert calls == [prediction(n) for n in range(3, NUMBER)]
    assert file.read_bytes().splitlines() == [line.rstrip() for line in lines]
    for one, other in zip(expected.systems, again.systems, strict=True):
        for name in one.scores:
            np.testing.assert_array_equal(one.scores[name], other.scores[name])
    np.testing.assert_array_equal(expected.document_words, again.document_words)


def test_nan_is_saved_as_null(tmp_path: Path, references: Path) -> None:
    short = rows(tmp_path / "short.jsonl", [{"id": f"d{n}", "summary": "Two words."} for n in range(NUMBER)])
    file = tmp_path / "scores.jsonl"
    score(short, references, scores=file)
    assert json.loads(file.read_text().splitlines()[1])["scores"]["short"]["repetition"] is None
    assert isnan(score(short, references, scores=file).table["short"]["repetition"].mean)


def test_file_with_other_scores_is_refused(tmp_path: Path, ours: Path, theirs: Path, references: Path) -> None:
    file = tmp_path / "scores.jsonl"
    score(ours, references, scores=file)
    before = file.read_bytes()
    for change in ({"metrics": ["rouge"]}, {"compare": [theirs]}):
        with pytest.raises(AwesumError, match=r"scores\.jsonl contains something other than the scores"):
            score(ours, references, scores=file, **change)
    ours.write_text(ours.read_text().replace("cost", "took"))
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, scores=file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0], lines[2], lines[1]],  # in another order
        lambda lines: [lines[0], lines[1], lines[1]],  # twice
        lambda lines: [lines[0], lines[1].replace(b'"rouge-1"', b'"rouge-9"')],
        lambda lines: [lines[0], lines[1].replace(b'"words": ', b'"words": "x", "w": ')],
        lambda lines: [lines[0], b'{"id": "d0", "scores": {}}\n'],
        lambda lines: [lines[0], b'{"id": "d0"}\n'],
        lambda lines: lines[1:],
        lambda lines: [b"[]\n"],
    ],
)
def test_damaged_file_of_scores_is_refused(
    tmp_path: Path, ours: Path, references: Path, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    file = tmp_path / "scores.jsonl"
    score(ours, references, scores=file)
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, scores=file)


@pytest.mark.parametrize("content", [b"", b'{"key": "ab'])
def test_empty_file_of_scores_is_filled(tmp_path: Path, ours: Path, references: Path, content: bytes) -> None:
    file = tmp_path / "scores.jsonl"
    file.write_bytes(content)
    score(ours, references, scores=file)
    assert len(file.read_bytes().splitlines()) == NUMBER + 1
    score(ours, references, scores=file)
