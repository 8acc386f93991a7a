"""`awesum evaluate` from files to table: matching texts, resuming runs, and every kind of bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from awesum.cli import main
from awesum.errors import AwesumError
from awesum.evaluation import Pairs, difference, evaluate, interval, render
from awesum.evaluation import run as running
from awesum.metrics import Sample, load
from tests.conftest import topical_text
from tests.metrics.test_summac import saved, tiny, words_tokenizer

MODEL_FREE = ("rouge", "coverage", "repetition", "length")
NUMBER = 6


def reference(number: int) -> str:
    return topical_text(8, number)


def document(number: int) -> str:
    return topical_text(30, number)


def prediction(number: int, system: int = 0) -> str:
    """System 0 copies the first sentences of the document, system 1 those of another document."""
    return topical_text(5 + number % 3, number + 100 * system)


def rows(path: Path, objects: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")
    return path


@pytest.fixture
def references(tmp_path: Path) -> Path:
    objects = [{"id": f"d{n}", "document": document(n), "summary": reference(n)} for n in range(NUMBER)]
    return rows(tmp_path / "references.jsonl", objects)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return rows(tmp_path / "ours.jsonl", [{"id": f"d{n}", "summary": prediction(n)} for n in range(NUMBER)])


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return rows(tmp_path / "theirs.jsonl", [{"id": f"d{n}", "summary": prediction(n, 1)} for n in range(NUMBER)])


def score(*args: Any, **kwargs: Any) -> Any:
    return evaluate(*args, **({"metrics": MODEL_FREE, "quiet": True} | kwargs))[0]


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of the error that the command ends with."""
    assert main(["evaluate", *map(str, arguments), "--quiet", "--processes", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line.removeprefix("awesum: error: ")


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


# ------------------------------------------------------------------------------------------------------------ the table


def test_plain_table(ours: Path, theirs: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "rouge", "length", "--processes", "1"]
    assert main([*map(str, arguments), "--quiet"]) == 0
    heading, columns, first, _, second, _, p = capsys.readouterr().out.splitlines()
    assert heading == "6 documents; p: approximate randomization against ours, paired by document, 10,000 trials"
    assert columns.split()[-1] == "Length"
    assert "R-1 ↑" in columns
    found = score(ours, references, compare=[theirs])
    assert first.split()[:2] == ["ours", f"{100 * found.table['ours']['rouge-1'].mean:.2f}"]
    assert second.split()[:2] == ["theirs", f"{100 * found.table['theirs']['rouge-1'].mean:.2f}"]
    assert p.split()[1] == f"{found.table['theirs']['rouge-1'].p:.3f}"


def test_json_is_complete_and_strict(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    parsed = json.loads(render(found, "json"), parse_constant=refuse)
    assert parsed["documents"] == NUMBER
    assert parsed["scores"]["length-ratio"]["range"] == [0, None]
    assert parsed["systems"]["theirs"]["scores"]["rouge-1"]["p"] == found.table["theirs"]["rouge-1"].p
    assert parsed["systems"]["ours"]["scores"]["rouge-1"]["mean"] == found.table["ours"]["rouge-1"].mean


def test_csv_markdown_and_latex(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])
    parsed = list(csv.DictReader(io.StringIO(render(found, "csv"))))
    assert len(parsed) == 2 * len(found.columns)
    assert float(parsed[0]["mean"]) == found.table["ours"]["rouge-1"].mean
    markdown = render(found, "markdown").splitlines()
    assert markdown[2].startswith("| system | R-1 ↑ | R-2 ↑ |")
    assert markdown[4].startswith(f"| ours | **{100 * found.table['ours']['rouge-1'].mean:.2f}** |")
    latex = render(found, "latex")
    assert rf"\textbf{{{100 * found.table['ours']['rouge-1'].mean:.2f}}}" in latex
    assert latex.count(r"\\") == 3
    assert latex.count("&") == 3 * len(found.columns)


def test_names_of_systems_cannot_break_a_table(tmp_path: Path, ours: Path, references: Path) -> None:
    odd = tmp_path / "a|b_50%.jsonl"
    odd.write_bytes(ours.read_bytes())
    found = score(odd, references, metrics=["length"])
    assert "a\\|b_50%" in render(found, "markdown")
    assert r"a|b\_50\%" in render(found, "latex")


def test_systems_of_the_same_name_get_different_names(tmp_path: Path, ours: Path, references: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "ours.jsonl"
    other.write_bytes(ours.read_bytes())
    found = score(ours, references, compare=[other], metrics=["length"])
    assert [system.name for system in found.systems] == [str(ours), str(other)]


def test_report_is_written(tmp_path: Path, ours: Path, theirs: Path, references: Path) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "rouge", "--report", tmp_path / "page"]
    assert main([*map(str, arguments), "--quiet", "--processes", "1"]) == 0
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "theirs" in page
    assert "<svg" in page


# --------------------------------------------------------------------------------------------------------- with a model


@pytest.fixture
def nli(tmp_path: Path) -> str:
    tokenizer = words_tokenizer()
    return saved(tmp_path / "nli", tiny("bert", tokenizer), tokenizer)


def test_metrics_with_and_without_a_model_together(
    tmp_path: Path, ours: Path, theirs: Path, references: Path, nli: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "summac", "rouge", "--nli-model", nli]
    arguments += ["--premises", "all", "--scores", tmp_path / "scores.jsonl", "--json", "--processes", "2", "--quiet"]
    assert main([*map(str, arguments)]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert list(parsed["scores"]) == ["rouge-1", "rouge-2", "rouge-l", "summac-zs", "summac-conv"]
    assert nli in parsed["scores"]["summac-zs"]["settings"]
    metric = load("summac", model=nli, premises=None)
    for number, name in enumerate(("ours", "theirs")):
        samples = [Sample(prediction(n, number), (reference(n),), document(n)) for n in range(NUMBER)]
        expected = np.mean([metric.measure(sample)["summac-zs"] for sample in samples])
        assert parsed["systems"][name]["scores"]["summac-zs"]["mean"] == pytest.approx(expected)


def test_pruned_and_exact_scores_are_not_mixed_up(tmp_path: Path, ours: Path, references: Path, nli: str) -> None:
    file = tmp_path / "scores.jsonl"
    options = {"metrics": ["summac"], "scores": file}
    score(ours, references, options={"summac": {"model": nli, "premises": None}}, **options)
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, options={"summac": {"model": nli, "premises": 3}}, **options)


def test_scores_of_another_model_of_the_same_name_are_not_reused(
    tmp_path: Path, ours: Path, references: Path, nli: str
) -> None:
    file = tmp_path / "scores.jsonl"
    options = {"metrics": ["summac"], "scores": file, "options": {"summac": {"model": nli, "premises": None}}}
    score(ours, references, **options)
    tokenizer = words_tokenizer()
    saved(Path(nli), tiny("bert", tokenizer, hidden_size=8), tokenizer)
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, **options)


def test_truncated_sentences_are_reported(tmp_path: Path, references: Path, nli: str) -> None:
    endless = rows(tmp_path / "endless.jsonl", [{"id": f"d{n}", "summary": "word " * 900} for n in range(NUMBER)])
    options = {"summac": {"model": nli, "premises": None}}
    notes = score(endless, references, metrics=["summac"], options=options).notes
    assert any("too long for the model, truncated to its window" in note for note in notes)


def test_model_that_is_not_an_nli_model(
    ours: Path, references: Path, tiny_bart_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--metrics", "summac", "--nli-model", tiny_bart_folder)
    assert str(tiny_bart_folder) in line
    assert "give an NLI model" in line


# ------------------------------------------------------------------------------------------------------------ bad input


def test_counts_that_do_not_match(tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = rows(tmp_path / "few.jsonl", [{"summary": prediction(n)} for n in range(4)])
    line = error(capsys, few, references)
    assert line.startswith(f"{few} has 4 predictions and {references} 6 references: without an id in every row")


def test_ids_that_do_not_match(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ours.read_text().splitlines(keepends=True)
    ours.write_text("".join(lines[:4]))
    line = error(capsys, ours, references)
    assert line.startswith(f"2 references of {references} have no prediction in {ours} (first: 'd4')")
    ours.write_text("".join([*lines, json.dumps({"id": "x", "summary": "More."})]))
    assert error(capsys, ours, references).startswith(f"1 prediction of {ours} has no reference in {references}")
    ours.write_text("".join([*lines, lines[1]]))
    assert "line 7 has the id 'd1' of an earlier row" in error(capsys, ours, references)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", "line 3 is not JSON"),
        ("[1]", "line 3 is not a JSON object"),
        ('{"id": "d2"}', "line 3 has no 'prediction' (it has 'id'): name the field that, or 'summary'"),
        ('{"id": "d2", "summary": NaN}', "line 3 has a float as 'summary': it must be a text"),
        ('{"id": "d2", "summary": ["a"]}', "line 3 has a list as 'summary'"),
        ('{"id": "d2", "summary": "\\ud800"}', "line 3 has half a character"),
    ],
)
def test_invalid_rows_are_refused_with_their_line(
    ours: Path, references: Path, capsys: pytest.CaptureFixture[str], row: str, message: str
) -> None:
    lines = ours.read_text().splitlines()
    ours.write_text("\n".join([*lines[:2], row, *lines[3:]]))
    assert message in error(capsys, ours, references)


def test_empty_references_and_documents(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = references.read_text().splitlines()
    row = json.loads(content[1])
    for field, what in (("summary", "reference"), ("document", "document")):
        rows(references, [json.loads(content[0]), row | {field: " "}, *map(json.loads, content[2:])])
        assert f"line 2 has an empty {what}" in error(capsys, ours, references)


def test_missing_files_and_documents(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot read" in error(capsys, tmp_path / "no.jsonl", references)
    (tmp_path / "empty").mkdir()
    assert "is empty" in error(capsys, tmp_path / "empty", references)
    (tmp_path / "empty.jsonl").touch()
    assert "is empty" in error(capsys, tmp_path / "empty.jsonl", references)
    alone = rows(tmp_path / "alone.jsonl", [{"id": f"d{n}", "summary": reference(n)} for n in range(NUMBER)])
    assert error(capsys, ours, alone, "--metrics", "rouge", "coverage") == (
        f"coverage compares with the documents, and {alone}, line 1 has none: give them with --documents FILE"
    )


def test_unknown_metrics_and_missing_models(
    ours: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no metric 'rogue': did you mean 'rouge'?" in error(capsys, ours, references, "--metrics", "rogue")
    assert error(capsys, ours, references, "--metrics", "summac") == (
        "summac needs a model: name one with --nli-model (see --help)"
    )
    assert "--bert-model" in error(capsys, ours, references, "--metrics", "discoscore")
    line = error(capsys, ours, references, "--metrics", "summac", "--nli-model", "x", "--premises", "none")
    assert line == "--premises must be a number of sentences or 'all', not 'none'"
    assert "--trials must be more than 0" in error(capsys, ours, references, "--trials", "0")
    assert "is given twice" in error(capsys, ours, references, "--compare", ours)


def test_null_prediction_is_not_replaced_by_another_field(
    tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [
        {"id": f"d{n}", "prediction": prediction(n) if n else None, "summary": reference(n)} for n in range(NUMBER)
    ]
    line = error(capsys, rows(tmp_path / "null.jsonl", objects), references)
    assert "line 1 has a NoneType as 'prediction': it must be a text" in line


def test_ids_in_some_rows_only(ours: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours.write_text(ours.read_text().replace('"id": "d3", ', ""))
    assert error(capsys, ours, references).endswith("line 4 has no id, but other rows do: add ids to all rows or none")


def test_ids_on_one_side_only_are_reported(tmp_path: Path, references: Path) -> None:
    nameless = rows(tmp_path / "nameless.jsonl", [{"summary": prediction(n)} for n in range(NUMBER)])
    found = score(nameless, references, metrics=["length"])
    assert f"{nameless} is matched with {references} by order: only one of them has ids" in found.notes


def test_folder_is_never_matched_by_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").mkdir()
    for n in range(12):
        (tmp_path / "s" / f"{n}.txt").write_text("Some text.")
    lines = tmp_path / "lines.txt"
    lines.write_text("Some text.\n" * 12)
    assert error(capsys, tmp_path / "s", lines).startswith(f"the files of {tmp_path / 's'} are matched by their names")
    assert error(capsys, lines, tmp_path / "s").startswith(f"the files of {tmp_path / 's'} are matched by their names")


def test_folders_in_folders(tmp_path: Path) -> None:
    for folder in ("s", "r"):
        for name in ("a.txt", "sub/a.txt"):
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(f"The text of {name}.")
    found = score(tmp_path / "s", tmp_path / "r", metrics=["rouge"])
    assert found.ids == ("a", "sub/a")
    assert found.table["s"]["rouge-1"].mean == 1


@pytest.mark.parametrize("name", ["page.html", "notes.md", "report.pdf"])
def test_file_that_is_not_a_plain_summary_is_refused(
    tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("<p>Summary and source</p>")
    assert f"{name} is neither text nor JSON" in error(capsys, tmp_path / "s", references)


def test_upper_case_suffixes_and_unsupported_formats(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upper = tmp_path / "OURS.JSONL"
    upper.write_bytes(ours.read_bytes())
    expected = score(ours, references).systems[0].scores["rouge-1"]
    np.testing.assert_array_equal(score(upper, references).systems[0].scores["rouge-1"], expected)
    odd = tmp_path / "ours.csv"
    odd.write_text("id,summary\n")
    assert "has an unsupported format" in error(capsys, odd, references)


def test_documents_in_some_rows_only(ours: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in references.read_text().splitlines()]
    del objects[2]["document"]
    rows(references, objects)
    assert score(ours, references, metrics=["rouge"]).table["ours"]["rouge-1"].counted == NUMBER
    line = error(capsys, ours, references, "--metrics", "coverage")
    assert line.startswith(f"coverage compares with the documents, and {references}, line 3 has none")


def test_summaries_without_rouge_tokens_are_reported(tmp_path: Path) -> None:
    texts = rows(tmp_path / "texts.jsonl", [{"summary": "国会は予算案を可決した。"}, {"summary": "Two words."}])
    other = rows(tmp_path / "other.jsonl", [{"summary": "国会は予算案を可決した。"}, {"summary": "Two words."}])
    notes = score(texts, other, metrics=["rouge"]).notes
    assert any(note.startswith("texts: 1 of 2 summaries have no words in a-z or digits") for note in notes)


def test_model_of_a_metric_that_was_not_chosen(
    ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--nli-model", "x")
    assert line.startswith("--nli-model is ")
    assert "summac" in line
    assert line.endswith("to --metrics")


def test_unwritable_report_is_reported_before_scoring(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Pairs", lambda *args: pytest.fail("scoring had started"))
    assert "cannot write the report to" in error(capsys, ours, references, "--report", ours / "page")


def test_terminal_without_arrows_gets_a_table(ours: Path, references: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", narrow)
    arguments = ["evaluate", str(ours), str(references), "--metrics", "rouge", "--processes", "1", "--quiet"]
    assert main(arguments) == 0
    narrow.flush()
    assert b"R-1 ?" in narrow.buffer.getvalue()  # type: ignore[attr-defined]


def test_unwritable_file_of_scores(
    ours: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--metrics", "rouge", "--scores", tmp_path / "no" / "scores.jsonl")
    assert line.startswith("cannot write to")
