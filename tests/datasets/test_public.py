"""Public datasets by name: hub rows become examples, and without a network the error says what to do.

The library reads a local folder here, through the same call that reads the hub.
"""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from awesum.datasets import PUBLIC, Example, examples, is_public, load, sources, splits
from tests.datasets.conftest import Publish
from tests.datasets.forms import ROWS, plain, refusal, written


def test_public_datasets_have_names_repositories_and_the_papers_figures() -> None:
    assert list(PUBLIC) == ["govreport", "qmsum", "summscreen", "arxiv", "booksum"]
    for name, dataset in PUBLIC.items():
        assert dataset.name == name
        assert dataset.repository.count("/") == 1
        assert dataset.note
    papers = {name: dataset.paper for name, dataset in PUBLIC.items() if dataset.paper}
    assert papers["govreport"].documents == 19_463
    assert papers["arxiv"].document_words == 6_030


def test_every_dataset_module_is_registered() -> None:
    folder = Path(sources.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "DATASET = Dataset(" in path.read_text(encoding="utf-8")}
    assert modules == set(PUBLIC)


HUB: dict[str, tuple[str, list[dict[str, Any]], list[Example]]] = {
    "govreport": (
        "document/train-00000-of-00001.parquet",
        [{"report": "A report.", "summary": "Short."}, {"report": "Another one.", "summary": "Brief."}],
        [
            Example("1", "A report.", "Short.", None, ("Short.",)),
            Example("2", "Another one.", "Brief.", None, ("Brief.",)),
        ],
    ),
    "arxiv": (
        "document/train-00000-of-00001.parquet",
        [{"article": "a paper about @xmath0 .", "abstract": "a claim ."}],
        [Example("1", "a paper about @xmath0 .", "a claim .", None, ("a claim .",))],
    ),
    "qmsum": (
        "data/train-00000-of-00001.parquet",
        [{"id": "tr-sq-1", "pid": "p", "input": "What was decided?\nA: Yes.\nB: No.", "output": "Nothing."}],
        [Example("tr-sq-1", "A: Yes.\nB: No.", "Nothing.", "What was decided?", ("Nothing.",))],
    ),
    "summscreen": (
        "tms/train/0000.parquet",
        [{"Show Title": "Doctors", "Transcript": ["Ann: Stay!", "Bob: No."], "Recap": ["He leaves.", "So."]}],
        [Example("1", "Ann: Stay!\nBob: No.", "He leaves.\nSo.", None, ("He leaves.\nSo.",))],
    ),
    "booksum": (
        "books/train-00000.parquet",
        [
            {
                "bid": 113,
                "title": "t",
                "text": "It was a dark and stormy night.",
                "summary": [
                    {"source": "shmoop", "text": "A night.", "analysis": ""},
                    {"source": "gradesaver", "text": "It rains.", "analysis": ""},
                ],
            }
        ],
        [
            Example("113/shmoop", "It was a dark and stormy night.", "A night.", None, ("A night.",)),
            Example("113/gradesaver", "It was a dark and stormy night.", "It rains.", None, ("It rains.",)),
        ],
    ),
}


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub_become_examples(name: str, publish: Publish, cache: Path) -> None:
    file, rows, expected = HUB[name]
    publish(name, rows, file)
    assert is_public(name)
    assert list(examples(name, "train")) == expected
    assert not cache.exists()


def test_folder_of_the_conversion_is_the_only_one_read(publish: Publish) -> None:
    row = HUB["summscreen"][1][0]
    publish("summscreen", [row], "tms/test/0000.parquet")
    publish("summscreen", [row, row], "fd/test/0000.parquet")
    assert len(list(examples("summscreen", "test"))) == 1


