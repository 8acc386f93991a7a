"""Rows that are made side by side: how many, in which order, what a failure or an interruption does to the others, and
that the table is the one that rows made one by one give."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from awesum.reproduce import row as rows_of
from awesum.reproduce import run
from awesum.reproduce.plan import EXTRACTOR, Plan
from awesum.reproduce.result import Made
from awesum.reproduce.row import STOPPED, RowMaker
from awesum.reproduce.run import _make_rows, reproduce, rows_at_once
from awesum.reproduce.table import markdown
from awesum.reproduce.weights import Base
from tests.reproduce.test_table import made, result, scores
from tests.training.runs import rows, write

PATIENCE = 20
"""Seconds after which a test that waits for another thread fails."""


def silent(note: str) -> None:
    pass


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Five rows, of which two need the extractor."""
    found = rows(8)[1:]
    write(tmp_path / "data" / "train.jsonl", found[:3])
    write(tmp_path / "data" / "test.jsonl", found[3:])
    names = ("se3", "text-concat", "block-attention", "awesome", "attentive")
    return Plan("govreport", tmp_path / "table", names, str(tmp_path / "data"), documents=3)


def make(plan: Plan, processes: int, say: Any = silent) -> dict[str, str]:
    stages = [EXTRACTOR, *plan.rows]
    return _make_rows(plan, dict.fromkeys(stages, "tiny"), 3, processes, quiet=True, say=say)


