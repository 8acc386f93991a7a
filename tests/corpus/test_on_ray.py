"""Ray Data as the engine: a real Ray on this machine, with processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awesum.corpus import on_ray
from awesum.corpus.on_ray import Actor, Deaths
from awesum.corpus.rows import from_bytes
from awesum.corpus.source import DIED, Batch, Item
from awesum.errors import AwesumError
from tests.corpus.fakes import DEADLY, Fake, documents, write_lines
from tests.corpus.test_run import comparable, rows, summarize

ROOT = Path(__file__).parents[2]


class HereActor(Actor):
    """An actor in this process, whose deaths are counted without Ray."""

    def __init__(self, log: Path, deaths: Deaths) -> None:
        self.worker, self.error, self.counted = Fake(log), None, deaths

    def _begin(self, batch: Batch) -> int:
        return self.counted.begin(batch.name)

    def _end(self, batch: Batch) -> None:
        self.counted.end(batch.name)


def test_batch_that_kills_actors_ends_with_an_error_for_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*args: object) -> None:
        raise Died

    monkeypatch.setattr(os, "kill", die)
    items = [Item(f"0{number}", "", "a", number, f"Text {number}.") for number in range(4)]
    items[2] = Item("02", "", "a", 2, DEADLY)
    deaths, attempts = Deaths(), 0
    while True:  # as Ray does: another actor, the same batch
        try:
            outcome = HereActor(tmp_path / "log", deaths)._summarize(Batch(items, 5, ["a line"], 0.5))
            break
        except Died:
            attempts += 1
    assert attempts == 3
    assert (outcome.documents, outcome.size, outcome.skipped, outcome.reading) == (4, 5, ["a line"], 0.5)
    errors = [row["error"] for row in from_bytes(outcome.rows).to_pylist()]
    assert errors == [None, None, DIED, None]
    assert not deaths.begun, "nothing is left over"


@pytest.mark.parametrize(("deaths", "error"), [(1, None), (2, DIED)])
def test_document_alone_in_its_batch_is_tried_twice(deaths: int, error: str | None, tmp_path: Path) -> None:
    """A machine that is taken away once is no reason to give up on a document."""
    batch, counted = Batch([Item("00", "", "a", 1, "Text 1.")]), Deaths()
    for _ in range(deaths):
        counted.begin(batch.name)  # and it never ended
    outcome = HereActor(tmp_path / "log", counted)._summarize(batch)
    assert [row["error"] for row in from_bytes(outcome.rows).to_pylist()] == [error]
    assert not counted.begun


def test_addresses_are_checked_before_ray_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(on_ray, "PATIENCE", 2.0)
    with socket.socket() as silent:  # takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(AwesumError, match=r"there is no Ray cluster at .* \(no answer, waited 2 s"):
            on_ray._check_answers(f"127.0.0.1:{silent.getsockname()[1]}")
    with pytest.raises(AwesumError, match="give host:port, or auto"):
        on_ray._check_answers("6379")
    with pytest.raises(AwesumError, match="there is no Ray cluster at"):
        on_ray._check_answers("a..b:6379")
    with pytest.raises(AwesumError, match="the address of a Ray client"):
        on_ray._connect(None, None, "ray://head:10001")


def processes(title: str) -> list[int]:
    """The processes of this test with some title, as Ray sets it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            shown = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if title in shown and f"AWESUM_TEST={os.environ['AWESUM_TEST']}".encode() in environment:
            found.append(int(folder.name))
    return found


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test can be told from others."""
    monkeypatch.setenv("AWESUM_TEST", f"{os.getpid()}-{time.monotonic_ns()}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.slow
@pytest.mark.usefixtures("marked")
def test_ray_goes_on_where_the_local_engine_stopped_though_workers_die(tmp_path: Path) -> None:
    """A document that kills its worker, a worker that is killed, and rows of another engine: each document once."""
    made = documents(150)
    source = tmp_path / "a.jsonl"
    summarize(write_lines(source, made[:40]), tmp_path / "out")
    made[77]["text"] = f"This one is {DEADLY}."
    write_lines(source, made)
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            if (workers := processes("ray::MapWorker")) and list((tmp_path / "out").glob("part-000002*")):
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    totals = summarize(source, tmp_path / "out", engine="ray", load=partial(Fake, tmp_path / "log", 0.05))
    killer.join()
    assert (totals.documents, totals.resumed, totals.failed, totals.workers) == (150, 40, 1, 2)
    found = rows(tmp_path / "out")
    assert sorted(found) == sorted(row["id"] for row in made)
    assert found["d77"]["error"] == DIED


@pytest.mark.slow
@pytest.mark.usefixtures("marked")
def test_ray_and_local_rows_are_equal_on_a_cluster_of_two_nodes(tmp_path: Path) -> None:
    """Two nodes, each a process of this machine; the second one disappears meanwhile."""
    source = write_lines(tmp_path / "a.jsonl", documents(200))
    command = [sys.executable, "-m", "awesum", "corpus", str(source), "--system", "lead", "--length", "5w"]
    with cluster(tmp_path) as (address, second):
        ray = [*command, "--engine", "ray", "--address", address, "-o", str(tmp_path / "ray")]
        with subprocess.Popen(ray, stderr=subprocess.PIPE, text=True) as process:
            while not list((tmp_path / "ray").glob("part-*")) and process.poll() is None:
                time.sleep(0.05)
            second.kill()
            _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    subprocess.run([*command, "-o", str(tmp_path / "local")], check=True, stderr=subprocess.DEVNULL)
    assert comparable(rows(tmp_path / "ray")) == comparable(rows(tmp_path / "local"))
    assert len(rows(tmp_path / "ray")) == 200


class cluster:
    """A head and a second node, as `ray start` makes them: its address, and the process of the second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> tuple[str, Any]:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        options = ["--num-cpus=2", "--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.nodes = [
            subprocess.Popen([*start, "--head", f"--port={port}", "--include-dashboard=false"], **quiet)  # type: ignore[call-overload]
        ]
        on_ray.PATIENCE = 60.0
        self._wait()
        self.nodes.append(subprocess.Popen([*start, f"--address={self.address}"], **quiet))  # type: ignore[call-overload]
        time.sleep(8)
        return self.address, self.nodes[1]

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                on_ray._check_answers(self.address)
                return
            except AwesumError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def __exit__(self, *failure: object) -> None:
        on_ray.PATIENCE = 30.0
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        for process in processes(""):  # what a killed node left: these carry our mark
            if process != os.getpid():
                os.kill(process, signal.SIGKILL)
