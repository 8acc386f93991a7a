"""The package from Python: what its functions and methods take, refuse and return, for one document and many."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from inspect import signature
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

import awesum
from awesum import Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.trained import TrainedSalience
from awesum.compose.session import Session
from awesum.document import Document
from awesum.engine.causal import ROWS
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.settings import Style
from awesum.summary import Summary
from tests.conftest import Calls, topical_text


def test_functions_of_the_package_can_be_called_again_and_again(
    tiny_folder: Path,
    tiny_encoder: SentenceEncoder,
    tmp_path: Path,
    short_text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: tiny_encoder)
    monkeypatch.setattr(TrainedSalience, "load", Centrality)
    path = tmp_path / "report.txt"
    path.write_text(short_text)
    options: dict[str, Any] = {"model": str(tiny_folder), "style": "extract", "length": "3s"}
    summary = awesum.summarize(path, **options)
    assert isinstance(summary, awesum.Summary)
    assert str(summary) == summary.text
    assert awesum.summarize(str(path), **options).parts == summary.parts, "a second call is like the first"
    assert list(awesum.stream(str(path), **options)) == summary.parts


def test_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="sumarize"):
        _ = awesum.sumarize


# From Python


@pytest.fixture
def report(tmp_path: Path, short_text: str) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(short_text, encoding="utf-8")
    return path


@pytest.fixture
def lead() -> Summarizer:
    """The quickest: it has no weights."""
    return Summarizer(system="lead")


def test_every_kind_of_source_gives_the_same_summary(lead: Summarizer, report: Path, short_text: str) -> None:
    expected = lead.summarize(report, length="5s")
    assert lead.summarize(str(report), length="5s").parts == expected.parts
    assert lead.summarize(Document(short_text), length="5s").parts == expected.parts
    assert lead.summarize(text=short_text, length="5s").parts == expected.parts
    assert lead.summarize(BytesIO(report.read_bytes()), length="5s").parts == expected.parts
    with report.open("rb") as file:
        summary = lead.summarize(file, length="5s")
    assert summary.parts == expected.parts
    assert summary.document.path == expected.document.path == str(report)
    assert list(lead.stream(text=short_text, length="5s")) == expected.parts


def test_open_file_is_read_by_its_format(lead: Summarizer, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<html><body><p>The crane broke.</p><p>The quay <b>sank</b>.</p></body></html>", encoding="utf-8")
    with path.open("rb") as file:
        assert "<" not in lead.summarize(file, length="2s").text
    assert "<" not in lead.summarize(BytesIO(path.read_bytes()), length="2s").text, "its bytes say what it is"
    path = tmp_path / "notes.md"
    path.write_text("# Title\n\nThe *crane* broke.\n", encoding="utf-8")
    with path.open("rb") as file:
        assert "*" not in lead.summarize(file, length="9s").text


def message(run: Callable[[], object]) -> str:
    with pytest.raises(AwesumError) as error:
        run()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_file_that_is_open_in_text_mode_is_refused(lead: Summarizer, report: Path) -> None:
    with report.open(encoding="utf-8") as file:
        told = message(lambda: lead.summarize(file))  # type: ignore[arg-type]
    assert "'rb'" in told
    assert str(report) in told
    assert "'rb'" in message(lambda: lead.summarize(StringIO("The crane broke.")))  # type: ignore[arg-type]


def test_file_that_is_closed_or_empty_or_only_written_is_refused(lead: Summarizer, report: Path) -> None:
    with report.open("rb") as file:
        pass
    assert "closed" in message(lambda: lead.summarize(file))
    assert "empty" in message(lambda: lead.summarize(BytesIO(b"")))
    with report.with_name("new.txt").open("wb") as written:
        assert "new.txt" in message(lambda: lead.summarize(written))


@pytest.mark.parametrize("source", [3.5, b"The crane broke.", ["report.txt"], 7, {"text": "x"}, object()])
def test_source_of_a_wrong_type_is_refused(source: Any, lead: Summarizer) -> None:
    assert type(source).__name__ in message(lambda: lead.summarize(source))
    assert type(source).__name__ in message(lambda: lead.stream(source))


@pytest.mark.parametrize("text", [3, b"The crane broke.", ["The crane broke."]])
def test_text_of_a_wrong_type_is_refused(text: Any, lead: Summarizer) -> None:
    assert type(text).__name__ in message(lambda: lead.summarize(text=text))


def test_one_thing_has_to_be_given(lead: Summarizer, report: Path) -> None:
    for run in (
        lambda: lead.summarize(),
        lambda: lead.summarize(None),
        lambda: lead.summarize(report, text="The crane broke."),
        lambda: lead.stream(),
        lambda: awesum.summarize(system="lead"),
    ):
        assert "text=" in message(run)


def test_source_that_is_a_text_or_an_address_of_another_kind_is_refused(lead: Summarizer, report: Path) -> None:
    assert "text=" in message(lambda: lead.summarize("The crane broke.\nThe quay sank."))
    assert "http" in message(lambda: lead.summarize("ftp://example.org/report.txt"))
    assert "does not exist" in message(lambda: lead.summarize(report.with_name("repport.txt")))
    message(lambda: lead.summarize(""))
    message(lambda: lead.summarize("The crane broke. " * 300))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"length": True}, "length=True"),
        ({"length": 2.5}, "length=2.5"),
        ({"length": ["200w"]}, "length="),
        ({"length": 0}, "length"),
        ({"length": -3}, "length"),
        ({"length": b"200w"}, "length="),
        ({"style": "x"}, "abstract or extract"),
        ({"style": "poem"}, "abstract or extract"),
        ({"strict": "yes"}, "True nor False"),
        ({"query": 3}, "query=3"),
        ({"query": b"crane"}, "query="),
        ({"query": ""}, "query"),
        ({"max_memory": 2_000_000_000}, "max_memory="),
        ({"max_memory": "much"}, "2GB"),
    ],
)
def test_setting_of_a_wrong_type_or_value_is_refused(setting: dict[str, Any], told: str, lead: Summarizer) -> None:
    assert told in message(lambda: lead.summarize(text="The crane broke.", **setting))
    assert told in message(lambda: lead.stream(text="The crane broke.", **setting))
    assert told in message(lambda: next(lead.summarize_all(["report.txt"], **setting)))


def test_number_is_a_length_in_words(lead: Summarizer, long_document: Document) -> None:
    summary = lead.summarize(long_document, length=90)
    assert summary.parts == lead.summarize(long_document, length="90w").parts
    assert summary.settings["length"] == "90w"
    assert count_words(summary.text) == pytest.approx(90, abs=10)


def test_names_of_the_package_are_lazy() -> None:
    code = (
        "import sys, awesum\n"
        "light = set(sys.modules)\n"
        "assert not {'torch', 'transformers', 'numpy', 'awesum.summarizer', 'awesum.systems'} & light\n"
        "from awesum import AwesumError, Document, Settings, Summarizer, Summary, System, systems\n"
        "assert 'extract' in awesum.systems.names()\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
        "from awesum import AwesomeBart, AwesomeConfig\n"
        "assert issubclass(AwesomeConfig, __import__('transformers').BartConfig)\n"
        "assert all(hasattr(awesum, name) for name in awesum.__all__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_take_what_the_methods_take() -> None:
    for function, method in ((awesum.summarize, Summarizer.summarize), (awesum.stream, Summarizer.stream)):
        ours, theirs = signature(function).parameters, signature(method).parameters
        assert set(ours) == set(theirs) - {"self"} | {"model", "system"}
        for name in set(theirs) - {"self"}:
            assert (ours[name].annotation, ours[name].default) == (theirs[name].annotation, theirs[name].default)
        assert not any(each.kind is each.VAR_KEYWORD for each in ours.values()), "settings are named"
        with pytest.raises(TypeError, match="lenght"):
            function(text="The crane broke.", lenght="3s")  # type: ignore[call-arg]


def test_function_takes_a_system(short_document: Document, summarizer: Summarizer) -> None:
    expected = Summarizer(system="lead").summarize(short_document, length="2s").parts
    assert awesum.summarize(short_document, system="lead", length="2s").parts == expected
    assert list(awesum.stream(short_document, system="lead", length="2s")) == expected
    own = awesum.summarize(short_document, system=summarizer.system, length="100w")
    assert own.parts == summarizer.summarize(short_document, length="100w").parts


def test_package_is_typed() -> None:
    assert (files("awesum") / "py.typed").is_file()


# Many documents


@pytest.mark.parametrize("style", ["abstract", "extract"])
def test_bad_document_has_its_error_in_its_place(
    style: Style, summarizer: Summarizer, report: Path, tmp_path: Path
) -> None:
    texts = [Document(topical_text(size, seed=size), path=f"{size}") for size in (60, 5, 90, 30)]
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    bad: list[Any] = [tmp_path / "gone.txt", Document("  ", path="blank"), 3.5, tmp_path / "picture.png", None]
    sources = [bad[0], texts[0], bad[1], texts[1], texts[2], bad[2], bad[3], report, texts[3], bad[4]]
    found = list(summarizer.summarize_all(sources, length="80w", style=style))
    assert len(found) == len(sources)
    for source, outcome in zip(sources, found, strict=True):
        if any(source is each for each in bad):
            assert isinstance(outcome, AwesumError)
            assert "\n" not in str(outcome)
        else:
            assert isinstance(outcome, Summary)
            alone = summarizer.summarize(source, length="80w", style=style)
            assert outcome.document == alone.document
            assert outcome.parts == alone.parts
            assert outcome.notes == alone.notes
            assert outcome.complete
    assert [type(each) for each in summarizer.summarize_all(bad)] == [AwesumError] * len(bad)
    assert list(summarizer.summarize_all([])) == []


def test_document_that_fails_while_it_is_written_has_its_error_in_its_place(
    summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [Document(topical_text(size, seed=size), path=f"{size}.txt") for size in (60, 61, 62)]
    accept = Session.accept

    def failing(self: Session, *args: Any) -> Any:
        if self.analysis.document.path == "61.txt":
            raise ZeroDivisionError("of our\nown making")
        return accept(self, *args)

    monkeypatch.setattr(Session, "accept", failing)
    first, second, third = summarizer.summarize_all(texts, length="80w")
    assert isinstance(second, AwesumError)
    assert "61.txt" in str(second)
    assert "ZeroDivisionError" in str(second)
    assert "\n" not in str(second)
    assert isinstance(first, Summary)
    assert isinstance(third, Summary)
    assert first.complete
    assert third.complete


def test_documents_are_read_when_there_is_room_for_them(summarizer: Summarizer) -> None:
    read: list[int] = []

    def coming() -> Iterator[Document]:
        for number in range(40):
            read.append(number)
            yield Document(topical_text(60, seed=number), path=f"{number}")

    outcomes = summarizer.summarize_all(coming(), length="60w")
    assert read == []
    assert isinstance(next(outcomes), Summary)
    assert len(read) <= 3 * ROWS
    outcomes.close()  # type: ignore[attr-defined]


def test_documents_are_written_side_by_side(summarizer: Summarizer, calls: Calls) -> None:
    texts = [Document(topical_text(40, seed=number), path=f"{number}") for number in range(6)]
    summaries = list(summarizer.summarize_all(texts, length="50w"))
    assert [summary.document.path for summary in summaries if isinstance(summary, Summary)] == list("012345")
    assert max(calls.rows) > 3
