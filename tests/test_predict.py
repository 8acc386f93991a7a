"""`awesum predict`: a row for each document, whatever happens on the way, that `awesum evaluate` can read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awesum import AwesumError, Document, systems
from awesum.analysis.analysis import Analyst
from awesum.cli import main
from awesum.length import count_words
from awesum.models.causal import ChatModel
from awesum.predict import Job, Predictions, predict
from awesum.settings import Settings
from awesum.systems.chat import Chat
from awesum.systems.lead import Lead
from tests.conftest import topical_text

NUMBER = 7


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"report-{number}",
            "document": topical_text(14 + 5 * (number % 3), seed=number),
            "summary": topical_text(2, seed=100 + number),
        }
        for number in range(NUMBER)
    ]


def written(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "data" / "test.jsonl", rows()).parent


def predictions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def chat(tiny_chat: ChatModel, analyst: Analyst) -> Chat:
    return Chat(writer=tiny_chat, analyst=analyst)


def test_row_for_each_document_in_the_order_of_the_data(chat: Chat, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    totals = predict(chat, Job(str(data), length="40w"), output)
    found = predictions(output)
    assert [row["id"] for row in found] == [row["id"] for row in rows()]
    for row in found:
        assert list(row) == ["id", "summary", "words", "seconds", "notes"]
        assert row["words"] == count_words(row["summary"]) > 0
    assert (totals.documents, totals.failed, totals.resumed) == (NUMBER, 0, 0)
    assert totals.peak_memory_bytes > 0
    record = json.loads((tmp_path / "out.run.json").read_text())
    assert record["finished"] is True
    assert record["job"]["system"] == "chat"
    assert record["totals"]["documents"] == NUMBER


def test_predictions_are_what_summarizing_each_document_gives(chat: Chat, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    predict(chat, Job(str(data), length="40w"), output)
    from awesum import Summarizer

    summarizer = Summarizer(system=chat)
    for row, given in zip(predictions(output), rows(), strict=True):
        assert row["summary"] == summarizer.summarize(Document(given["document"]), length="40w").text


def test_length_of_the_reference(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    predict(Lead(), Job(str(data), length="reference"), output)
    for row, given in zip(predictions(output), rows(), strict=True):
        assert abs(row["words"] - count_words(given["summary"])) <= 10


def test_each_row_has_its_own_query(chat: Chat, tmp_path: Path) -> None:
    document = topical_text(70)
    asked = [
        {"id": "a", "document": document, "summary": "x", "query": "nurse vaccine clinic surgery fever"},
        {"id": "b", "document": document, "summary": "x", "query": "apple blossom orchard harvest cider"},
    ]
    data = written(tmp_path / "test.jsonl", asked)
    from awesum.systems.extract import Extract

    predict(Extract(analyst=chat.analyst, like=chat), Job(str(data), length="4s"), tmp_path / "out.jsonl")
    first, second = predictions(tmp_path / "out.jsonl")
    assert first["summary"].count("clinic") > second["summary"].count("clinic")
    assert second["summary"].count("orchard") > first["summary"].count("orchard")


def test_raw_is_what_the_model_wrote(chat: Chat, data: Path, tmp_path: Path, answer_with: Callable[..., None]) -> None:
    answer_with(lambda prompt: "Summary: **The crane** cost 31337 dollars.")
    predict(chat, Job(str(data), length="30w", raw=True), tmp_path / "raw.jsonl")
    predict(chat, Job(str(data), length="30w"), tmp_path / "checked.jsonl")
    for raw, checked in zip(*map(predictions, (tmp_path / "raw.jsonl", tmp_path / "checked.jsonl")), strict=True):
        assert set(raw["summary"].split("\n")) == {"Summary: **The crane** cost 31337 dollars."}
        assert "31337" not in checked["summary"]
        assert any("not supported" in note for note in checked["notes"])
        assert not any("not supported" in note or "removed" in note for note in raw["notes"])


def test_only_the_first_documents(data: Path, tmp_path: Path) -> None:
    totals = predict(Lead(), Job(str(data), documents=3), tmp_path / "out.jsonl")
    assert totals.documents == 3
    assert len(predictions(tmp_path / "out.jsonl")) == 3
    totals = predict(Lead(), Job(str(data)), tmp_path / "out.jsonl")
    assert (totals.documents, totals.resumed) == (NUMBER, 3)


@pytest.mark.parametrize("cut", [0, 1, 40, -1, -40])
def test_resumes_after_a_kill_with_no_row_twice_or_missing(
    cut: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed run leaves some rows in any order, and perhaps half of one."""
    output = tmp_path / "out.jsonl"
    predict(Lead(), Job(str(data)), output)
    whole = predictions(output)
    lines = output.read_bytes().splitlines(keepends=True)
    kept = b"".join([lines[3], lines[0], lines[5]])
    output.write_bytes(kept[:cut] if cut else kept)
    asked: list[str] = []
    analyse = Lead.analyse

    def counting(self: Lead, document: Document, *args: Any, **kwargs: Any) -> Any:
        asked.append(document.path)
        return analyse(self, document, *args, **kwargs)

    monkeypatch.setattr(Lead, "analyse", counting)
    predict(Lead(), Job(str(data)), output)
    again = predictions(output)
    assert [row["id"] for row in again] == [row["id"] for row in whole]
    assert [row["summary"] for row in again] == [row["summary"] for row in whole]
    assert len(asked) == len(set(asked)) == NUMBER - output_rows(kept[:cut] if cut else kept)


