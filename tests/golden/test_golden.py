"""Every flow gives, to the last character, what it gave when it was recorded.

A change that is meant to change summaries is recorded anew: `python -m pytest tests/golden --record`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from tests.golden import flows


@pytest.fixture
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded was computed in float32 on a CPU, whatever this machine is fast with."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("kind", flows.SETTINGS)
def test_flow_gives_what_was_recorded(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tiny_folder: Path,
    tiny_bart_folder: Path,
    tiny_tokenizer: PreTrainedTokenizerFast,
    tiny_encoder: SentenceEncoder,
) -> None:
    model = dict(flows.models(tmp_path, tiny_folder, tiny_bart_folder, tiny_tokenizer))[kind]()
    found = flows.flow(kind, model, tiny_encoder)
    path = Path(__file__).with_name(f"{kind}.json")
    if request.config.getoption("--record"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert len(found) == len(recorded)
    for new, old in zip(json.loads(json.dumps(found)), recorded, strict=True):
        assert new == old
