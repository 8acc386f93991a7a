"""The server: how soon the page and the first part come, many summaries at once, and a load of clients for minutes.

python -m benchmarks.serving                      the page, the first part, eight short written summaries
python -m benchmarks.serving --long               and eight written summaries of the whole sample: some minutes
python -m benchmarks.serving --click              and a click on a sentence of a PDF of 300 pages, in Chromium
python -m benchmarks.serving --seconds 300        and 50 clients with the verbatim style beside 8 with the written one

Everything runs on this machine, over the loopback interface, and ends after the time that was given.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from awesum.reading.process import memory_of
from benchmarks import ROOT, SAMPLE, report
from benchmarks.together import documents

TOKEN = "a-token-for-benchmarks"
PAGES = 300
CLIENTS, WRITERS = 50, 8


@dataclass
class Server:
    """A server in a process of its own."""

    port: int
    process: subprocess.Popen[str]

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"} | given)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def upload(self, content: bytes, name: str) -> tuple[int, dict[str, Any]]:
        """Status and record of a document."""
        kind = {"Content_Type": "application/octet-stream"}
        status, body = self.request("POST", f"/api/documents?name={quote(name)}", content, **kind)
        return status, json.loads(body)

    def summarize(self, document: str, **wanted: Any) -> Watched:
        """Watch a summary until it is done."""
        watched = Watched()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1200)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
        connection.request("POST", "/api/summaries", json.dumps({"document": document, **wanted}).encode(), headers)
        answer = connection.getresponse()
        watched.status = answer.status
        if answer.status != 200:
            watched.data = json.loads(answer.read())
            connection.close()
            return watched
        event = ""
        while line := answer.readline().decode():
            if line.startswith("event: "):
                event = line[7:].strip()
            elif line.startswith("data: ") and event == "part":
                watched.first = watched.first or time.perf_counter()
            elif line.startswith("data: ") and event in ("done", "failed", "stopped"):
                watched.end, watched.data, watched.state = time.perf_counter(), json.loads(line[6:]), event
        connection.close()
        return watched


@dataclass
class Watched:
    """One summary as a client saw it."""

    begun: float = field(default_factory=time.perf_counter)
    status: int = 0
    first: float = 0.0
    end: float = 0.0
    state: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Of the summary."""
        return str(self.data["summary"]["summary"])


@contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """A server that is ready."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "awesum", "serve", "--port", "0", "--token", TOKEN, "--folder", folder, *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        address = process.stdout.readline()
        try:
            yield Server(int(address.split(":")[2].split("/")[0]), process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def page(server: Server) -> bool:
    """The first byte of the page, and the weight of everything it loads."""
    loaded = [path.name for path in (ROOT / "src/awesum/web/page").iterdir() if path.suffix in (".js", ".css", ".svg")]
    names = ["/", *(f"/{name}" for name in loaded)]
    times = []
    for _ in range(10):
        started = time.perf_counter()
        server.request("GET", "/")
        times.append(time.perf_counter() - started)
    weight = sum(len(server.request("GET", name)[1]) for name in names)
    first = report("first byte of the page", statistics.median(times), 0.1, " s")
    return report("weight of the page", weight / 1000, 150, " KB") and first


def first_part(server: Server) -> bool:
    """The first part of the sample, from a warm server and from the command line."""
    content = SAMPLE.read_bytes()
    for _ in range(2):  # the first one warms
        started = time.perf_counter()
        _, record = server.upload(content, "sample.txt")
        watched = server.summarize(record["id"])
        served = watched.first - started
    started = time.perf_counter()
    command = [sys.executable, "-m", "awesum", "summarize", str(SAMPLE), "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        alone = time.perf_counter() - started
        process.stdout.read()
    print(f"first part of the sample: served {served:.2f} s, command line {alone:.2f} s")
    return report("first part, served against the command line", served / alone, 1.3, " times")


def together(server: Server, name: str, texts: list[str], length: str, bar: float) -> bool:
    """Written summaries one after the other, then all at once; they must say the same."""
    records = [server.upload(text.encode(), f"{name}.txt")[1]["id"] for text in texts]
    server.summarize(records[0], style="abstract", length=length)  # warm
    started = time.perf_counter()
    alone = [server.summarize(record, style="abstract", length=length) for record in records]
    one_by_one = time.perf_counter() - started
    at_once: list[Watched] = [Watched()] * len(records)

    def ask(place: int) -> None:
        at_once[place] = server.summarize(records[place], style="abstract", length=length)

    started = time.perf_counter()
    run([threading.Thread(target=ask, args=(place,)) for place in range(len(records))])
    side_by_side = time.perf_counter() - started
    same = sum(one.text == other.text for one, other in zip(alone, at_once, strict=True))
    firsts, ends = max(each.first for each in at_once), min(each.end for each in at_once)
    print(
        f"{len(records)} {name}: one after the other {one_by_one:.1f} s, at once {side_by_side:.1f} s; "
        f"{same} texts the same; every first part before any end: {firsts < ends}"
    )
    return report(f"{name} at once", one_by_one / side_by_side, bar, " times", at_most=False) and same == len(records)


def run(threads: list[threading.Thread]) -> None:
    """Start threads and wait for them."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def click(server: Server) -> bool:
    """A click on a sentence of a PDF of 300 pages, until its page is drawn and its boxes are on it."""
    import shutil

    from playwright.sync_api import sync_playwright

    words = SAMPLE.read_text(encoding="utf-8").encode("ascii", "ignore").decode().split()
    lines = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
    pages = [[lines[(40 * number + row) % len(lines)] for row in range(40)] for number in range(PAGES)]
    sys.path.insert(0, ".")
    from tests.reading.pdf_writer import write_pdf

    with sync_playwright() as playwright:
        sandbox = [] if os.getuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        shown = browser.new_page(viewport={"width": 1280, "height": 820})
        shown.set_default_timeout(600_000)
        shown.goto(f"http://127.0.0.1:{server.port}/#token={TOKEN}")
        shown.set_input_files("#files", {"name": "long.pdf", "mimeType": "", "buffer": write_pdf(pages)})
        shown.wait_for_selector(".entry[data-state=done]")
        shown.wait_for_timeout(5000)
        times = shown.evaluate(
            """async () => {
                const times = [];
                for (const sentence of document.querySelectorAll('.sentence')) {
                    const started = performance.now();
                    sentence.click();
                    const isShown = () => document.querySelector('.page.drawn .box.active');
                    while (!isShown()) await new Promise(requestAnimationFrame);
                    times.push(performance.now() - started);
                    await new Promise((resolve) => setTimeout(resolve, 500));
                }
                return times;
            }"""
        )
        browser.close()
    print(f"{len(times)} clicks on a PDF of {PAGES} pages: {', '.join(f'{each:.0f}' for each in times)} ms")
    return report("a click shows its passage (median)", statistics.median(times), 100, " ms")