def output_rows(content: bytes) -> int:
    return content.count(b"\n")


@pytest.mark.slow
def test_killed_process_resumes(tmp_path: Path) -> None:
    many = [{**row, "id": f"{row['id']}-{copy}"} for copy in range(60) for row in rows()]
    written(tmp_path / "data" / "test.jsonl", many)
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "awesum", "predict", "lead", "--data", str(tmp_path / "data"), "-o", str(output)]
    for _ in range(20):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.25)
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    assert [row["id"] for row in predictions(output)] == [row["id"] for row in many]


def test_bad_document_is_reported_and_the_others_go_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    analyse = Lead.analyse

    def failing(self: Lead, document: Document, *args: Any, **kwargs: Any) -> Any:
        if document.path == "report-2":
            raise LookupError("unknown encoding")
        return analyse(self, document, *args, **kwargs)

    monkeypatch.setattr(Lead, "analyse", failing)
    totals = predict(Lead(), Job(str(data)), tmp_path / "out.jsonl")
    assert (totals.documents, totals.failed) == (NUMBER - 1, 1)
    assert "report-2" in capsys.readouterr().err
    monkeypatch.undo()
    assert predict(Lead(), Job(str(data)), tmp_path / "out.jsonl").documents == NUMBER
    assert [row["id"] for row in predictions(tmp_path / "out.jsonl")] == [row["id"] for row in rows()]


def test_rows_without_a_document_are_reported_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[Any] = [*rows()[:2], {"id": "none", "summary": "x"}, "no json", *rows()[2:4]]
    written(tmp_path / "test.jsonl", given)
    totals = predict(Lead(), Job(str(tmp_path)), tmp_path / "out.jsonl")
    assert totals.documents == 4
    assert sum(totals.skipped.values()) == 2
    assert "test.jsonl, line 3" in (said := capsys.readouterr().err)
    assert "test.jsonl, line 4" in said
    assert "skipped" in str(totals)


def test_rows_without_a_summary_are_predicted_unless_it_is_needed(tmp_path: Path) -> None:
    written(tmp_path / "test.jsonl", [{"id": row["id"], "document": row["document"]} for row in rows()])
    assert predict(Lead(), Job(str(tmp_path)), tmp_path / "lead.jsonl").documents == NUMBER
    totals = predict(systems.load("oracle"), Job(str(tmp_path)), tmp_path / "oracle.jsonl")
    assert totals.documents == 0
    assert sum(totals.skipped.values()) == NUMBER


