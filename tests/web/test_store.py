"""The folder of the server: what is not its own stays as it is, and what is its own is found again."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path

import pytest

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.web import store as stores
from awesum.web.jobs import TYPICAL, Job, Jobs
from awesum.web.requests import to_settings
from awesum.web.store import DocumentRecord, Store, SummaryRecord
from tests.web.conftest import Client


def add(store: Store) -> DocumentRecord:
    record = DocumentRecord("", "a.txt", 1.0, 5, 1, [], [], [])
    return store.add(store.new_folder(), Document("Text."), record)


@pytest.mark.parametrize("foreign", ["documents/taxes/a.txt", "notes.txt", "summaries/2024.txt"])
def test_folder_of_somebody_else_is_refused_and_left_as_it_is(foreign: str, tmp_path: Path) -> None:
    file = tmp_path / "home" / foreign
    file.parent.mkdir(parents=True)
    file.write_text("precious")
    (tmp_path / "home").chmod(0o755)
    with pytest.raises(AwesumError, match="is not a history") as error:
        Store.open(tmp_path / "home")
    assert "\n" not in str(error.value)
    assert file.read_text() == "precious"
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755
    assert len(list(tmp_path.rglob("*"))) == len(Path(foreign).parts) + 1, "nothing was added"


def test_killed_upload_is_removed_and_an_unreadable_record_is_kept(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "history")
    kept, damaged, cut_off = add(store), add(store), store.new_folder()
    (cut_off / "source").write_text("half")
    record = tmp_path / "history" / "documents" / damaged.id / "record.json"
    record.write_text('{"from": "a later version"}')
    store.close()
    again = Store.open(tmp_path / "history")
    assert [each.id for each in again.documents()] == [kept.id]
    assert record.exists()
    assert not cut_off.exists()
    again.close()


def test_killed_server_without_history_is_cleaned_up_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.tempfile, "tempdir", str(tmp_path))
    killed = tmp_path / "awesum-serve-killed"
    (killed / "documents").mkdir(parents=True)
    os.utime(killed, (time.time() - 100, time.time() - 100))
    running = Store.temporary()
    assert not killed.exists()
    os.utime(running.folder, (time.time() - 100, time.time() - 100))
    other = Store.temporary()
    assert running.folder.exists(), "its server has it locked"
    for store in (running, other):
        store.close()
    assert not list(tmp_path.iterdir())


def test_half_a_character_in_a_question_does_not_break_the_history() -> None:
    settings = to_settings({"document": "a", "query": "what \ud800?"})
    assert settings == Settings(query="what ??")


def test_resumed_job_that_ends_before_its_parts_tells_so() -> None:
    async def last_event() -> str:
        record = SummaryRecord("1", "1", "a.txt", 1.0, None, None, None, False, state="stopped")
        job = Job(record, asyncio.get_running_loop())
        *_, (name, _, _) = [event async for event in job.follow(after=3)]
        return name

    assert asyncio.run(asyncio.wait_for(last_event(), 5)) == "stopped"


def test_failed_uploads_leave_room_for_others(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store) -> Path:
        raise OSError(28, "No space left on device")

    octets = {"Content-Type": "application/octet-stream"}
    with monkeypatch.context() as patched:
        patched.setattr(Store, "new_folder", full)
        for _ in range(40):
            assert client.send("POST", "/api/documents?name=a.txt", b"Text.", octets).status != 429
    assert client.upload(b"The crane broke. It was mended.")["words"] == 6


def test_pasted_text_has_a_limit_of_its_own(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awesum.web.api.PASTED", 100)
    answer = client.send("POST", "/api/documents", {"text": "word " * 100})
    assert answer.status == 413
    assert "send the text as a file" in answer.body.decode()
    assert client.upload(b"word " * 100)["words"] == 100


def test_time_to_come_back_is_that_of_a_quarter_of_the_queue() -> None:
    """Not of what the last ones took, most of which was waiting."""
    jobs = Jobs.__new__(Jobs)
    jobs._ends = {False: deque([10.0, 11.0, 12.0]), True: deque()}
    jobs._waiting = {False: 32, True: 8}
    assert jobs.seconds_until_room() == 8
    assert jobs.seconds_until_room(is_written=True) == 2 * TYPICAL
