"""The network on random numbers: padding is not seen, a query is, and every weight learns."""

from __future__ import annotations

import pytest
import torch

from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.features import NAMES

TINY = Shape(vector=8, size=16, heads=4, layers=2, inner=24, dropout=0.3)
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def extractor(seed: int = 0) -> Extractor:
    torch.manual_seed(seed)
    return Extractor(TINY).eval()


def inputs(*lengths: int, seed: int = 1) -> Inputs:
    """Documents of so many sentences; noise where they are padded."""
    chance = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    vectors = torch.nn.functional.normalize(torch.randn(len(lengths), longest, TINY.vector, generator=chance), dim=-1)
    counted = torch.randn(len(lengths), longest, len(NAMES), generator=chance)
    query = torch.nn.functional.normalize(torch.randn(len(lengths), TINY.vector, generator=chance), dim=-1)
    return vectors, counted, query, torch.arange(longest) < torch.tensor(lengths)[:, None]


def test_one_score_a_sentence() -> None:
    assert extractor()(*inputs(5, 3)).shape == (2, 5)


@torch.inference_mode()
def test_padding_does_not_change_scores() -> None:
    network = extractor()
    vectors, counted, query, mask = inputs(4, 9, 1)
    together = network(vectors, counted, query, mask)
    for number, length in enumerate((4, 9, 1)):
        own = slice(number, number + 1), slice(length)
        alone = network(vectors[own], counted[own], query[number : number + 1], mask[own])
        torch.testing.assert_close(together[own], alone)


@torch.inference_mode()
def test_sentences_look_at_each_other() -> None:
    network = extractor()
    vectors, counted, query, mask = inputs(6)
    before = network(vectors, counted, query, mask)
    vectors[0, 5], counted[0, 5] = -vectors[0, 5], -counted[0, 5]
    assert ((network(vectors, counted, query, mask) - before)[0, :5].abs() > 1e-5).all()


@torch.inference_mode()
def test_query_changes_scores() -> None:
    network = extractor()
    vectors, counted, query, mask = inputs(6)
    scores = network(vectors, counted, query, mask)
    other = network(vectors, counted, query.roll(1, -1), mask)
    assert ((scores - other).abs() > 1e-5).all()


@torch.inference_mode()
def test_zero_query_is_none() -> None:
    """Nothing that was learned of queries plays a part: without its weights the scores are the same."""
    network = extractor()
    vectors, counted, query, mask = inputs(6)
    nothing = torch.zeros_like(query)
    without, asked = network(vectors, counted, nothing, mask), network(vectors, counted, query, mask)
    network.embed.weight[:, 2 * TINY.vector : 3 * TINY.vector] = 0
    torch.testing.assert_close(network(vectors, counted, nothing, mask), without)
    torch.testing.assert_close(network(vectors, counted, query, mask), without)
    assert not torch.allclose(asked, without)


def test_gradient_reaches_every_weight() -> None:
    network = extractor()
    scores = network(*inputs(7, 5))
    torch.nn.functional.binary_cross_entropy_with_logits(scores, torch.rand_like(scores).round()).backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name
    of_inputs = network.embed.weight.grad.abs().amax(0)
    assert (of_inputs > 0).all(), "each part of a vector and each feature"


def test_dropout_is_for_training_only() -> None:
    network, given = extractor(), inputs(6)
    with torch.no_grad():
        torch.testing.assert_close(network(*given), network(*given), rtol=0, atol=0)
        network.train()
        assert not torch.equal(network(*given), network(*given))


@pytest.mark.parametrize("change", [{"layers": 1}, {"size": 8}, {"inner": 8}, {"vector": 4}])
def test_shape_is_what_is_built(change: dict[str, int]) -> None:
    shape = Shape(**TINY.to_json() | change)
    assert shape == Shape(**shape.to_json())
    sizes = [sum(weight.numel() for weight in Extractor(of).parameters()) for of in (shape, TINY)]
    assert sizes[0] < sizes[1]