def test_evaluate_reads_it_as_it_is(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("lead", "oracle"):
        assert main(["predict", name, "--data", str(data), "-o", str(tmp_path / f"{name}.jsonl"), "--quiet"]) == 0
    capsys.readouterr()
    arguments = [str(tmp_path / "lead.jsonl"), str(data / "test.jsonl"), "--compare", str(tmp_path / "oracle.jsonl")]
    assert main(["evaluate", *arguments, "--metrics", "rouge", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)


# Bad input


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line."""
    capsys.readouterr()
    assert main(["predict", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("awesum: error: ")
    return line


def test_unknown_system_gets_the_near_miss(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(["extrakt", "--data", str(data), "-o", str(tmp_path / "x.jsonl")], capsys)
    assert "'extract'" in line
    assert not (tmp_path / "x.jsonl").exists()


def test_missing_split_names_those_that_exist(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lead", "--data", str(data), "--split", "validation", "-o", str(tmp_path / "x.jsonl")]
    assert "it has test" in refused(arguments, capsys)


@pytest.mark.parametrize("flags", [["--length", "abc"], ["--documents", "0"], ["--max-memory", "much"]])
def test_bad_value_is_refused_before_any_work(
    flags: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["lead", "--data", str(data), "-o", str(tmp_path / "x.jsonl"), *flags], capsys)


@pytest.mark.parametrize("change", ["system", "data", "length", "raw", "split"])
def test_output_of_another_job_is_refused(
    change: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(data / "validation.jsonl", rows())
    other = written(tmp_path / "other" / "test.jsonl", rows()[:2]).parent
    output = tmp_path / "out.jsonl"
    usual = ["lead", "--data", str(data), "-o", str(output), "--quiet"]
    assert main(["predict", *usual]) == 0
    before = output.read_bytes()
    changed = {
        "system": ["oracle", *usual[1:]],
        "data": ["lead", "--data", str(other), "-o", str(output)],
        "length": [*usual, "--length", "30w"],
        "raw": [*usual, "--raw"],
        "split": [*usual, "--split", "validation"],
    }[change]
    line = refused(changed, capsys)
    assert change in line
    assert "-o" in line
    assert output.read_bytes() == before


def test_retrained_model_at_the_same_path_is_another_one(data: Path, tmp_path: Path, tiny_folder: Path) -> None:
    import shutil

    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    before = systems.load(str(model)).fingerprint()
    assert before == systems.load(str(model)).fingerprint()
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    first = next(iter(weights))
    save_file({**weights, first: weights[first] + 1}, model / "model.safetensors", {"format": "pt"})
    assert systems.load(str(model)).fingerprint() != before


def test_file_that_predict_did_not_write_is_never_touched(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "notes.jsonl"
    output.write_text("my notes\n")
    assert "notes.jsonl" in refused(["lead", "--data", str(data), "-o", str(output)], capsys)
    assert output.read_text() == "my notes\n"


def test_full_disk_leaves_what_is_written_valid(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Predictions.add
    calls = [0]

    def filling(self: Predictions, row: dict[str, Any]) -> None:
        calls[0] += 1
        if calls[0] == 4:
            monkeypatch.setattr(os, "fsync", full)
        add(self, row)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Predictions, "add", filling)
    with pytest.raises(AwesumError, match="No space left") as error:
        predict(Lead(), Job(str(data)), tmp_path / "out.jsonl")
    assert "\n" not in str(error.value)
    assert len(predictions(tmp_path / "out.jsonl")) == 3
    monkeypatch.undo()
    assert predict(Lead(), Job(str(data)), tmp_path / "out.jsonl").resumed == 3


def test_dataset_given_to_summarize_names_predict(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summarize", str(data / "test.jsonl")]) == 1
    assert "awesum predict" in capsys.readouterr().err


def test_settings_of_a_job_are_those_of_a_summary() -> None:
    job = Job("nowhere", length="reference", max_memory="2GB")
    assert job.settings("why", "one two three") == Settings(length="3w", query="why", max_memory="2GB")


@pytest.mark.skipif(sys.platform == "win32", reason="devices")
def test_predictions_go_through_a_device_and_a_pipe(data: Path, tmp_path: Path) -> None:
    call = ["predict", "lead", "--data", str(data), "--quiet", "-o"]
    assert main([*call, "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
    assert not Path("/dev/null.run.json").exists()
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        assert main([*call, str(tmp_path / "pipe")]) == 0
        assert len(reader.communicate(timeout=60)[0].splitlines()) == NUMBER
    assert (tmp_path / "pipe").is_fifo()


def test_predictions_never_take_the_place_of_the_data(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (data / "test.jsonl").read_bytes()
    assert main(["predict", "lead", "--data", str(data), "-o", str(data / "test.jsonl")]) == 1
    assert "must not be written over" in capsys.readouterr().err
    assert (data / "test.jsonl").read_bytes() == before
