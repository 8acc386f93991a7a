"""A system is one file, found by its name without importing anything; a folder knows which system it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from awesum import Document, Summarizer, System, systems
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.trained import TrainedSalience
from awesum.cli import main
from awesum.errors import AwesumError
from awesum.models.bart import AwesomeBart
from awesum.systems.adapter import Adapter
from awesum.systems.awesome import Awesome
from awesum.systems.chat import Chat
from awesum.systems.se3 import Se3
from tests.golden.flows import adapter_folder

LONG_INPUT = {
    "block-attention", "cached", "extract-abstract", "long-t5", "longformer", "pagesum", "truncated", "unlimiformer",
}  # fmt: skip
SHIPPED = {
    "adapter",
    "awesome",
    "awesum",
    "chat",
    "endpoint",
    "extract",
    "extractor",
    "gguf",
    "lead",
    "oracle",
    "se3",
    "smollm2",
    *LONG_INPUT,
}

ONE_FILE = '''
from awesum.systems.lead import Lead


class Last(Lead):
    """The last sentence."""

    name = "the-last"
    description = "the last sentence"

    def _selected(self, document, sentences, length, amount, reference):
        return [len(sentences) - 1]
'''


@pytest.fixture
def folder_of_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where somebody puts systems of their own."""
    folder = tmp_path / "systems"
    folder.mkdir()
    monkeypatch.setattr(systems, "__path__", [*systems.__path__, str(folder)])
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("awesum.systems."):
            del sys.modules[name]


def refusal(name: str, of: str = "find") -> str:
    with pytest.raises(AwesumError) as error:
        getattr(systems, of)(name)
    assert "\n" not in str(error.value)
    return str(error.value)


# ------------------------------------------------------------------------------------------------------------ by name


