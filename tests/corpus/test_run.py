"""A corpus from beginning to end, with workers that need no models; and with real ones, in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awesum.cli import main
from awesum.corpus import Job, Totals, local, run, summarize_corpus
from awesum.corpus.results import RECORD, read
from awesum.corpus.source import Batch, Item
from awesum.corpus.worker import Worker
from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.summarizer import Summarizer
from tests.conftest import topical_text
from tests.corpus.fakes import DEADLY, Fake, documents, write_lines

LEAD = Job("", settings=Settings(length="20w"), system="lead")


def summarize(source: Path | str, folder: Path, lines: list[str] | None = None, **options: Any) -> Totals:
    log = folder.parent / "log"
    say = lines.append if lines is not None else None
    load = options.pop("load", partial(Fake, log))
    return summarize_corpus(
        replace(LEAD, source=str(source)), str(folder), workers=2, say=say, load=load, quiet=True, **options
    )


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows by the name of the document; each has to be there once."""
    found = list(read(str(folder)))
    assert max(Counter(row["id"] for row in found).values(), default=1) == 1
    return {row["document"]: row for row in found}


def test_every_document_has_a_row_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", documents(100))
    totals = summarize(source, tmp_path / "out")
    assert (totals.documents, totals.resumed, totals.failed, totals.workers) == (100, 0, 0, 2)
    found = rows(tmp_path / "out")
    assert found["d7"]["summary"] == "Text 7 says"
    assert found["d7"]["file"] == str(source)
    assert found["d7"]["row"] == 8
    again = summarize(source, tmp_path / "out")
    assert (again.documents, again.resumed) == (100, 100)
    assert len((tmp_path / "log").read_text().splitlines()) == 100, "no document was summarized twice"
    assert json.loads((tmp_path / "out" / RECORD).read_text())["finished"] is True