def test_loading_fetches_once_and_gives_rows_in_any_order(
    publish: Publish, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"report": f"Report {number}.", "summary": f"S{number}."} for number in range(5)]
    rows[2]["summary"] = ""
    repository = publish("govreport", rows)
    loaded = load("govreport", "train")
    assert [loaded[number].id for number in (3, 0, -1)] == ["5", "1", "5"]
    assert [example.document for example in loaded[1:3]] == ["Report 1.", "Report 3."]
    error = capsys.readouterr().err.splitlines()
    assert "once" in error[0]
    assert ", row 3 has an empty summary" in error[1]
    assert error[2:] == ["awesum: govreport (train): skipped 1 × empty summary"]
    (repository / "data/train-00000-of-00001.parquet").unlink()
    assert list(load("govreport", "train")) == list(loaded)
    assert len(list((cache / "datasets").iterdir())) == 1


def test_rows_are_streamed(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is asked to stream: it returns the first row without having read the last."""
    publish("govreport", [{"report": f"Report {number}.", "summary": "s"} for number in range(1000)])
    import datasets as library

    kinds = []
    load_dataset = library.load_dataset

    def recorded(*arguments: Any, **options: Any) -> Any:
        kinds.append(type(result := load_dataset(*arguments, **options)))
        return result

    monkeypatch.setattr(library, "load_dataset", recorded)
    assert next(iter(examples("govreport", "train"))).id == "1"
    assert kinds == [library.IterableDataset]


def test_invalid_rows_of_the_hub_are_reported_with_their_number(publish: Publish) -> None:
    publish("qmsum", [{"id": "a", "input": "Why?\nBecause.", "output": output} for output in ("So.", None)])
    notes: list[str] = []
    stream = examples("qmsum", "train", say=notes.append)
    assert len(list(stream)) == 1
    assert dict(stream.skipped) == {"no summary": 1}
    assert ", row 2 has no 'summary'" in notes[0]


def test_book_without_summaries_is_counted(publish: Publish) -> None:
    row = HUB["booksum"][1][0]
    publish("booksum", [row, {**row, "bid": 114, "summary": []}])
    stream = examples("booksum", "train", say=lambda note: None)
    assert len(list(stream)) == 2
    assert dict(stream.skipped) == {"no summary": 1}


@pytest.mark.parametrize("name", PUBLIC)
def test_without_a_network_the_error_names_the_dataset_and_gives_advice(name: str, cache: Path) -> None:
    message = refusal(lambda: next(iter(examples(name, "validation"))))  # HF_HUB_OFFLINE is set for all tests
    assert f"validation split of {name} from {PUBLIC[name].repository}" in message
    assert "give a folder with train.jsonl" in message
    assert refusal(lambda: load(name, "validation")) == message
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def refusing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return importing(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    monkeypatch.setattr(builtins, "__import__", refusing)
    message = refusal(lambda: next(iter(examples("arxiv", "train"))))
    assert "awesum[data]" in message
    assert "folder" in message


def test_folder_takes_precedence_over_a_public_name(tmp_path: Path) -> None:
    assert is_public("qmsum")
    assert splits("qmsum") == ("train", "validation", "test")
    written(tmp_path / "qmsum", "test.jsonl", plain(ROWS))
    assert not is_public("qmsum")
    assert splits("qmsum") == ("test",)
    assert len(load("qmsum", "test")) == 7


def test_name_with_a_slash_is_a_folder_and_never_fetched() -> None:
    assert not is_public("qmsum/")
    assert "there is no dataset qmsum/" in refusal(lambda: load("qmsum/", "train"))


@pytest.mark.parametrize(
    ("wrong", "right"), [("govreprot", "govreport"), ("QMSum", "qmsum"), ("book_sum", "booksum"), ("arXiv/", "arxiv")]
)
def test_near_miss_is_suggested(wrong: str, right: str) -> None:
    assert f"did you mean {right}?" in refusal(lambda: examples(wrong, "train"))


def test_unknown_name_is_refused_listing_the_public_ones() -> None:
    message = refusal(lambda: examples("wikipedia", "train"))
    assert "did you mean" not in message
    assert "one of govreport, qmsum, summscreen, arxiv, booksum" in message


def test_unknown_split_of_a_public_dataset_is_refused_without_asking_the_hub() -> None:
    assert refusal(lambda: examples("qmsum", "dev")).endswith("it has train, validation, test")