def test_names_are_known_without_importing_torch_or_any_system() -> None:
    code = (
        "import sys\n"
        "from awesum import systems\n"
        "print(*systems.names())\n"
        "heavy = {'torch', 'transformers', 'numpy', *(f'awesum.systems.{name}' for name in systems.names())}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= SHIPPED


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_system_says_what_it_is(name: str) -> None:
    system = systems.find(name)
    assert issubclass(system, System)
    assert system.name == name
    assert system.description.strip()
    assert "\n" not in system.description
    assert system.trains() == (name in {"adapter", "awesome", "extractor", "se3", *LONG_INPUT})
    assert (system.taxonomy is not None) == (name in {"awesome", "se3", *LONG_INPUT})
    assert system.needs_reference == (name == "oracle")


@pytest.mark.parametrize(
    ("approach", "expected"),
    [
        (("block-attention", "longformer", "long-t5", "unlimiformer"), ("x -> y", "full", "full", "full")),
        (("extract-abstract",), ("x_e -> y", "extracted", "salient", "full")),
        (("pagesum",), ("x -> y", "page", "full + salient", "full")),
        (("se3",), ("x_i -> y_i", "segment", "segment", "segment")),
        (("awesome",), ("x_i -> y_i", "segment + memory", "segment + salient", "segment + memory")),
    ],
)
def test_taxonomy_is_that_of_the_papers_first_table(
    approach: tuple[str, ...], expected: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Efficient attention, extract-abstract, dynamic weight and divide-conquer; for AWESOME, its third section."""
    assert main(["systems"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in approach:
        assert systems.find(name).taxonomy == expected
        number = next(number for number, line in enumerate(lines) if line.split()[:1] == [name])
        in_out, enc, enc_dec, dec = expected
        assert lines[number + 1].strip() == f"{in_out}; Enc: {enc}; Enc <- Dec: {enc_dec}; Dec: {dec}"


def test_systems_are_described_without_importing_torch() -> None:
    code = (
        "import sys\n"
        "from awesum import systems\n"
        "for name in systems.names():\n"
        "    kind = systems.find(name)\n"
        "    print(name, kind.description, kind.paper, kind.trains())\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'transformers' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("wrong", "meant"), [("extrct", "extract"), ("Lead", "lead"), ("awsome", "awesome")])
def test_near_miss_is_suggested(wrong: str, meant: str) -> None:
    for of in ("find", "load"):
        assert f"did you mean {meant!r}?" in refusal(wrong, of)


def test_unknown_name_gets_the_list() -> None:
    for of in ("find", "load"):
        told = refusal("xyzzy", of)
        assert all(name in told for name in SHIPPED)


# ----------------------------------------------------------------------------------------------------- a new system


def test_new_system_is_one_file(folder_of_systems: Path) -> None:
    assert "the-last" not in systems.names()
    (folder_of_systems / "the_last.py").write_text(ONE_FILE)
    assert "the-last" in systems.names()
    assert systems.find("the-last").description == "the last sentence"
    document = Document("The crane broke. The quay sank. The pilot slept.", path="x.txt")
    system = systems.load("the-last")
    for summarizer in (Summarizer(system=system), Summarizer(system="the-last")):
        assert summarizer.summarize(document, length="1s").text == "The pilot slept."
    told = refusal("the-lst")
    assert "the-last" in told


def test_file_without_its_system_is_reported_in_one_line(folder_of_systems: Path) -> None:
    (folder_of_systems / "forgotten.py").write_text("name = 'forgotten'\n")
    told = refusal("forgotten")
    assert "forgotten.py" in told


# ---------------------------------------------------------------------------------------------------- from a folder


@pytest.fixture
def awesome_folder(tmp_path: Path, tiny_bart_folder: Path) -> Path:
    folder = tmp_path / "awesome"
    shutil.copytree(tiny_bart_folder, folder)
    torch.manual_seed(0)
    AwesomeBart.from_pretrained(tiny_bart_folder, memory="attentive", memory_size=4).save_pretrained(folder)
    return folder


def test_plain_models_belong_to_what_their_type_is_for(tiny_bart_folder: Path, tiny_folder: Path) -> None:
    assert systems.kind_of(str(tiny_bart_folder)) is Awesome
    assert systems.kind_of(str(tiny_folder)) is Chat


def test_folder_records_its_system(awesome_folder: Path) -> None:
    config = json.loads((awesome_folder / "config.json").read_text())
    assert config["system"] == "awesome"
    assert systems.kind_of(str(awesome_folder)) is Awesome
    (awesome_folder / "config.json").write_text(json.dumps(config | {"system": "se3"}))
    assert systems.kind_of(str(awesome_folder)) is Se3
    (awesome_folder / "config.json").write_text(json.dumps(config | {"system": "one-of-tomorrow"}))
    assert systems.kind_of(str(awesome_folder)) is Awesome, "of a later version: its type of model is still known"


def test_adapter_records_its_system(
    tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast, folder_of_systems: Path
) -> None:
    folder = adapter_folder("writer", tiny_tokenizer, tmp_path)
    config = json.loads((folder / "adapter.json").read_text())
    assert config["system"] == "adapter"
    assert systems.kind_of(str(folder)) is Adapter
    (folder_of_systems / "the_last.py").write_text(ONE_FILE)
    (folder / "adapter.json").write_text(json.dumps(config | {"system": "the-last"}))
    assert systems.kind_of(str(folder)).name == "the-last"
    del config["system"]
    (folder / "adapter.json").write_text(json.dumps(config))
    assert systems.kind_of(str(folder)) is Adapter, "one that was saved before systems were recorded"


def test_folder_is_loaded_by_its_path_alone(awesome_folder: Path, analyst: Analyst) -> None:
    system = systems.load(str(awesome_folder), analyst=analyst)
    assert isinstance(system, Awesome)
    assert system.model == str(awesome_folder)
    assert system.analyst is analyst


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_damaged_folder_is_reported_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "adapter.json").write_text(content)
    if content == "[]":
        assert systems.kind_of(str(tmp_path)) is Adapter
    else:
        assert "adapter.json" in refusal(str(tmp_path), "kind_of")


def test_folder_that_is_no_model_is_reported_in_one_line(tmp_path: Path) -> None:
    assert "config.json" in refusal(str(tmp_path), "load")
    assert "gone" in refusal(str(tmp_path / "gone"), "load")


def test_summarizer_loads_a_bart_folder(
    tiny_bart_folder: Path, tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, short_text: str
) -> None:
    """It failed with advice to give a BART."""
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: tiny_encoder)
    monkeypatch.setattr(TrainedSalience, "load", Centrality)
    summarizer = Summarizer.load(str(tiny_bart_folder))
    assert isinstance(summarizer.system, Awesome)
    assert {"tokenizer", "_writer"} <= set(vars(summarizer.system)), "everything is loaded now"
    assert summarizer.model == str(tiny_bart_folder)


def test_system_with_other_weights(tiny_folder: Path, analyst: Analyst) -> None:
    system = systems.load("chat", str(tiny_folder), analyst=analyst)
    assert isinstance(system, Chat)
    assert system.model == str(tiny_folder)
    assert Summarizer(str(tiny_folder), system="extract").system.model == str(tiny_folder)


def test_system_alone_or_a_name_with_the_rest(tiny_folder: Path, tiny_encoder: SentenceEncoder) -> None:
    with pytest.raises(AwesumError, match="alone") as error:
        Summarizer(str(tiny_folder), system=systems.load("lead"))
    assert "\n" not in str(error.value)
    with pytest.raises(AwesumError, match="alone"):
        Summarizer(system=systems.load("lead"), encoder=tiny_encoder)


def test_trained_model_has_the_extractor_that_it_was_trained_with(
    tiny_bart_folder: Path, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_bart_folder, tmp_path / "model")
    (model / "run.json").write_text(json.dumps({"settings": {"extractor": "centrality"}}))
    assert isinstance(Summarizer(str(model)).system.analyst.extractor, Centrality)
    assert isinstance(Summarizer(str(model), system="se3").system.analyst.extractor, Centrality)
    assert not isinstance(Summarizer(str(model), encoder=tiny_encoder).system.analyst.extractor, Centrality)
    assert not isinstance(Summarizer(str(tiny_bart_folder)).system.analyst.extractor, Centrality)
