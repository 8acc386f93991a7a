"""A server that is killed and started again: the history is there, and what was being written goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import topical_text
from tests.web.conftest import TOKEN, Client

pytestmark = pytest.mark.slow


def start(folder: Path, model: Path) -> tuple[subprocess.Popen[str], Client]:
    command = [sys.executable, "-m", "awesum", "serve", "--port", "0", "--token", TOKEN]
    process = subprocess.Popen(
        [*command, "--folder", str(folder), "--model", str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline()
    return process, Client(int(address.split(":")[2].split("/")[0]), None)  # type: ignore[arg-type]


def test_killed_server_resumes(tmp_path: Path, tiny_folder: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text(topical_text(300))
    folder = tmp_path / "history"
    process, client = start(folder, tiny_folder)
    record = client.upload(report.read_bytes(), "report.txt")
    done = client.summarize(record["id"], style="extract", length="5s")
    asked = client.send("POST", "/api/summaries", {"document": record["id"], "length": "400w"}).json
    client.wait(
        f"/api/summaries/{asked['id']}", lambda found: found["state"] == "done" or len(found.get("parts") or ()) > 0
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "summaries" / asked["id"] / "summary.json").exists(), "it was too fast to be killed"
    process, client = start(folder, tiny_folder)
    try:
        assert client.get(f"/api/summaries/{done['id']}").json == done
        resumed = client.wait(f"/api/summaries/{asked['id']}", lambda found: found["state"] == "done")
        command = [
            sys.executable,
            "-m",
            "awesum",
            "summarize",
            str(report),
            "--model",
            str(tiny_folder),
            "--length",
            "400w",
        ]
        alone = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=True, env=os.environ)
        written = [" ".join(line.split()) for line in alone.stdout.splitlines() if line.strip()]
        assert resumed["summary"]["summary"].split("\n\n") == written
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
