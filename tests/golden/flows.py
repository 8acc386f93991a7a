"""The five ways from a document to a summary, on tiny models, each as the complete JSON that a user would get."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.tiny_models import FOUR_LAYERS, tiny_llama
from transformers import GenerationConfig, PreTrainedTokenizerFast

from awesum import Document, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.models.adapter import AwesomeCausal
from awesum.models.adapter_config import AdapterConfig
from awesum.models.bart import AwesomeBart
from tests.conftest import topical_text
from tests.models.adapters import SMALL

QUERY = "nurse vaccine clinic surgery fever"
DOCUMENT = Document(topical_text(70), path="short.txt", page_starts=(0, 1500, 4000))
LONG = Document(topical_text(300, seed=1), path="long.txt")
BART_DOCUMENT = Document(topical_text(24), path="short.txt")

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "chat": [{}, {"length": "120w"}, {"length": "6s"}, {"length": "10%", "query": QUERY}],
    "extract": [{"style": "extract"}, {"style": "extract", "length": "5s", "query": QUERY}],
    "writer": [{}, {"length": "120w"}, {"length": "6s", "query": QUERY}],
    "writer-with-memory": [{}, {"length": "120w"}],
    "adapter-attentive": [{}, {"length": "60w"}, {"length": "5s"}],
    "adapter-compressive-text": [{}, {"length": "60w", "query": QUERY}],
    "bart": [{}, {"length": "30w"}],
    "bart-attentive-text": [{}, {"length": "30w", "query": "crane"}],
    "bart-attentive-both": [{}],
    "bart-compressive-key-value": [{}, {"length": "4s"}],
}
ADAPTERS = {
    "writer": {"memory": "none", "salient": "rewrite"},
    "writer-with-memory": {"memory": "attentive-literal", "salient": "rewrite"},
    "adapter-attentive": {"memory": "attentive-literal", "salient": "none"},
    "adapter-compressive-text": {"memory": "compressive", "salient": "text"},
}
BARTS: dict[str, dict[str, Any] | None] = {
    "bart": None,
    "bart-attentive-text": {"memory": "attentive-literal", "salient": "text"},
    "bart-attentive-both": {"memory": "attentive-literal", "memory_direction": "both"},
    "bart-compressive-key-value": {"memory": "compressive", "salient": "key-value"},
}


def age(settings: Path) -> None:
    """As they were when these flows were recorded: `attentive` was what is now `attentive-literal`."""
    saved = json.loads(settings.read_text(encoding="utf-8"))
    del saved["memory_format"]
    saved["memory"] = saved["memory"].removesuffix("-literal")
    settings.write_text(json.dumps(saved), encoding="utf-8")


def noisy(model: torch.nn.Module) -> None:
    """Weights that make a fresh memory matter."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


def bart_folder(kind: str, base: Path, folder: Path) -> Path:
    """A BART that writes short parts."""
    shutil.copytree(base, folder)
    if (equipment := BARTS[kind]) is not None:
        torch.manual_seed(0)  # for the weights that a plain BART does not have
        model = AwesomeBart.from_pretrained(base, memory_size=8, memory_layers=2, **equipment)
        noisy(model)
        model.save_pretrained(folder)
        age(folder / "config.json")
    short = GenerationConfig.from_pretrained(folder)
    short.update(num_beams=2, max_length=24, no_repeat_ngram_size=3, early_stopping=True)
    short.save_pretrained(folder)
    return folder


def adapter_folder(kind: str, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """An adapter, and beside it the model that it belongs to."""
    base = tiny_llama(tokenizer, **FOUR_LAYERS)
    with torch.no_grad():
        base.lm_head.weight[tokenizer.eos_token_id] *= 1.2
    base.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    base.set_attn_implementation("awesum_grouped")
    torch.manual_seed(7)
    options = {"base": str(folder / "base"), "ending": 0.04, **SMALL, **ADAPTERS[kind]}
    model = AwesomeCausal(base, AdapterConfig(**options)).eval()
    with torch.no_grad():
        for name, weight in model.new_weights().items():
            if not name.endswith((".initial", ".queries")):
                weight.add_(0.15 * torch.randn_like(weight))
    model.save_pretrained(folder / "adapter")
    age(folder / "adapter" / "adapter.json")
    return folder / "adapter"


def models(
    folder: Path, chat: Path, bart: Path, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[str, Callable[[], Path]]]:
    """The folder of the model of each flow, made when it is wanted."""
    for kind in SETTINGS:
        if kind in ADAPTERS:
            yield kind, lambda kind=kind: adapter_folder(kind, tokenizer, folder / kind)
        elif kind in BARTS:
            yield kind, lambda kind=kind: bart_folder(kind, bart, folder / kind)
        else:
            yield kind, lambda: chat


def flow(kind: str, model: Path, encoder: SentenceEncoder) -> list[dict[str, Any]]:
    """The JSON of each of its settings, without what differs from run to run."""
    summarizer = Summarizer(str(model), encoder=encoder, extractor=Centrality())
    if kind in BARTS:
        documents = [BART_DOCUMENT]
    elif kind in ("chat", "extract", "writer"):
        documents = [DOCUMENT, LONG]
    else:
        documents = [DOCUMENT]
    found = []
    for document in documents:
        for settings in SETTINGS[kind]:
            result = summarizer.summarize(document, **settings).to_dict()
            del result["figures"]["seconds"], result["figures"]["peak_memory_bytes"]
            result["settings"].pop("dtype_reason", None)
            assert result["settings"].pop("model") == str(model)
            found.append(result)
    return found