def load(server: Server, seconds: float) -> bool:
    """Clients that upload and summarize again and again, until the time is over."""
    content, statuses = SAMPLE.read_bytes(), Counter[str]()
    texts: dict[str, Counter[str]] = {"extract": Counter(), "abstract": Counter()}
    short = documents(WRITERS, 400)
    _, first = server.upload(short[0].text.encode(), "first.txt")
    server.summarize(first["id"], style="abstract", length="60w")  # a model that has yet to be loaded is no growth
    end = time.monotonic() + seconds
    lock = threading.Lock()

    def client(style: str, number: int) -> None:
        data = content if style == "extract" else short[number].text.encode()
        record: dict[str, Any] = {}
        while time.monotonic() < end:
            if not record:
                status, record = server.upload(data, f"{style}{number}.txt")
                if status != 201:
                    statuses[f"upload {status}"] += 1
                    pause = record.get("seconds", 1)
                    record = {}
                    time.sleep(pause)
                    continue
            watched = server.summarize(record["id"], style=style, length="200w" if style == "extract" else "60w")
            with lock:
                statuses[f"{style} {watched.status} {watched.state}"] += 1
                if watched.state == "done":
                    complete = watched.data["summary"]["complete"]
                    texts[style][watched.text if style == "extract" else f"{number} {watched.text}"] += bool(complete)
            if watched.status == 429:
                time.sleep(watched.data["seconds"])

    memory: list[int] = []

    def watch() -> None:
        while time.monotonic() < end:
            memory.append(memory_of(server.process.pid))
            time.sleep(1)

    threads = [threading.Thread(target=client, args=("extract", number)) for number in range(CLIENTS)]
    threads += [threading.Thread(target=client, args=("abstract", number)) for number in range(WRITERS)]
    run([*threads, threading.Thread(target=watch)])
    command = [sys.executable, "-m", "awesum", "summarize", str(SAMPLE), "--json", "--quiet"]
    alone = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["summary"]
    print(f"{seconds:.0f} s: {dict(sorted(statuses.items()))}")
    print(f"distinct verbatim texts: {len(texts['extract'])}, of written ones {len(texts['abstract'])} for {WRITERS}")
    errors = sum(number for name, number in statuses.items() if not (" 200 done" in name or "429" in name))
    is_same = set(texts["extract"]) == {alone}
    third = max(1, len(memory) // 3)
    grown = statistics.median(memory[-third:]) / statistics.median(memory[third : 2 * third])
    print(f"memory: peak {max(memory) / 1e9:.2f} GB; verbatim texts equal to the command line's: {is_same}")
    flat = report("memory, last third against the second", grown, 1.1, " times")
    return report("errors other than 429", errors, 0, "") and flat and is_same and len(texts["abstract"]) <= WRITERS


def main() -> int:
    """Print every figure with its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--click", action="store_true")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--only", choices=["page", "first", "short", "long", "click", "load"])
    options = parser.parse_args()
    wanted = {options.only} if options.only else {"page", "first", "short"}
    wanted |= {name for name in ("long", "click") if getattr(options, name)} | ({"load"} if options.seconds else set())
    good = True
    with serving() as server:
        if "page" in wanted:
            good &= page(server)
        if "first" in wanted:
            good &= first_part(server)
        if "short" in wanted:
            good &= together(server, "short documents", [each.text for each in documents(8, 500)], "60w", 2.0)
        if "long" in wanted:
            text = SAMPLE.read_text(encoding="utf-8")
            texts = [f"Report {number}.\n\n{text}" for number in range(8)]
            good &= together(server, "documents of 10,000 words", texts, "200w", 1.0)
        if "click" in wanted:
            good &= click(server)
        if "load" in wanted:
            good &= load(server, options.seconds or 60)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
