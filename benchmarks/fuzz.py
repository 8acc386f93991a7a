"""The fuzzer: damaged files of every format through the readers, the whole command, and `predict`; none may do harm.

Every input has one of four outcomes: parsed, refused with one line, given up at a limit, or its reader died (which
costs that document and nothing else). Anything else is a failure: an exception that nobody thought of, a message of
several lines, a hang, memory above the limit, output that is missing.

`--planted` plants a crash, which has to be found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from awesum.errors import AwesumError
from awesum.reading import process
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source
from benchmarks.seeds import PARAGRAPHS, SEEDS

MEMORY = 600_000_000
SECONDS = 10.0
"""The limits of a reader here: less than a user's, so that more inputs meet them."""
FAILURE = "failure"

_PROGRAM = """
import awesum.reading as reading
from awesum.reading.child import serve
from benchmarks.fuzz import analysing
reading.parse = analysing(reading.parse, planted={planted})
serve()
"""
_TOKENS = [
    b"", b"\0", b"\xff", b"<", b">", b"/", b"&", b"<!--", b"]]>", b"&#0;", b"&x;", b"%", b"\\", b"{", b"}", b"(", b")",
    b"-1", b"0", b"65536", b"4294967296", b"9" * 40, b"1e999", b"obj", b"endstream", b"R", b"<<", b">>", b"\r", b"\n\n",
    b"xmlns:a='b'", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", "\u202e".encode(), "é".encode("latin-1"), b"A" * 5000,
]  # fmt: skip

_ELEMENT = re.compile(rb"<([\w:]+)(?:\s[^<>]*)?(?:/>|>[^<]*</\1>)")
_VALUE = re.compile(rb"(?<=[=>])[\"']?([^<>\"'=]+)(?=[<\"'])")


# Mutations ---------------------------------------------------------------------------------------------------------


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A damaged copy: inside its members if it is an archive, so that the damage gets past the checksums."""
    if data.startswith(b"PK") and chance.random() < 0.92:
        with contextlib.suppress(Exception):
            return _mutate_archive(data, chance)
    return _mutate_bytes(data, chance)


def _mutate_archive(data: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    weights = [9 if name.endswith(("xml", "xhtml", "opf")) else 1 for name, _ in members]
    victim = chance.choices(range(len(members)), weights)[0]
    name, content = members[victim]
    choice = chance.random()
    if choice < 0.75:
        change = _mutate_xml if b"<" in content and chance.random() < 0.6 else _mutate_bytes
        members[victim] = name, change(content, chance)
    elif choice < 0.85:
        del members[victim]
    elif choice < 0.95:
        members[victim] = name, chance.choice(members)[1]
    else:
        members.append((name, content))
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return changed.getvalue()


def _mutate_xml(content: bytes, chance: random.Random) -> bytes:
    """XML that is still well formed: elements repeated, moved or dropped, texts and values changed."""
    elements = list(_ELEMENT.finditer(content))
    values = list(_VALUE.finditer(content))
    if elements and chance.random() < 0.6:
        one, other = chance.choice(elements), chance.choice(elements)
        times = chance.choice([0, 2, 3, 300])
        if chance.random() < 0.5:
            return content[: one.start()] + one[0] * times + content[one.end() :]
        return content[: other.start()] + one[0] + content[other.start() :]
    if values:
        value = chance.choice(values)
        new = chance.choice(
            ["", "0", "-1", "9" * 30, "x" * 3000, "../../x", "\u202e", "a b", "&#13;", "&amp;"]
        ).encode()
        return content[: value.start(1)] + new + content[value.end(1) :]
    return content


def _mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + int(chance.expovariate(1 / 40)))
        kind = chance.randrange(6)
        if kind == 0 and changed:
            changed[min(at, len(changed) - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[at:at] = chance.choice(_TOKENS)
        elif kind == 2:
            del changed[at:end]
        elif kind == 3:
            changed[at:at] = changed[at:end] * chance.choice([1, 2, 50])
        elif kind == 4:
            changed[at:end] = chance.choice(_TOKENS)
        else:
            other = chance.randrange(len(changed) + 1)
            changed[at:at] = changed[other : other + 200]
    return bytes(changed)


# Through the reader and the analysis -------------------------------------------------------------------------------


def analysing(parse: Callable[[Source], object], planted: bool) -> Callable[[Source], object]:
    """In the process that reads: what the analysis does with the text, too."""
    from awesum.analysis.sentences import sentence_spans
    from awesum.document import Document

    def parse_and_analyse(source: Source) -> object:
        document = parse(source)
        assert isinstance(document, Document)
        if planted and len(document.text) % 97 == 0:
            raise LookupError("a planted crash")
        spans = sentence_spans(document.text, document.blocks)
        assert "".join(document.text[start:end] for start, end in spans) == document.text, "sentences do not tile"
        ends = [(block.start, block.end) for block in document.blocks]
        assert all(0 <= start < end <= len(document.text) for start, end in ends), "a block outside of the text"
        assert all(one[1] <= other[0] for one, other in pairwise(ends)), "blocks overlap"
        return document

    return parse_and_analyse


def outcome(name: str, data: bytes) -> tuple[str, str]:
    """What became of an input, and the message if there is one."""
    source = Source(data, path=name, suffix=f".{name.rpartition('.')[2]}")
    limits = ReadLimits(MEMORY, SECONDS)
    try:
        process.read_in_process(source, len(data), limits)
        return "parsed", ""
    except AwesumError as error:
        message = str(error)
    except Exception as error:
        return FAILURE, f"{type(error).__name__}: {error}"
    if "\n" in message or "cannot be read (" in message or "Traceback" in message:
        return FAILURE, message
    if "was given up" in message:
        return "limited", message
    return ("died" if "reader crash" in message else "refused"), message


def fuzz_readers(
    count: int, seconds: float, seed: int, planted: bool, formats: Sequence[str] = ()
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Inputs of each format in turn; the outcomes by format, and what failed."""
    process._PROGRAM = _PROGRAM.format(planted=planted)
    process.close()
    seeds = {name: make() for name, make in SEEDS.items() if name in (formats or SEEDS)}
    found = {name: Counter[str]() for name in seeds}
    failures: list[str] = []
    deadline = time.monotonic() + seconds
    for number in range(count):
        if time.monotonic() > deadline:
            break
        name = list(seeds)[number % len(seeds)]
        data = mutate(seeds[name], random.Random(f"{seed}/{number}"))
        what, message = outcome(f"input.{name}", data)
        found[name][what] += 1
        is_past_header = what != "refused" or not any(
            words in message for words in ("binary file", "is empty", "ZIP file")
        )
        found[name]["past the header"] += is_past_header
        if what == FAILURE:
            failures.append(f"input {number} ({name}): {message}")
    process.close()
    return found, failures