# --------------------------------------------------------------------------------------------------------- how many


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the machine has."""
    has: dict[str, Any] = {"cores": 8, "memory": 64_000_000_000, "device": "cpu"}
    sizes = {"tiny": 200_000, "small": 90_000_000, "real": 400_000_000, "elsewhere": None}
    monkeypatch.setattr(run, "cores", lambda: has["cores"])
    monkeypatch.setattr(run, "total_memory", lambda: has["memory"])
    monkeypatch.setattr(run, "choose_device", lambda: (type("Device", (), {"type": has["device"]}), None, ""))
    monkeypatch.setattr(run, "look", lambda name: Base(name, sizes[name], False))
    return has


def test_stand_ins_share_the_cores(machine: dict[str, Any]) -> None:
    assert rows_at_once(["tiny", "small", "tiny"]) == 8
    machine["memory"] = 10_000_000_000
    assert rows_at_once(["tiny", "small"]) == 2
    machine["memory"] = 2_000_000_000
    assert rows_at_once(["tiny", "small"]) == 1


@pytest.mark.parametrize("bases", [["tiny", "real"], ["tiny", "elsewhere"], ["tiny"]])
def test_a_real_model_has_the_machine_to_itself(bases: list[str], machine: dict[str, Any]) -> None:
    assert rows_at_once(bases) == 1


def test_a_gpu_is_not_shared(machine: dict[str, Any]) -> None:
    machine["device"] = "cuda"
    assert rows_at_once(["tiny", "tiny"]) == 1


def test_the_table_says_how_the_rows_shared_the_processor(plan: Plan) -> None:
    def row(key: str, **more: Any) -> Made:
        found = made(key, scores(0.3))
        return Made(found.key, found.name, found.paper, found.base, {**found.record, **more}, found.evaluation)

    alone = markdown(result(plan, row("se3", threads=2, rows_at_once=1)))
    assert "and the optimizer; trained with 2 threads." in alone
    shared = markdown(result(plan, row("se3", threads=1, rows_at_once=2), row("awesome", threads=1, rows_at_once=2)))
    assert "and the optimizer; trained 2 rows at a time, with 1 thread each." in shared


# ------------------------------------------------------------------------------------------------------------ order


class Work:
    """Rows that take as long as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, errors: dict[str, str] | None = None) -> None:
        self.begun: list[str] = []
        self.running = self.most = 0
        self.failing = errors or {}
        self._lock = threading.Lock()
        self.meeting: dict[str, threading.Event] = {}
        work = self

        def make(self: RowMaker, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
            with work._lock:
                work.begun.append(row)
                work.running += 1
                work.most = max(work.most, work.running)
            if event := work.meeting.get(row):
                assert event.wait(PATIENCE)
            else:
                time.sleep(0.05)
            with work._lock:
                work.running -= 1
            return work.failing.get(row)

        monkeypatch.setattr(RowMaker, "make", make)


def test_as_many_rows_at_a_time_as_asked_for(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    for processes in (1, 2):
        work = Work(monkeypatch)
        assert make(plan, processes) == {}
        assert work.most == processes
        assert sorted(work.begun) == sorted([EXTRACTOR, *plan.rows])


def test_only_rows_that_take_the_extractor_wait_for_it(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    work.meeting[EXTRACTOR] = threading.Event()
    running = threading.Thread(target=make, args=(plan, 3))
    running.start()
    try:
        deadline = time.monotonic() + PATIENCE
        while "block-attention" not in work.begun and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert sorted(work.begun) == sorted([EXTRACTOR, "se3", "block-attention"])
    finally:
        work.meeting[EXTRACTOR].set()
        running.join()
    assert sorted(work.begun) == sorted([EXTRACTOR, *plan.rows])


def test_a_row_that_fails_does_not_stop_the_others(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, {"se3": "no room"})
    notes: list[str] = []
    assert make(plan, 2, notes.append) == {"se3": "no room"}
    assert len(work.begun) == 6
    assert "row 1 of 5, Se3 FAILED: no room" in notes


def test_without_the_extractor_the_others_are_made(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, {EXTRACTOR: "cannot be loaded"})
    errors = make(plan, 2)
    assert set(errors) == {EXTRACTOR, "text-concat", "awesome"}
    assert "which failed (--set extractor=shipped" in errors["awesome"]
    assert sorted(work.begun) == sorted([EXTRACTOR, "se3", "block-attention", "attentive"])


# ---------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interruption_ends_all_rows(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while two rows are made: their programs end, and nobody reports them as failed."""
    monkeypatch.setattr(rows_of, "_PROGRAM", "import sys; sys.stdin.read()")
    monkeypatch.setattr(rows_of, "PATIENCE", PATIENCE)
    real, servers = RowMaker._start, []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

    def starting(self: RowMaker) -> Any:
        servers.append(real(self))
        if len(servers) == 2:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return servers[-1]

    monkeypatch.setattr(RowMaker, "_start", starting)
    notes: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            make(plan, 2, notes.append)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(servers) == 2
    assert [server.poll() for server in servers] == [0, 0]
    assert not [note for note in notes if "FAILED" in note]


def test_an_error_of_ours_ends_all_rows(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after those that are being made: at once."""
    monkeypatch.setattr(rows_of, "_PROGRAM", "import sys; sys.stdin.read()")
    real = RowMaker.make

    def make_or_raise(self: RowMaker, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
        if row == "se3":
            raise ZeroDivisionError
        return real(self, plan, row, quiet=quiet)

    monkeypatch.setattr(RowMaker, "make", make_or_raise)
    with pytest.raises(ZeroDivisionError):
        make(plan, 2)


def test_a_closed_maker_begins_nothing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of, "_PROGRAM", "import sys; sys.stdin.read()")
    with RowMaker() as maker:
        pass
    assert maker.make(plan, "se3") == STOPPED
    assert maker._server is None


# ----------------------------------------------------------------------------------------------------- the same table


@pytest.mark.slow
def test_side_by_side_gives_the_same_table_as_one_by_one(
    tmp_path: Path, plan: Plan, tiny_bart_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user calls it, in real processes; with one thread each, as sums over several are in another order."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    changes = {"encoder": "embedded", "extractor": "centrality", "epochs": "1", "max_part": "12", "num_beams": "2",
               "memory_size": "8", "warmup_steps": "0", "learning_rate": "0.01"}  # fmt: skip
    found = {}
    for processes in (1, 2):
        monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / f"cache {processes}"))
        each = Plan(
            "govreport", tmp_path / f"table {processes}", ("se3", "block-attention", "awesome"), plan.data,
            documents=3, bases={"": str(tiny_bart_folder)}, changes=changes,
        )  # fmt: skip
        assert not reproduce(each, quiet=True, say=silent, trials=100, processes=processes).failed
        found[processes] = json.loads((each.output / "table.json").read_text(encoding="utf-8"))
        for row in found[processes]["rows"].values():
            assert row.pop("threads") == 1
            assert row.pop("rows_at_once") == processes
            assert row.pop("batches_per_second") > 0
            assert row.pop("seconds") >= 0
            peak = row.pop("peak_memory_bytes")
            assert sys.platform == "win32" or 100_000_000 < peak < 1_500_000_000
        del found[processes]["plan"]
    assert found[1] == found[2]
