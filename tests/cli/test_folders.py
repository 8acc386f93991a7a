"""`awesum summarize` with folders and several files: one summary each, and nothing twice."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from awesum import Document, batch, files
from awesum.analysis.embedding import SentenceEncoder
from awesum.models.causal import ChatModel
from tests.cli.conftest import EXTRACT, SUMMARIES, Awesum, files_of
from tests.conftest import topical_text


def test_folder_becomes_one_summary_a_file(awesum: Awesum, folder: Path) -> None:
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 0
    assert files_of(Path("out")) == SUMMARIES
    for number, name in enumerate(SUMMARIES):
        assert set(re.findall(r"\d+", Path("out", name).read_text())) <= set(
            re.findall(r"\d+", topical_text(15, seed=number))
        )
    assert "3 of 3" in result.err


def test_folder_without_an_output_gets_one_beside_it(awesum: Awesum, folder: Path) -> None:
    result = awesum(folder, *EXTRACT)
    assert result.code == 0
    assert files_of(Path("reports-summaries")) == SUMMARIES
    assert "reports-summaries" in result.err


def test_second_run_over_a_folder_skips_what_is_done(
    awesum: Awesum, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    awesum(folder, "--length", "30w", "-o", "out")
    before = {name: (Path("out") / name).stat().st_mtime_ns for name in SUMMARIES}
    monkeypatch.setattr(SentenceEncoder, "load", lambda *args: pytest.fail("a model was loaded"))
    monkeypatch.setattr(ChatModel, "load", lambda *args: pytest.fail("a model was loaded"))
    result = awesum(folder, "--length", "30w", "-o", "out")
    assert result.code == 0
    assert "skipped" in result.err
    assert {name: (Path("out") / name).stat().st_mtime_ns for name in SUMMARIES} == before


@pytest.mark.parametrize("change", ["document", "length", "summary gone"])
def test_what_changed_is_done_again(awesum: Awesum, folder: Path, change: str) -> None:
    awesum(folder, *EXTRACT, "-o", "out")
    before = Path("out/a.txt.txt").read_text()
    arguments = EXTRACT
    if change == "document":
        (folder / "a.txt").write_text("The vaccine arrived at the clinic far too late for the nurses.")
    elif change == "length":
        arguments = ("--style", "extract", "--length", "5s")
    else:
        Path("out/a.txt.txt").unlink()
    result = awesum(folder, *arguments, "-o", "out")
    assert result.code == 0
    after = Path("out/a.txt.txt").read_text()
    assert (after == before) == (change == "summary gone")
    assert ("2 of 3 are done" in result.err) == (change != "length"), "the other two are skipped"


def test_bad_file_among_good_ones_does_not_stop_them(awesum: Awesum, folder: Path) -> None:
    (folder / "aa.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert files_of(Path("out")) == SUMMARIES
    (line,) = [line for line in result.err.splitlines() if line.startswith("awesum: error: ")]
    assert "aa.txt" in line
    (folder / "aa.txt").unlink()
    assert awesum(folder, *EXTRACT, "-o", "out").code == 0


def test_bad_file_among_named_ones_does_not_stop_them(awesum: Awesum, report: Path) -> None:
    result = awesum("nowhere.txt", report, *EXTRACT)
    assert result.code == 1
    assert len(re.findall(r"cost \d+ dollars\.", result.out)) == 3


def test_summaries_inside_the_folder_are_not_summarized_themselves(awesum: Awesum, folder: Path) -> None:
    for _ in range(2):
        assert awesum(folder, *EXTRACT, "-o", folder / "summaries").code == 0
    assert files_of(folder / "summaries") == SUMMARIES


def test_files_of_the_same_name_get_a_summary_each(awesum: Awesum) -> None:
    for name in ("north", "south"):
        Path(name).mkdir()
        Path(name, "report.txt").write_text(topical_text(15, seed=len(files_of(Path()))))
    result = awesum("north/report.txt", "south/report.txt", *EXTRACT, "-o", "out")
    assert result.code == 0
    assert len(files_of(Path("out"))) == 2


def test_standard_input_is_never_taken_for_done(awesum: Awesum, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    for seed, expected in ((1, "rocket"), (2, "nurse")):
        text = "The nurse brought the vaccine to the ward in time." if seed == 2 else topical_text(1)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        assert awesum("-", *EXTRACT, "-o", "out").code == 0
        (name,) = files_of(Path("out"))
        assert expected in Path("out", name).read_text()


# One bad document never stops a folder


@pytest.mark.parametrize("charset", ["rot13", "zip", "no-such-charset"])
def test_page_of_an_unknown_charset_does_not_stop_the_others(awesum: Awesum, folder: Path, charset: str) -> None:
    page = f'<html><head><meta charset="{charset}"></head><body><p>{topical_text(15)}</p></body></html>'
    (folder / "aa.html").write_text(page)
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert "Traceback" not in result.err
    assert set(SUMMARIES) <= set(files_of(Path("out")))


def test_unexpected_error_stays_with_its_document(
    awesum: Awesum, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = batch.read

    def reading(source: str, *args: Any, **options: Any) -> Document:
        if source.endswith("b.md"):
            raise LookupError("unknown encoding: zip")
        return read(source, *args, **options)

    monkeypatch.setattr(batch, "read", reading)
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert files_of(Path("out")) == ["a.txt.txt", "deep/c.txt.txt"]
    (line,) = [line for line in result.err.splitlines() if line.startswith("awesum: error")]
    assert "b.md" in line
    assert "LookupError" in line
    assert "1 of 3" in result.err.splitlines()[-1]


def test_file_name_that_is_not_utf8_is_summarized(awesum: Awesum, folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (folder / name).write_text(topical_text(15))
    result = awesum(folder, *EXTRACT, "--json", "-o", "out")
    assert result.code == 0, result.err
    assert len(files_of(Path("out"))) == 4
    assert "caf\ufffd.txt" in result.err
    assert awesum(folder, *EXTRACT, "--json", "-o", "out").err.count("done already") == 1


@pytest.mark.parametrize("length", [240, 244, 251])
def test_long_file_name_is_summarized(awesum: Awesum, folder: Path, length: int) -> None:
    (folder / f"{'x' * length}.txt").write_text(topical_text(15))
    result = awesum(folder, "--length", "30w", "-o", "out")
    assert result.code == 0, result.err
    assert len(files_of(Path("out"))) == 4


def test_retrained_model_at_the_same_path_is_not_done(
    awesum: Awesum, folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    arguments = (folder, "--length", "30w", "-o", "out", "--model", model)
    assert awesum(*arguments).code == 0
    assert "3 of 3 are done already" in awesum(*arguments).err
    weights = load_file(model / "model.safetensors")
    first = next(iter(weights))
    save_file({**weights, first: weights[first] * 1.5}, model / "model.safetensors", {"format": "pt"})
    result = awesum(*arguments)
    assert "done already" not in result.err
    assert "3 of 3" in result.err


# Nothing of somebody else is written over, and nothing is done twice


def test_file_in_the_folder_that_is_not_ours_is_left_alone(awesum: Awesum, folder: Path) -> None:
    Path("out").mkdir()
    Path("out/a.txt.txt").write_text("precious")
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert Path("out/a.txt.txt").read_text() == "precious"
    assert "not a summary that awesum wrote" in result.err
    assert files_of(Path("out")) == SUMMARIES, "the others are written"


def test_summary_that_another_document_has_the_name_of_is_refused(awesum: Awesum, folder: Path) -> None:
    os.link(folder / "b.md", folder / "out.txt")
    Path("out").mkdir()
    os.link(folder / "b.md", "out/a.txt.txt")
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert "would overwrite" in result.err
    assert (folder / "b.md").read_text() == topical_text(15, seed=1)


def test_folder_of_the_documents_is_no_place_for_the_summaries(awesum: Awesum, folder: Path) -> None:
    assert "folder of the documents" in awesum(folder, *EXTRACT, "-o", folder).error


def test_locked_document_is_left_to_the_process_that_has_it(awesum: Awesum, folder: Path) -> None:
    """Another process holds a document and dies without a result: then it is ours after all."""
    Path("out").mkdir()
    code = (
        "import sys, time; from pathlib import Path; from awesum.files import Lock; "
        "print(Lock(Path('out/a.txt.txt')).acquire(), flush=True); time.sleep(3)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        result = awesum(folder, *EXTRACT, "-o", "out")
        assert result.code == 0
        assert other.wait(30) == 0
    assert "another process is summarizing" in result.err
    assert files_of(Path("out")) == SUMMARIES
    assert not [name for name in os.listdir("out") if name.endswith(".lock")]


def test_document_that_another_process_has_done_meanwhile_is_not_done_again(awesum: Awesum, folder: Path) -> None:
    assert awesum(folder, *EXTRACT, "-o", "out").code == 0
    record = Path("out/.awesum.jsonl").read_text()
    Path("out/.awesum.jsonl").unlink()
    acquire = files.Lock.acquire

    def acquiring(self: files.Lock) -> bool:
        Path("out/.awesum.jsonl").write_text(record)  # it has just come to its end
        return acquire(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.Lock, "acquire", acquiring)
        result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 0
    assert "3 of 3 were summarized by another process meanwhile" in result.err


def test_error_of_the_engine_costs_the_documents_that_it_was_writing(
    awesum: Awesum, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from awesum.engine.engine import NoEngine

    step, left = NoEngine.step, [1]

    def failing(self: NoEngine) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("out of paper")
        return step(self)

    monkeypatch.setattr(NoEngine, "step", failing)
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert files_of(Path("out")) == SUMMARIES[1:]
    assert "RuntimeError: out of paper" in result.err


def test_record_with_bytes_that_are_not_utf8_is_passed_over(awesum: Awesum, folder: Path) -> None:
    """Found by the fuzzer."""
    Path("out").mkdir()
    Path("out/.awesum.jsonl").write_bytes(b'["a", "b", "\xed\xa0\x80"]\n[1]\nnothing\n')
    assert awesum(folder, *EXTRACT, "-o", "out").code == 0


def test_pipe_in_a_folder_is_not_waited_for(awesum: Awesum, folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 0
    assert files_of(Path("out")) == SUMMARIES
    assert "pipe.txt" in result.err, "nothing is left out without a word"


def test_same_folder_by_another_spelling_is_the_same(awesum: Awesum, folder: Path) -> None:
    awesum(folder, *EXTRACT, "-o", "out")
    result = awesum(folder, *EXTRACT, "--length", "20w", "-o", Path("out").absolute())
    assert result.code == 0, result.err
    assert files_of(Path("out")) == SUMMARIES


def test_name_that_no_file_can_have_costs_that_document(awesum: Awesum, report: Path) -> None:
    result = awesum("x" * 300, report, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert len([line for line in result.err.splitlines() if line.startswith("awesum: error")]) == 1
    assert len(files_of(Path("out"))) == 1
    assert "cannot write to" in awesum(report, *EXTRACT, "-o", "x" * 300).error
