"""What a GGUF file says about itself, and what is refused before anything is loaded."""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.tiny_models import tiny_llama
from gguf import GGUFWriter
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analyst
from awesum.engine import llamacpp
from awesum.errors import AwesumError
from awesum.models.approximate import ApproximateTokenizer
from awesum.models.gguf import is_gguf, read_gguf
from awesum.systems import registry
from awesum.systems.gguf import GGUF
from tests.conftest import OTHER_SCRIPTS, topical_text
from tests.engine.tiny_gguf import write_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_llama(tiny_tokenizer), tiny_tokenizer)


def test_header_is_read(tiny: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    found = read_gguf(tiny)
    found.require_chat()
    assert found.architecture == "llama"
    assert found.name == "tiny"
    assert found.window == 2048
    assert found.parameters == GGUF(str(tiny)).parameters == tiny_llama(tiny_tokenizer).num_parameters()
    assert found.size == tiny.stat().st_size
    assert found.bytes_per_token == 2 * 2 * 2 * 2 * 8  # keys and values, 16 bits, 2 layers, 2 heads of 8
    assert {"<|im_start|>", "<|im_end|>"} <= found.marks


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_refused(share: float, tiny: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny.read_bytes()[: int(share * tiny.stat().st_size)])
    with pytest.raises(AwesumError, match=r"truncated|not a GGUF file|cannot read") as caught:
        read_gguf(cut)
    assert "fetch" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_header_is_refused_or_read_but_never_crashes(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    chance = random.Random(0)
    path = tmp_path / "damaged.gguf"
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(4, 3000)
            changed[at] = chance.randrange(256)
        path.write_bytes(changed)
        with suppress(AwesumError):
            read_gguf(path).require_chat()


def test_file_for_which_there_is_no_room(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("awesum.models.gguf.mmap.mmap", full)
    with pytest.raises(AwesumError, match=r"cannot read .*Cannot allocate memory\): free some RAM"):
        read_gguf(tiny)


def test_what_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(AwesumError, match="is not a GGUF file"):
        read_gguf(path)
    with pytest.raises(AwesumError, match="there is no file"):
        read_gguf(tmp_path / "nowhere.gguf")
    with pytest.raises(AwesumError, match="is not a file"):
        read_gguf(tmp_path)


def test_model_without_a_chat_template_is_refused(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    base = write_gguf(tmp_path / "base.gguf", tiny_llama(tiny_tokenizer), tiny_tokenizer, template="")
    with pytest.raises(AwesumError, match=r"base\.gguf is not a chat model .*give an instruct or chat version"):
        _ = GGUF(str(base)).file


def test_adapter_is_refused(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "lora.gguf", "llama")
    writer.add_type("adapter")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(AwesumError, match="is an adapter, not a model"):
        read_gguf(tmp_path / "lora.gguf").require_chat()


def test_model_larger_than_ram_is_refused_before_it_is_loaded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "total_memory", lambda: 200_000_000)
    with pytest.raises(AwesumError, match=r"needs \d+ MB of RAM and this machine has 200 MB: take a smaller"):
        _ = GGUF(str(tiny)).window


def test_without_llama_cpp_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xllamacpp", None)
    with pytest.raises(AwesumError, match=r"pip install 'awesum\[gguf\]'"):
        _ = GGUF(str(tiny)).window


def test_file_that_llama_cpp_does_not_know(tmp_path: Path, tiny: Path) -> None:
    """An architecture that no version has: llama.cpp refuses it, and the process goes on."""
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(tiny.read_bytes().replace(b"llama", b"lIama"))
    with pytest.raises(AwesumError, match=r"llama\.cpp cannot load .*strange\.gguf"):
        GGUF(str(strange)).load()


def test_fingerprint_changes_with_the_weights(tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    shutil.copy(tiny, other)
    assert read_gguf(other).fingerprint == read_gguf(tiny).fingerprint
    data = bytearray(other.read_bytes())
    data[-100] ^= 1
    other.write_bytes(data)
    assert read_gguf(other).fingerprint != read_gguf(tiny).fingerprint


def test_parts_of_a_split_model(tiny: Path, tmp_path: Path) -> None:
    first = tmp_path / "big-00001-of-00002.gguf"
    writer = GGUFWriter(first, "llama")
    writer.add_uint16("split.count", 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(AwesumError, match=r"big-00002-of-00002\.gguf is missing"):
        read_gguf(first)
    shutil.copy(first, tmp_path / "big-00002-of-00002.gguf")
    assert read_gguf(first).size == 2 * first.stat().st_size
    with pytest.raises(AwesumError, match="give the first"):
        read_gguf(tmp_path / "big-00002-of-00002.gguf")


# ------------------------------------------------------------------------------------------------------------ registry


def test_systems_of_files_and_addresses(tiny: Path) -> None:
    assert is_gguf("a.GGUF")
    assert not is_gguf("a.bin")
    assert registry.kind_of(str(tiny)).name == "gguf"
    assert registry.kind_of("http://127.0.0.1:1/v1#x").name == "endpoint"
    assert registry.load(str(tiny)).name == "gguf"


@pytest.mark.parametrize("system", ["adapter", "awesum", "awesome", "chat", "smollm2"])
@pytest.mark.parametrize("model", ["tiny.gguf", "http://127.0.0.1:1/v1#x"])
def test_memory_is_refused_where_there_are_no_hidden_states(system: str, model: str) -> None:
    with pytest.raises(AwesumError, match=rf"the system {system} needs the model's hidden states.*gives only text"):
        registry.load(system, model)


def test_training_on_text_is_refused(analyst: Analyst) -> None:
    from awesum.loading import load_tokenizer

    with pytest.raises(AwesumError, match="without showing its hidden states: training and memory need weights"):
        load_tokenizer("x.gguf")
    with pytest.raises(AwesumError, match="is a server, which gives only text: training and memory need weights"):
        load_tokenizer("https://example.com/v1")


# -------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    "text", ["", " ", topical_text(40), OTHER_SCRIPTS, "a" * 1000, "\n\n\t x", "🙂🙂 naïve_x 12,345%"]
)
def test_approximate_tokens_cover_a_text(text: str) -> None:
    tokenizer = ApproximateTokenizer()
    offsets = tokenizer(text)["offset_mapping"]
    at = 0
    for start, end in dict.fromkeys(offsets):
        assert start == at
        assert end > start
        at = end
    assert at == len(text)
    assert tokenizer([text, "x"])["offset_mapping"] == [offsets, tokenizer("x")["offset_mapping"]]
    assert tokenizer.count(text) == len(offsets)


def test_estimate_is_on_the_safe_side(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    text = Path("samples/commercial-crew.txt").read_text(encoding="utf-8")
    words = len(text.split())
    assert 1.25 * words < ApproximateTokenizer().count(text) < 1.45 * words  # SmolLM2 has 1.23 tokens a word
