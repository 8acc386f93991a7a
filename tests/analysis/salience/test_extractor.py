"""The network on random inputs: padding has no effect, a query has, and every weight gets a gradient."""

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
    """Documents with these numbers of sentences; the padding is noise."""
    chance = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    vectors = torch.nn.functional.normalize(torch.randn(len(lengths), longest, TINY.vector, generator=chance), dim=-1)
    counted = torch.randn(len(lengths), longest, len(NAMES), generator=chance)
    query = torch.nn.functional.normalize(torch.randn(len(lengths), TINY.vector, generator=chance), dim=-1)
    return vectors, counted, query, torch.arange(longest) < torch.tensor(lengths)[:, None]


def test_one_score_per_sentence() -> None:
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
def test_sentences_attend_to_each_other() -> None:
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
def test_zero_query_means_no_query() -> None:
    """The query weights have no effect: zeroing them leaves the scores unchanged."""
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
    assert (of_inputs > 0).all(), "every component of a vector and every feature"


def test_dropout_is_for_training_only() -> None:
    network, batch = extractor(), inputs(6)
    with torch.no_grad():
        torch.testing.assert_close(network(*batch), network(*batch), rtol=0, atol=0)
        network.train()
        assert not torch.equal(network(*batch), network(*batch))


@pytest.mark.parametrize("change", [{"layers": 1}, {"size": 8}, {"inner": 8}, {"vector": 4}])
def test_extractor_is_built_to_its_shape(change: dict[str, int]) -> None:
    shape = Shape(**TINY.to_json() | change)
    assert shape == Shape(**shape.to_json())
    sizes = [sum(weight.numel() for weight in Extractor(of).parameters()) for of in (shape, TINY)]
    assert sizes[0] < sizes[1]
