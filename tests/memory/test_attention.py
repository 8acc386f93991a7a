"""Attention that beams share gives what attention to copies would give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from awesum.memory import Source
from awesum.memory.attention import Attention, attend_to_both, folded, merged, split, unfolded


def random_source(documents: int, heads: int, length: int, size: int, masked: bool) -> Source:
    keys, values = torch.randn(2, documents, heads, length, size, dtype=torch.float64)
    mask = torch.rand(documents, length) > 0.4 if masked else None
    return Source(keys, values, mask)


def copied(source: Source, beams: int) -> Source:
    mask = None if source.mask is None else source.mask.repeat_interleave(beams, 0)
    return Source(source.keys.repeat_interleave(beams, 0), source.values.repeat_interleave(beams, 0), mask)


@given(documents=st.integers(1, 3), beams=st.integers(1, 4), heads=st.integers(1, 3), length=st.integers(1, 4))
def test_fold_and_back(documents: int, beams: int, heads: int, length: int) -> None:
    queries = torch.randn(documents * beams, heads, length, 5)
    together = folded(queries, documents)
    assert together.shape == (documents, heads, beams * length, 5)
    for row in range(documents * beams):
        document, beam = divmod(row, beams)
        assert torch.equal(together[document, :, beam * length : (beam + 1) * length], queries[row])
    assert torch.equal(unfolded(together, documents * beams), queries)


def test_heads_are_split_as_the_library_splits_them() -> None:
    states = torch.randn(2, 5, 12)
    heads = split(states, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[1, 2, 4], states[1, 4, 8:])
    assert torch.equal(merged(heads), states)


@given(
    documents=st.integers(1, 3),
    beams=st.integers(1, 3),
    length=st.integers(1, 4),
    own=st.integers(0, 3),
    masked=st.booleans(),
    causal=st.booleans(),
)
def test_one_softmax_over_both(documents: int, beams: int, length: int, own: int, masked: bool, causal: bool) -> None:
    torch.manual_seed(0)
    heads, size, rows = 2, 4, documents * beams
    queries = torch.randn(rows, heads, length, size, dtype=torch.float64)
    keys, values = torch.randn(2, rows, heads, length + own, size, dtype=torch.float64)
    source = random_source(documents, heads, 5, size, masked)
    mask = torch.ones(rows, 1, length, length + own, dtype=torch.bool).tril(own) if causal else None
    found = attend_to_both(queries, source, keys, values, mask)
    every = copied(source, beams)
    seen = torch.ones(rows, 5, dtype=torch.bool) if every.mask is None else every.mask
    visible = torch.cat(
        [
            seen[:, None, None, :].expand(-1, 1, length, -1),
            torch.ones(rows, 1, length, length + own, dtype=torch.bool) if mask is None else mask,
        ],
        -1,
    )
    scores = queries @ torch.cat([every.keys, keys], 2).transpose(2, 3) / size**0.5
    weights = torch.where(visible, scores, -torch.inf).softmax(-1)
    torch.testing.assert_close(found, weights @ torch.cat([every.values, values], 2))


@pytest.mark.parametrize("masked", [False, True])
def test_beams_look_at_the_source_of_their_document(masked: bool) -> None:
    torch.manual_seed(1)
    attention = Attention(12, 3).double()
    states = torch.randn(2, 5, 12, dtype=torch.float64)
    mask = torch.tensor([[True, True, False, True, False], [False, True, True, False, True]]) if masked else None
    queries = torch.randn(6, 4, 12, dtype=torch.float64)
    found = attention(queries, attention.source(states, mask))
    for row in range(6):
        own = states[row // 3] if mask is None else states[row // 3][mask[row // 3]]
        torch.testing.assert_close(found[row : row + 1], attention(queries[row : row + 1], attention.source(own[None])))


def test_joined_sources_keep_their_order_and_masks() -> None:
    first, second = random_source(2, 2, 3, 4, masked=True), random_source(2, 2, 2, 4, masked=False)
    for one, other in ((first, second), (second, first)):
        both = one.joined(other)
        assert torch.equal(both.keys, torch.cat([one.keys, other.keys], 2))
        assert torch.equal(both.values, torch.cat([one.values, other.values], 2))
        there = [torch.ones(2, s.keys.shape[2], dtype=torch.bool) if s.mask is None else s.mask for s in (one, other)]
        assert torch.equal(both.mask, torch.cat(there, 1))
