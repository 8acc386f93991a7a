"""Which device and number format a model gets, and when two models count as the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from awesum import compat
from awesum.analysis.embedding import SentenceEncoder
from awesum.loading import choose_device, fingerprint, weights_fingerprint


@pytest.mark.parametrize(
    ("cuda", "mps", "bfloat16", "device", "dtype"),
    [
        (True, False, False, "cuda", torch.float16),
        (True, True, False, "cuda", torch.float16),
        (False, True, True, "mps", torch.float16),
        (False, False, True, "cpu", torch.bfloat16),
        (False, False, False, "cpu", torch.float32),
    ],
)
def test_fastest_device_is_chosen_with_a_reason(
    cuda: bool, mps: bool, bfloat16: bool, device: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(compat, "has_fast_bfloat16", lambda: bfloat16)
    chosen, number_format, reason = choose_device()
    assert (chosen.type, number_format) == (device, dtype)
    assert reason


def test_fingerprint_changes_with_any_file_of_a_model(tiny_folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    before = fingerprint(str(model))
    assert before == fingerprint(str(tiny_folder)), "where it lies does not matter"
    weights = load_file(model / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1e-3}, model / "model.safetensors", {"format": "pt"})
    changed = fingerprint(str(model))
    assert changed != before
    (model / "tokenizer_config.json").write_text("{}")
    assert fingerprint(str(model)) not in (before, changed)


def test_fingerprint_of_what_was_never_fetched_is_its_name() -> None:
    assert fingerprint("nobody/nothing-of-this-name") == "nobody/nothing-of-this-name"


def test_weights_fingerprint_sees_one_changed_number(tiny_encoder: SentenceEncoder) -> None:
    before = weights_fingerprint(tiny_encoder.model)
    assert weights_fingerprint(tiny_encoder.model) == before
    parameter = next(tiny_encoder.model.parameters())
    with torch.no_grad():
        parameter[0, 0] += 1
        changed = weights_fingerprint(tiny_encoder.model)
        parameter[0, 0] -= 1
    assert changed != before