def test_new_documents_are_added(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    summarize(write_lines(source, documents(10)), tmp_path / "out")
    totals = summarize(write_lines(source, documents(15)), tmp_path / "out")
    assert (totals.documents, totals.resumed) == (15, 10)
    assert len((tmp_path / "log").read_text().splitlines()) == 15


def test_repeated_documents_have_one_row(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [*documents(10), *documents(5)])
    assert summarize(source, tmp_path / "out").documents == 10
    assert len((tmp_path / "log").read_text().splitlines()) == 10


def test_document_that_kills_its_worker_is_a_row_with_an_error(tmp_path: Path) -> None:
    made = documents(40)
    made[17]["text"] = f"This one is {DEADLY}."
    totals = summarize(write_lines(tmp_path / "a.jsonl", made), tmp_path / "out")
    assert (totals.documents, totals.failed) == (40, 1)
    found = rows(tmp_path / "out")
    assert "died" in found["d17"]["error"]
    assert found["d17"]["summary"] is None
    assert sum(row["error"] is None for row in found.values()) == 39
    made[17]["text"] = "Now it is harmless."
    write_lines(tmp_path / "a.jsonl", made)
    totals = summarize(tmp_path / "a.jsonl", tmp_path / "out", retry_failed=True)
    assert (totals.documents, totals.resumed, totals.failed) == (40, 39, 0)


def test_worker_that_cannot_load_ends_the_job_with_its_line(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", documents(3))
    with pytest.raises(AwesumError, match="the weights are missing"):
        summarize(source, tmp_path / "out", load=partial(Fake, tmp_path / "log", broken=True))
    with pytest.raises(AwesumError, match="fewer --workers"):
        summarize(source, tmp_path / "out", load=partial(os._exit, 3))


def test_interruption_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_lines(tmp_path / "a.jsonl", documents(100))
    seen: list[int] = []

    def interrupt(self: object, number: int, size: int) -> None:
        seen.append(number)
        if number >= 32:
            raise KeyboardInterrupt

    monkeypatch.setattr(run._Progress, "show", interrupt)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        summarize(source, tmp_path / "out", lines)
    kept = len(rows(tmp_path / "out"))
    assert 32 <= kept < 100
    assert lines[-1] == f"interrupted: {kept} rows kept in {tmp_path}/out; run the same command again to resume"
    monkeypatch.undo()
    assert summarize(source, tmp_path / "out").resumed == kept
    assert len(rows(tmp_path / "out")) == 100


def test_skipped_parts_are_reported_and_counted(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", documents(5))
    (tmp_path / "in" / "b.parquet").write_bytes(b"no parquet")
    lines: list[str] = []
    totals = summarize(tmp_path / "in", tmp_path / "out", lines)
    assert totals.documents == 5
    assert len(totals.skipped) == 1
    assert "1 × unreadable skipped" in str(totals)
    assert lines[0].startswith(f"skipped: {tmp_path}/in/b.parquet")


def test_progress_has_a_rate_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = run._Progress(1000, quiet=False)
    progress.started = progress.last = time.monotonic() - 60
    progress.show(30, 250)
    shown = capsys.readouterr().err
    assert shown == "awesum: 30 of about 120 documents, 0.5 a second, 3 min left\n"
    assert run._duration(7300) == "2 h 1 min"
    assert run._duration(42) == "42 s"


def test_folder_inside_the_corpus_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", documents(1))
    for folder in (tmp_path, tmp_path / "out"):
        with pytest.raises(AwesumError, match="is inside the corpus"):
            summarize(tmp_path, folder)
    with pytest.raises(AwesumError, match="is a file"):
        summarize(tmp_path / "a.jsonl", write_lines(tmp_path / "b.jsonl", []))


def test_threads_and_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in local.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local, "cores", lambda: 8)
    assert [local.threads_of(workers) for workers in (1, 2, 8, 16)] == [8, 4, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert local.threads_of(2) == 3
    monkeypatch.setattr(local.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 5_000_000_000 // 4096)
    assert local.usual_workers() == 2


# Real workers


def worker(system: str = "lead", **options: Any) -> Worker:
    job = replace(LEAD, system=system, **options)
    return Worker(job, job.load().fingerprint())


def test_rows_are_what_the_summarizer_says(tmp_path: Path) -> None:
    from awesum.corpus.rows import from_bytes

    text = topical_text(20)
    (tmp_path / "report.md").write_text(f"# A report\n\n{text}")
    items = [
        Item("00", "one", "a.jsonl", 1, text),
        Item("01", "two", "a.jsonl", 2, " \n "),
        Item("02", "three", "a.jsonl", 3, error="no text"),
        Item("03", "report.md", str(tmp_path / "report.md")),
        Item("04", "gone.pdf", str(tmp_path / "gone.pdf")),
    ]
    outcome = worker()(Batch(items, 7, ["a line"], 0.5))
    assert (outcome.documents, outcome.size, outcome.skipped, outcome.reading) == (5, 7, ["a line"], 0.5)
    found = {row["id"]: row for row in from_bytes(outcome.rows).to_pylist()}
    expected = Summarizer(system="lead").summarize(text=text, length="20w")
    assert found["00"]["summary"] == expected.text
    assert found["00"]["provenance"][0]["source"] == expected.parts[0].sentences[0].source.text
    start, end = found["00"]["provenance"][0]["start"], found["00"]["provenance"][0]["end"]
    assert text[start:end].strip() == found["00"]["provenance"][0]["source"].strip()
    assert found["00"]["figures"]["tokens"] == expected.tokens
    assert json.loads(found["00"]["settings"])["length"] == "20w"
    assert found["02"]["error"] == "no text"
    assert "report" in found["03"]["summary"]
    assert "does not exist" in found["04"]["error"]


def test_query_of_a_row_and_error_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from awesum.corpus.rows import from_bytes
    from awesum.systems import system

    made = worker()
    texts = [topical_text(10, seed=seed) for seed in range(3)]
    items = [Item(f"0{number}", "", "a", number, text, "Why?") for number, text in enumerate(texts)]
    assert set(from_bytes(made(Batch(items)).rows).column("query").to_pylist()) == {"Why?"}
    written = system.write_documents

    def failing(system: Any, settings: Any, sessions: Any) -> Any:
        for moved in written(system, settings, sessions):
            if moved[0].analysis.document.text == texts[1]:
                raise MemoryError
            yield moved

    monkeypatch.setattr(system, "write_documents", failing)
    found = from_bytes(made(Batch(items)).rows).to_pylist()
    assert {row["id"]: row["error"] is None for row in found} == {"00": True, "01": False, "02": True}
    assert "needs more RAM" in next(row["error"] for row in found if row["error"])


def test_other_weights_than_those_of_the_job_are_refused() -> None:
    with pytest.raises(AwesumError, match="has other weights where a worker runs"):
        Worker(LEAD, "another fingerprint")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--system", "oracle"], "needs a reference summary"),
        (["--strict"], "none are: add --style abstract"),
        (["--address", "auto"], "add --engine ray"),
        (["--workers", "0"], "--workers must be more than 0"),
        (["--system", "leed"], "did you mean 'lead'"),
        (["--text-column", "body"], "it has id, text"),
        (["--engine", "ray", "--address", "nowhere"], "give host:port"),
        (["--engine", "ray", "--address", "127.0.0.1:9"], "there is no Ray cluster at 127.0.0.1:9 (Connection refused"),
    ],
)
def test_wrong_calls_are_one_line(
    flags: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "a.jsonl", documents(2))
    assert main(["corpus", str(source), "-o", str(tmp_path / "out"), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


@pytest.mark.slow
def test_killed_command_resumes_with_every_row_once(tmp_path: Path) -> None:
    """The real command, killed with -9 after its first rows, and run again; then compared with one left alone."""
    source = write_lines(tmp_path / "a.jsonl", documents(400))
    command = [sys.executable, "-m", "awesum", "corpus", str(source), "--system", "lead", "--length", "5w", "-o"]
    with subprocess.Popen([*command, str(tmp_path / "out")], stderr=subprocess.DEVNULL) as process:
        while not list((tmp_path / "out").glob("part-*")) and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    subprocess.run([*command, str(tmp_path / "out")], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*command, str(tmp_path / "whole")], check=True, stderr=subprocess.DEVNULL)
    assert comparable(rows(tmp_path / "out")) == comparable(rows(tmp_path / "whole"))


def comparable(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The rows without what depends on the moment."""
    return {
        name: {key: value for key, value in row.items() if key != "figures"}
        | {"words": (row["figures"] or {}).get("words")}
        for name, row in found.items()
    }


def test_names_that_are_no_utf8_pipes_and_repeated_documents(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("The crane broke twice.")
    (folder / "b.txt").write_text("The harbour was closed.")
    os.mkfifo(folder / "c.txt")  # opening it would wait for ever
    totals = summarize(folder, tmp_path / "out", load=partial(Worker, LEAD, LEAD.load().fingerprint()))
    found = rows(tmp_path / "out")
    assert set(found) == {"caf\ufffd.txt", "b.txt"}
    assert not any(row["error"] for row in found.values())
    assert totals.documents == 2

    twice = write_lines(tmp_path / "a.jsonl", [{"text": "The crane broke."}, {"text": "It rained."}] * 3)
    totals = summarize(twice, tmp_path / "twice")
    assert (totals.documents, totals.repeated) == (2, 4)
    assert "4 repeated documents left out" in str(totals)
    assert summarize(twice, tmp_path / "twice").repeated == 0, "they are in the results"


def test_results_below_a_glob_are_no_part_of_it(tmp_path: Path) -> None:
    write_lines(tmp_path / "g" / "a.jsonl", documents(3))
    for resumed in (0, 3):
        totals = summarize(f"{tmp_path}/g/**/*", tmp_path / "g" / "out")
        assert (totals.documents, totals.resumed) == (3, resumed)
    (tmp_path / "link").symlink_to(tmp_path / "g")
    with pytest.raises(AwesumError, match="is inside the corpus"):
        summarize(tmp_path / "g", tmp_path / "link" / "other")
