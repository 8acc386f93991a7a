"""Inputs are computed once, and again whenever anything that they depend on has changed."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.ratings import Query, Ratings
from awesum.datasets import Example
from awesum.errors import AwesumError
from awesum.training.examples import Examples
from tests.training.preparing import Counting, Make, bart_inputs, example


@pytest.fixture
def make(tiny_bart_tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Make:
    return bart_inputs(tiny_bart_tokenizer, tiny_encoder)


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> Counting:
    return Counting(tiny_encoder)


def plain(inputs: Any) -> str:
    return json.dumps([inputs.name, inputs.segments, inputs.targets, inputs.spans, inputs.salient])


def calls(make: Make, encoder: SentenceEncoder, folder: Path, one: Example | None = None, **options: Any) -> int:
    """How often a fresh run with these options asks the encoder for the inputs of an example."""
    counting = Counting(encoder)
    found = Examples([one or example()], make(encoder=counting, **options), folder)[0]
    count = counting.calls
    assert plain(found) == plain(make(encoder=counting, **options)(one or example()))
    return count


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
def test_inputs_are_computed_once(make: Make, encoder: Counting, tmp_path: Path, salient: str) -> None:
    two = [example(), example("Another text. It is short.")]
    examples = Examples(two, make(encoder=encoder, salient=salient), tmp_path / "cache")
    assert len(examples) == 2
    assert encoder.calls == 0  # not before they are needed
    first = examples[0]
    assert encoder.calls == 1
    assert plain(examples[0]) == plain(first) == plain(make(salient=salient)(example()))
    again = Examples(two, make(encoder=encoder, salient=salient), tmp_path / "cache")
    assert plain(again[0]) == plain(first)
    assert encoder.calls == 1
    assert again[1].segments != first.segments
    assert encoder.calls == 2
    assert len(list((tmp_path / "cache").iterdir())) == 2  # nothing half-written beside them


@pytest.mark.parametrize(
    "other",
    [{"salient": "none"}, {"salient_size": 50}, {"window": 200}, {"max_tokens": 300}],
    ids=str,
)
def test_other_settings_give_other_inputs(
    make: Make, tiny_encoder: SentenceEncoder, tmp_path: Path, other: dict[str, Any]
) -> None:
    options = {"salient": "key-value", "salient_size": 100}
    assert calls(make, tiny_encoder, tmp_path, **options) == 1
    assert calls(make, tiny_encoder, tmp_path, **options | other) == 1
    assert calls(make, tiny_encoder, tmp_path, **options) == 0


def test_other_tokenizer_extractor_or_example_gives_other_inputs(
    make: Make, tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    options = {"salient": "key-value"}
    assert calls(make, tiny_encoder, tmp_path, **options) == 1
    assert calls(make, tiny_encoder, tmp_path, **options, tokenizer=tiny_tokenizer) == 1
    assert calls(make, tiny_encoder, tmp_path, **options, extractor=Centrality(opening=0.9)) == 1
    for change in ({"id": "8"}, {"document": example().document + " More."}, {"summary": "Other."}):
        assert calls(make, tiny_encoder, tmp_path, replace(example(), **change), **options) == 1
    assert calls(make, tiny_encoder, tmp_path, example(query="Why?"), **options) == 2  # the query is encoded, too
    assert len(list(tmp_path.iterdir())) == 7


def test_encoder_with_other_weights_gives_other_inputs(
    make: Make, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    """The same configuration, trained further: its vectors are others, and so may be the segments."""
    other = SentenceEncoder(deepcopy(tiny_encoder.model), tiny_encoder.tokenizer)
    with torch.no_grad():
        torch.nn.init.normal_(other.model.embeddings.word_embeddings.weight, std=3.0)
    assert other.model.config.to_json_string() == tiny_encoder.model.config.to_json_string()
    assert calls(make, tiny_encoder, tmp_path) == 1
    assert calls(make, other, tmp_path) == 1
    assert calls(make, tiny_encoder, tmp_path) == calls(make, other, tmp_path) == 0


def test_name_of_an_extractor_decides_whether_it_is_another(
    make: Make, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def own_vectors(self, texts: list[str]) -> None:
            return None

        def rate(self, texts: list[str], vectors: np.ndarray, query: Query | None = None) -> Ratings:
            return Ratings(np.arange(len(vectors), dtype=np.float32), 100.0)

    found = [
        calls(make, tiny_encoder, tmp_path, salient="key-value", extractor=Named(name))
        for name in ("one", "other", "one")
    ]
    assert found == [1, 1, 0]


@pytest.mark.parametrize("damage", [b"", b"{", b"[1, 2]", b'{"name": "x"}', b'{"other": 1}', b"\xff\xfe", b"null"])
def test_damaged_entry_is_computed_again(
    make: Make, tiny_encoder: SentenceEncoder, tmp_path: Path, damage: bytes
) -> None:
    assert calls(make, tiny_encoder, tmp_path) == 1
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert calls(make, tiny_encoder, tmp_path) == 1
    assert calls(make, tiny_encoder, tmp_path) == 0


def test_cache_that_cannot_be_written_is_reported_in_one_line(make: Make, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(AwesumError, match="AWESUM_CACHE") as error:
        Examples([example()], make(), tmp_path / "cache")[0]
    assert "\n" not in str(error.value)


def test_no_such_example(make: Make, tmp_path: Path) -> None:
    with pytest.raises(IndexError):
        Examples([example()], make(), tmp_path)[1]