# Through the whole command -----------------------------------------------------------------------------------------


def fuzz_command(count: int, seed: int, each: int = 100) -> tuple[Counter[str], list[str]]:
    """Folders of damaged files through `awesum summarize`: a summary or one error line for each."""
    found: Counter[str] = Counter()
    failures: list[str] = []
    seeds = {name: make() for name, make in SEEDS.items()}
    for first in range(0, count, each):
        with _folder() as folder:
            inputs, out = folder / "in", folder / "out"
            inputs.mkdir()
            for number in range(first, min(first + each, count)):
                name = list(seeds)[number % len(seeds)]
                data = mutate(seeds[name], random.Random(f"command/{seed}/{number}"))
                (inputs / f"{number}.{name}").write_bytes(data)
            command = [sys.executable, "-m", "awesum", "summarize", str(inputs), "-o", str(out), "--length", "2s"]
            done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=False)
            errors = [line for line in done.stderr.splitlines() if line.startswith("awesum: error: ")]
            written = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith(".")]
            left = [path.name for path in out.rglob(".*") if path.name != ".awesum.jsonl"]
            found.update({"summarized": len(written), "refused": len(errors)})
            if "Traceback" in done.stderr or done.returncode not in (0, 1):
                failures.append(f"inputs {first} and on: exit code {done.returncode}, {done.stderr[-300:]!r}")
            if (
                len(written) + len(errors) != len(list(inputs.iterdir()))
                or left
                or (done.returncode == 1) != bool(errors)
            ):
                failures.append(
                    f"inputs {first} and on: {len(written)} written, {len(errors)} errors, {left} left behind"
                )
    return found, failures


# Through predict and the readers of JSON lines; lengths, queries, checkpoints --------------------------------------


