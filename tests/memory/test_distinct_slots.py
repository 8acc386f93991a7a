"""What an attentive memory holds 64 segments on: as many different things as it has slots, and other things for another
document. With fresh weights and with trained ones, on random states, on states that share a mean, and on real ones.

The literal variant shows that each of these tests can fail.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from awesum.memory import AttentiveMemory, LiteralMemory
from awesum.memory.attentive import normalized, standardized

SEGMENTS, HEADS, SLOTS, SIZE = 64, 4, 32, 64
SAMPLE = Path(__file__).parents[2] / "samples" / "commercial-crew.txt"
STATES = ["random", "anisotropic", "steep", "real"]
KINDS = {"attentive": AttentiveMemory, "attentive-literal": LiteralMemory}


def effective_rank(memory: torch.Tensor) -> float:
    """The exponential of the entropy of the singular values: m for m orthogonal slots of the same size, 1 for equal
    ones."""
    shares = torch.linalg.svdvals(memory.double())
    shares = shares / shares.sum()
    return float(torch.exp(-(shares * shares.clamp_min(1e-12).log()).sum()))


def documents(states: str) -> torch.Tensor:
    """Two documents of some segments: (2, segments, tokens, size)."""
    if states == "real":
        return real()
    chance = torch.Generator().manual_seed(3)
    found = torch.randn(2, SEGMENTS, 96, SIZE, generator=chance)
    if states == "anisotropic":  # as hidden states are: a large mean in common, and a few directions far larger
        found = found + 2 * torch.randn(SIZE, generator=chance)
        found[..., :2] *= 10
    if states == "steep":  # a spectrum that falls steeply, beside the mean in common
        spectrum = torch.arange(1, SIZE + 1).float() ** -0.7
        found = found * spectrum / spectrum.square().mean().sqrt() + 2 * torch.randn(SIZE, generator=chance)
    return found


@cache
def real() -> torch.Tensor:
    """Hidden states of the embedded sentence encoder for the two halves of the sample, normalized as BART's are."""
    from awesum.analysis.embedding import SentenceEncoder
    from awesum.weights import minilm_folder

    encoder = SentenceEncoder.load(minilm_folder())
    tokens = encoder.tokenizer(SAMPLE.read_text(encoding="utf-8"), add_special_tokens=False, verbose=False)["input_ids"]
    length, count = 96, 12
    halves = [tokens[: length * count], tokens[-length * count :]]
    with torch.no_grad():
        ids = torch.tensor(halves).view(2 * count, length)
        found = encoder.model(ids, output_hidden_states=True).hidden_states[-2].float()
    return found.view(2, count, length, -1)


def trained(memory: AttentiveMemory, states: torch.Tensor, steps: int = 120) -> None:
    """Train it to tell, from what a token was like, what the next one was like, one or two segments later."""
    torch.manual_seed(5)
    optimizer = torch.optim.Adam(memory.parameters(), lr=2e-3)
    chance = torch.Generator().manual_seed(6)
    mask = torch.ones(2, states.shape[2], dtype=torch.bool)
    wanted = states - states.mean((0, 1, 2))  # what tokens have in common need not be remembered
    wanted = wanted / wanted.std()
    for _ in range(steps):
        first = int(torch.randint(states.shape[1] - 2, (), generator=chance))
        asked = torch.randint(states.shape[2] - 1, (8,), generator=chance)
        state = memory.start(2)
        for segment in (first, first + 1):
            state = memory.recall(state).then(states[:, segment], mask)
            read = memory.read(states[:, first, asked], memory.recall(state))
            loss = (read - wanted[:, first, asked + 1]).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def followed(memory: AttentiveMemory, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[float]]:
    """Through 64 segments, from the start again if there are fewer: the memories after four and in the end, and the
    norm after each, in units of the first."""
    mask = torch.ones(2, states.shape[2], dtype=torch.bool)
    state = memory.start(2)
    early = state.memory
    norms = []
    for number in range(SEGMENTS):
        state = memory.settle(memory.recall(state).then(states[:, number % states.shape[1]], mask))
        early = state.memory if number == 3 else early
        norms.append(float(state.memory.norm() / memory.initial.expand(2, -1, -1).norm()))
    return early, state.memory, norms


@pytest.mark.parametrize("is_trained", [False, True], ids=["fresh", "trained"])
@pytest.mark.parametrize("states", STATES)
def test_slots_stay_distinct_for_64_segments(states: str, is_trained: bool) -> None:
    given = documents(states)
    found = {}
    for kind in ["attentive"] if is_trained else KINDS:
        torch.manual_seed(0)
        memory = KINDS[kind](given.shape[3], HEADS, SLOTS)
        if is_trained:
            before = {name: weight.detach().clone() for name, weight in memory.named_parameters()}
            trained(memory, given)
            assert all(not torch.equal(weight, before[name]) for name, weight in memory.named_parameters())
        early, late, norms = followed(memory, given)
        difference = float((early[0] - early[1]).norm() / early[0].norm())
        found[kind] = (min(map(effective_rank, late)), difference, min(norms), max(norms))
    rank, difference, least, most = found["attentive"]
    assert rank >= SLOTS / 4, found
    assert difference >= 0.5, found
    assert least >= 0.5, found
    assert most <= 2, found
    if not is_trained:
        assert found["attentive-literal"][0] < 2, found
        assert found["attentive-literal"][1] < 0.25, found


class WithoutQueries(AttentiveMemory):
    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        s = self.writing(memory, self.writing.source(standardized(hidden, mask), mask))
        return normalized(s - s.mean(1, keepdim=True))


class WithoutCentring(AttentiveMemory):
    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return normalized(self.writing(memory + self.queries, self.writing.source(standardized(hidden, mask), mask)))


class WithoutSize(AttentiveMemory):
    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        s = self.writing(memory + self.queries, self.writing.source(standardized(hidden, mask), mask))
        return s - s.mean(1, keepdim=True)


class WithTheMeanOfTheSegment(AttentiveMemory):
    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        s = self.writing(memory + self.queries, self.writing.source(normalized(hidden), mask))
        return normalized(s - s.mean(1, keepdim=True))


@pytest.mark.parametrize("lesser", [WithoutQueries, WithoutSize, WithTheMeanOfTheSegment])
def test_each_part_is_needed(lesser: type[AttentiveMemory]) -> None:
    """Without it, fewer slots are distinct, documents differ less, or the memory fades."""
    given = documents("anisotropic")
    measures = []
    for kind in (AttentiveMemory, lesser):
        torch.manual_seed(0)
        early, late, norms = followed(kind(SIZE, HEADS, SLOTS), given)
        difference = float((early[0] - early[1]).norm() / early[0].norm())
        measures.append((effective_rank(late[0]), difference, min(norms)))
    assert any(less < 0.9 * more for more, less in zip(*measures, strict=True)), measures


def test_slots_that_look_for_the_same_write_what_they_find_beside_it() -> None:
    """As they do when training has found one thing worth looking for."""
    given = documents("random")
    ranks = []
    for kind in (AttentiveMemory, WithoutCentring):
        torch.manual_seed(0)
        memory = kind(SIZE, HEADS, SLOTS)
        memory.queries += 8 * torch.randn(SIZE)
        ranks.append(effective_rank(followed(memory, given)[1][0]))
    assert ranks[0] >= SLOTS / 4
    assert ranks[0] >= 1.5 * ranks[1], ranks
