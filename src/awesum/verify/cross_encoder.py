"""The learned part of verification: a small encoder that reads a source and a statement together.

It is the embedded sentence encoder with other weights in its layers. Every token of the statement gets a score for how
wrong it looks beside the source, and the statement one for how well the source supports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LONGEST = 384
"""Tokens of a source and a statement together. Longer ones are read piece by piece: the best piece of a source and the
worst of a statement count."""
BATCH_TOKENS = 2048
"""Tokens per pass, padding included."""


class Pairs(NamedTuple):
    """Sources and statements as tokens."""

    ids: torch.Tensor  # (B, N)
    types: torch.Tensor  # (B, N), 1 for the statement
    mask: torch.Tensor  # (B, N)


class Head(nn.Module):
    """Scores from the encoder's states."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.token = nn.Linear(size, 1)
        self.statement = nn.Linear(3 * size, 1)
        self.share = nn.Parameter(torch.ones(()))

    def forward(self, states: torch.Tensor, pairs: Pairs) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of support (B,), and of an error at each token (B, N)."""
        inside = (pairs.types == 1) & (pairs.mask == 1)  # (B, N)
        errors = self.token(states)[..., 0]  # (B, N)
        weights = inside[..., None].to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        largest = states.masked_fill(~inside[..., None], -1e4).amax(1)
        support = self.statement(torch.cat([states[:, 0], mean, largest], -1))[..., 0]
        # The worst token counts most: one wrong figure makes a statement wrong.
        worst = torch.logsumexp(errors.masked_fill(~inside, -1e4), 1)
        return support - self.share * worst, errors


class CrossEncoder(nn.Module):
    """An encoder such as BERT or MiniLM, and a head."""

    def __init__(self, encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        self.encoder, self.tokenizer = encoder, tokenizer
        self.head = Head(encoder.config.hidden_size)

    def forward(self, pairs: Pairs) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Head.forward`."""
        states = self.encoder(
            input_ids=pairs.ids, token_type_ids=pairs.types, attention_mask=pairs.mask
        ).last_hidden_state
        return self.head(states, pairs)

    def tokens(self, source: str, statement: str) -> Iterator[tuple[int, tuple[list[int], int]]]:
        """The tokens of a pair, and where the statement begins; in pieces, if they do not fit together.

        Each comes with the number of the statement's piece, which is paired with every piece of the source.
        """
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        read, said = self.tokenizer(
            [source, statement], add_special_tokens=False, return_attention_mask=False, verbose=False
        )["input_ids"]
        longest = LONGEST // 2
        for at in range(0, max(len(said), 1), longest):
            piece = said[at : at + longest]
            room = LONGEST - 3 - len(piece)
            for start in range(0, max(len(read), 1), room):
                beside = [first, *read[start : start + room], last]
                yield at, ([*beside, *piece, last], len(beside))

    def pairs(self, rows: Sequence[tuple[list[int], int]]) -> Pairs:
        """Some pairs as one batch."""
        longest = max(len(ids) for ids, _ in rows)
        ids = torch.full((len(rows), longest), self.tokenizer.pad_token_id)
        types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (tokens, begin) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            types[row, begin : len(tokens)] = 1
            mask[row, : len(tokens)] = 1
        return Pairs(ids, types, mask)

    @torch.inference_mode()
    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The log-odds that each source supports its statement.

        Of a source in several pieces the best counts, of a statement the worst.
        """
        pieces = [(number, part, row) for number, pair in enumerate(pairs) for part, row in self.tokens(*pair)]
        pieces.sort(key=lambda piece: len(piece[2][0]))
        found: dict[tuple[int, int], float] = {}
        for batch in _batches(pieces):
            scores, _ = self(self.pairs([row for *_, row in batch]))
            for (number, part, _), score in zip(batch, scores.tolist(), strict=True):
                found[number, part] = max(score, found.get((number, part), score))
        return [min(score for (of, _), score in found.items() if of == number) for number in range(len(pairs))]

    @torch.no_grad()
    def changes(self, pretrained: Mapping[str, torch.Tensor], rank: int) -> dict[str, torch.Tensor]:
        """What training changed of the encoder, in half precision: matrices as products of this rank, and the head."""
        found = {f"head.{name}": weight for name, weight in self.head.state_dict().items()}
        for name, weight in self.encoder.state_dict().items():
            change = weight - pretrained[name] if name in pretrained else None
            if change is None or not change.is_floating_point() or not change.any():
                continue
            if change.dim() == 2:
                left, values, right = torch.linalg.svd(change, full_matrices=False)
                root = values[:rank].sqrt()
                found[f"{name}.left"], found[f"{name}.right"] = left[:, :rank] * root, root[:, None] * right[:rank]
            else:
                found[name] = change
        return {name: weight.half().contiguous() for name, weight in found.items()}

    @torch.no_grad()
    def load_changes(self, changes: Mapping[str, torch.Tensor]) -> None:
        """Add to the pretrained encoder what training has changed."""
        self.head.load_state_dict(
            {name.removeprefix("head."): weight for name, weight in changes.items() if name.startswith("head.")}
        )
        weights = self.encoder.state_dict()
        for name, change in changes.items():
            if name.startswith("head.") or name.endswith(".right"):
                continue
            if name.endswith(".left"):
                name = name.removesuffix(".left")
                change = change @ changes[f"{name}.right"]
            weights[name] += change


class TrainedScorer:
    """A cross-encoder as the verifier's model."""

    english_only = True

    def __init__(self, model: CrossEncoder, name: str) -> None:
        self.model, self.name = model.eval(), name

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See `CrossEncoder.logits`."""
        return self.model.logits(pairs)

    def bytes(self) -> int:
        """The RAM that the weights take."""
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())


Piece = tuple[int, int, tuple[list[int], int]]


def _batches(pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Split pieces, sorted by length, into batches of at most `BATCH_TOKENS`, padding included."""
    first = 0
    for index, (*_, (ids, _)) in enumerate(pieces):
        if (index + 1 - first) * len(ids) > BATCH_TOKENS and index > first:
            yield pieces[first:index]
            first = index
    if pieces:
        yield pieces[first:]