def fuzz_rows(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damaged datasets through `awesum predict lead`: predictions, or one line."""
    rows = [json.dumps({"id": str(n), "document": " ".join(PARAGRAPHS), "summary": PARAGRAPHS[n]}) for n in range(4)]
    valid = "\n".join(rows).encode() + b"\n"

    def arguments(folder: Path, chance: random.Random) -> list[str]:
        (folder / "test.jsonl").write_bytes(mutate(valid, chance))
        return ["predict", "lead", "--data", str(folder), "-o", str(folder / "out.jsonl"), "--quiet"]

    return _fuzz_calls(count, seed, arguments)


def fuzz_flags(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Absurd lengths, queries and sizes through `awesum summarize --system lead`."""

    def arguments(folder: Path, chance: random.Random) -> list[str]:
        (folder / "a.txt").write_bytes(_text_of(chance))
        flag = chance.choice(["--length", "--query", "--max-memory", "--read-memory", "--read-timeout"])
        start = chance.choice([b"200w", b"5%", b"12s", b"2GB", b"auto", b"1e9", b"What about it?"])
        value = mutate(start, chance).replace(b"\0", b"").decode("utf-8", "replace")
        return ["summarize", str(folder / "a.txt"), "--system", "lead", f"{flag}={value}", "--quiet"]

    return _fuzz_calls(count, seed, arguments)


def fuzz_checkpoints(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damaged records and parts of interrupted runs beside the summaries: the result is the same, or one line."""

    def arguments(folder: Path, chance: random.Random) -> list[str]:
        inputs, out = folder / "in", folder / "out"
        inputs.mkdir()
        out.mkdir()
        (inputs / "a.txt").write_bytes(_text_of(chance))
        record = json.dumps([str(inputs / "a.txt"), str(out / "a.txt.txt"), "0" * 16]).encode() + b"\n"
        (out / ".awesum.jsonl").write_bytes(mutate(record, chance))
        part = b'{"key": "' + b"0" * 64 + b'"}\n{"text": "x", "segment": 0, "sentences": []}\n'
        (out / "a.txt.txt.partial.jsonl").write_bytes(mutate(part, chance))
        return ["summarize", str(inputs), "--system", "lead", "-o", str(out), "--quiet"]

    return _fuzz_calls(count, seed, arguments)


def _text_of(chance: random.Random) -> bytes:
    return " ".join(chance.sample(PARAGRAPHS, 4)).encode()


def _fuzz_calls(
    count: int, seed: int, arguments: Callable[[Path, random.Random], list[str]]
) -> tuple[Counter[str], list[str]]:
    from awesum.cli import main

    found: Counter[str] = Counter()
    failures: list[str] = []
    for number in range(count):
        with _folder() as folder:
            given = arguments(folder, random.Random(f"call/{seed}/{number}"))
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code: object = main(given)
                except SystemExit as error:
                    code = error.code
                except BaseException as error:
                    code = f"{type(error).__name__}: {error}"
            errors = [line for line in err.getvalue().splitlines() if line.startswith("awesum: error: ")]
            if code not in (0, 1, 2) or "Traceback" in err.getvalue() or (code != 0 and not errors):
                failures.append(f"call {number} ({' '.join(given)!r}): {code}, {err.getvalue()[-300:]!r}")
            found["done" if code == 0 else "refused"] += 1
    return found, failures


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run everything, print the counts, and fail if anything did harm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="inputs through reader and analysis")
    parser.add_argument("--seconds", type=float, default=3600, help="the most time for these")
    parser.add_argument("--command", type=int, default=500, help="inputs through `awesum summarize`")
    parser.add_argument("--rows", type=int, default=500, help="datasets through `awesum predict`, and as many flags")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=list(SEEDS), default=[], help="of the inputs (default: all)")
    parser.add_argument("--planted", action="store_true", help="plant a crash: the exit code has to be 1")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")  # of members that are there twice, which is meant
    started = time.monotonic()
    by_format, failures = fuzz_readers(options.count, options.seconds, options.seed, options.planted, options.formats)
    kinds = ["parsed", "refused", "limited", "died", FAILURE, "past the header"]
    print(f"{'format':10}" + "".join(f"{kind:>17}" for kind in kinds))
    for name, counts in by_format.items():
        print(f"{name:10}" + "".join(f"{counts[kind]:17,}" for kind in kinds))
    total = sum((counts for counts in by_format.values()), Counter[str]())
    print(f"{'all':10}" + "".join(f"{total[kind]:17,}" for kind in kinds))
    parts: list[tuple[str, Callable[[], tuple[Counter[str], list[str]]]]] = [
        ("awesum summarize", lambda: fuzz_command(options.command, options.seed)),
        ("awesum predict", lambda: fuzz_rows(options.rows, options.seed)),
        ("flags", lambda: fuzz_flags(options.rows, options.seed)),
        ("checkpoints", lambda: fuzz_checkpoints(options.rows, options.seed)),
    ]
    for title, fuzz in parts:
        counts, more = fuzz()
        failures += more
        print(f"{title}: " + ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items())))
    for failure in failures[:50]:
        print(f"FAILURE {failure}")
    print(f"{len(failures)} failures in {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
