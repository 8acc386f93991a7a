"""Unlimiformer: BART whose heads attend, at each step, to those of all encoded tokens that they find nearest.

The document is encoded in windows that overlap by half; of each, the middle is kept, where tokens have context on both
sides. No weights but BART's. In the original the first step of writing attends to the first window; here every step
retrieves, as in training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import BartEncoder

from awesum.errors import AwesumError
from awesum.models.long_bart import BeamCache, LongBart, SharedAttention

TOGETHER = 4
"""Windows that are encoded at the same time."""
RETRIEVED, RANDOM = "retrieved", "random"
"""What a head attends to: the nearest tokens, or as many at random."""
PER_CELL = 128
"""Encoded tokens of a cell of the index, on average."""
PROBED = 32
"""Cells that are searched."""


class Window(NamedTuple):
    """A part of a document that is encoded together, and the part of it that is kept."""

    start: int
    end: int
    first: int
    last: int


def windows(length: int, size: int) -> Iterator[Window]:
    """The windows of a document. The first is kept from its beginning, the last, which ends with the document, to its
    end; what is kept of the others is their middle half."""
    if length <= size:
        yield Window(0, length, 0, length)
        return
    margin = size // 4
    start = kept = 0
    while start + size < length:
        yield Window(start, start + size, kept, start + size - margin)
        kept = start + size - margin
        start += size - 2 * margin
    yield Window(length - size, length, kept, length)


class WindowEncoder(BartEncoder):
    """BART's encoder on overlapping windows."""

    def forward(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """(B, N) -> (B, N, d). Padding comes after the tokens."""
        assert input_ids is not None, "it reads tokens"
        size = self.config.max_position_embeddings
        if input_ids.shape[1] <= size:
            return super().forward(input_ids, attention_mask=attention_mask)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        places = [(row, each) for row, length in enumerate(mask.sum(1).tolist()) for each in windows(length, size)]
        pieces: list[list[torch.Tensor]] = [[] for _ in input_ids]
        for at in range(0, len(places), TOGETHER):
            group = places[at : at + TOGETHER]
            ids, seen = (
                torch.stack([_padded(source[row, each.start : each.end], size, filler) for row, each in group])
                for source, filler in ((input_ids, self.config.pad_token_id), (mask, 0))
            )
            found = super().forward(ids, attention_mask=seen).last_hidden_state
            for (row, each), states in zip(group, found, strict=True):
                pieces[row].append(states[each.first - each.start : each.last - each.start])
        rows = [
            nn.functional.pad(torch.cat(each), (0, 0, 0, input_ids.shape[1] - sum(map(len, each)))) for each in pieces
        ]
        return BaseModelOutput(last_hidden_state=torch.stack(rows))


def _padded(row: torch.Tensor, length: int, filler: int) -> torch.Tensor:
    return nn.functional.pad(row, (0, length - len(row)), value=filler)


class RetrievalAttention(SharedAttention):
    """Cross-attention of each head and query to the `retrieved` encoded tokens with the largest products."""

    def attend(
        self,
        queries: torch.Tensor,
        states: torch.Tensor,
        visible: torch.Tensor | None,
        cache: Any,
        attend_to: str = RETRIEVED,
        **kwargs: Any,
    ) -> torch.Tensor:
        """See `SharedAttention.attend`."""
        wanted = self.config.retrieved
        if states.shape[1] <= wanted:
            return super().attend(queries, states, visible, cache)
        if visible is not None and visible.dtype != torch.bool:
            visible = visible == 0
        if attend_to == RANDOM:
            chosen = _random_tokens(states, visible, wanted)
            return super().attend(queries, *_taken(states, visible, chosen), None)
        keys, values = self.source(states, cache)
        scores = queries @ keys.transpose(2, 3) * self.scaling  # (D, H, Q, N)
        if visible is not None:
            scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        if self.config.search == "faiss" and isinstance(cache, BeamCache):
            if cache.index is None:
                cache.index = [Index(row, mask) for row, mask in zip(states, _rows(visible, states), strict=True)]
            kept = self._found(queries, cache.index, wanted)
            scores = torch.full_like(scores, torch.finfo(scores.dtype).min).scatter(3, kept, scores.gather(3, kept))
        else:
            # The smallest of the largest: what is below it is not retrieved.
            least = scores.detach().topk(wanted, sorted=False).values.amin(-1, keepdim=True)
            scores = scores.masked_fill(scores < least, torch.finfo(scores.dtype).min)
        weights = nn.functional.dropout(scores.softmax(-1), p=self.dropout, training=self.training)
        return weights @ values

    def _found(self, queries: torch.Tensor, indices: list[Index], wanted: int) -> torch.Tensor:
        """The numbers of the nearest tokens by the index: (D, H, Q, k).

        A key is W h + b, so a query's product with it is that of (q W) with h, plus what is the same for all tokens.
        One index of the encoder's output thus serves all layers and heads.
        """
        weights = self.k_proj.weight.view(self.num_heads, self.head_dim, -1)
        through = torch.einsum("dhqk,hkm->dhqm", queries, weights)
        return torch.stack([index.search(each, wanted) for index, each in zip(indices, through, strict=True)])


class Index:
    """FAISS over the encoded tokens of a document, by inner product: flat while they are few, then in cells."""

    def __init__(self, states: torch.Tensor, mask: torch.Tensor) -> None:
        faiss = import_faiss()
        vectors = states[mask].detach().float().cpu().numpy()
        cells, width = len(vectors) // PER_CELL, vectors.shape[1]
        if cells > PROBED:
            self._index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
            self._index.train(vectors)
            self._index.nprobe = PROBED
        else:
            self._index = faiss.IndexFlatIP(width)
        self._index.add(vectors)

    def search(self, queries: torch.Tensor, wanted: int) -> torch.Tensor:
        """The numbers of the nearest tokens: (..., k). Where the searched cells have fewer, the first repeats."""
        found = self._index.search(queries.detach().flatten(0, -2).float().cpu().numpy(), wanted)[1]
        numbers = torch.from_numpy(found).to(queries.device)
        numbers = torch.where(numbers < 0, numbers[:, :1], numbers)
        return numbers.view(*queries.shape[:-1], wanted)


def import_faiss() -> Any:
    """The library, or one line that says how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise AwesumError(
            "search=faiss needs faiss, which is not installed: `pip install awesum[faiss]`, or say --search exact"
        ) from error
    return faiss


def _rows(visible: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor:
    if visible is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    return visible[:, 0, 0]


def _random_tokens(states: torch.Tensor, visible: torch.Tensor | None, wanted: int) -> torch.Tensor:
    """A uniform sample of each document's tokens, in their order: (D, k)."""
    drawn = torch.rand(states.shape[:2], device=states.device)
    drawn = drawn.masked_fill(~_rows(visible, states), -1.0)  # padding only where there is nothing else
    return drawn.topk(wanted, 1).indices.sort(1).values


def _taken(
    states: torch.Tensor, visible: torch.Tensor | None, chosen: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    taken = states.gather(1, chosen[..., None].expand(-1, -1, states.shape[2]))
    return taken, _rows(visible, states).gather(1, chosen)[:, None, None]


class UnlimiformerBart(LongBart):
    """BART with retrieval. `retrieved` and `search` are in its configuration."""

    attention_class = RetrievalAttention

    def make_encoder(self, config: Any) -> nn.Module:
        """On overlapping windows."""
        for name, usual in (("retrieved", config.max_position_embeddings), ("search", "exact")):
            if not hasattr(config, name):
                setattr(config, name, usual)
        if config.search == "faiss":
            import_faiss()
        return WindowEncoder(config)
