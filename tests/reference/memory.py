"""The memories and the model around them, from the paper: one document, one segment at a time, NumPy, nothing fast.

A memory here has as many rows as it holds: no padding, no masks, no batches. `w` is the model's `state_dict` as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erf

import numpy as np

Array = np.ndarray
Weights = Mapping[str, Array]


def softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def norm(w: Weights, name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attend(w: Weights, name: str, queries: Array, others: Array, heads: int, visible: Array | None = None) -> Array:
    """Attn(query, key, value) with keys and values of `others`; head by head."""
    q, k, v = (linear(w, f"{name}.{part}_proj", x) for part, x in (("q", queries), ("k", others), ("v", others)))
    size = q.shape[1] // heads
    found = []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        scores = q[:, own] @ k[:, own].T / np.sqrt(size)
        if visible is not None:
            scores = np.where(visible, scores, -np.inf)
        found.append(softmax(scores) @ v[:, own])
    return linear(w, f"{name}.out_proj", np.concatenate(found, 1))


def of_size_one(x: Array) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-4)


def attentive_update(w: Weights, name: str, memory: Array, hidden: Array, heads: int) -> Array:
    """Equations 9 to 12; with a query for each slot, if there is one, in the variant that keeps slots distinct."""
    if f"{name}.queries" in w:
        s = attend(w, f"{name}.writing", memory + w[f"{name}.queries"], of_size_one(hidden - hidden.mean(0)), heads)
        s = of_size_one(s - s.mean(0))
    else:
        s = attend(w, f"{name}.writing", memory, hidden, heads)
    g = linear(w, f"{name}.g1", memory) + linear(w, f"{name}.g2", s)
    g = sigmoid(4 * (g + w[f"{name}.gate"]) if f"{name}.gate" in w else g)
    u = np.tanh(linear(w, f"{name}.u1", memory) + linear(w, f"{name}.u2", s))
    return g * u + (1 - g) * memory


def attentive_read(w: Weights, name: str, hidden: Array, memory: Array, heads: int) -> Array:
    """The extra cross-attention after the self-attention; its result is added."""
    return attend(w, f"{name}.reading", norm(w, f"{name}.layer_norm", hidden), memory, heads)


def compress(w: Weights, name: str, vectors: Array, ratio: int) -> Array:
    """A convolution with stride and kernel `ratio`, as sums. Groups are counted from the newest vector back."""
    kernel, bias = w[f"{name}.compress.weight"], w[f"{name}.compress.bias"]  # (out, in, place)
    made: list[Array] = []
    end = len(vectors)
    while end > 0:
        total = bias.copy()
        for place in range(ratio):
            at = end - ratio + place
            if at >= 0:
                total = total + kernel[:, :, place] @ vectors[at]
        made.insert(0, total)
        end -= ratio
    return np.array(made).reshape(-1, vectors.shape[1])


def compressive_update(
    w: Weights, name: str, memory: tuple[Array, Array], hidden: Array, slots: int, ratio: int
) -> tuple[Array, Array]:
    """Equations 1 to 6: compressed and uncompressed half, each with at most slots / 2 rows, the newest last."""
    compressed, uncompressed = memory  # (1)
    half = slots // 2
    newest = np.concatenate([uncompressed, hidden])  # (2)
    cut = max(len(newest) - half, 0)
    older = compress(w, name, newest[:cut], ratio)  # (3)
    return np.concatenate([compressed, older])[-half:], newest[cut:]  # (5), (4)


Kept = list[tuple[Array, float]]
"""A salient memory: vectors and how salient they are, the oldest first."""


def salient_update(memory: Kept, hidden: Array, salience: Array | None, slots: int) -> Kept:
    """The new ones are added; while there are too many, the least salient goes, the oldest of several."""
    kept = list(memory)
    for number, vector in enumerate(hidden):
        how = 1.0 if salience is None else float(salience[number])
        if how > 0:
            kept.append((vector, how))
    while len(kept) > slots:
        least = min(how for _, how in kept)
        del kept[next(place for place, (_, how) in enumerate(kept) if how == least)]
    return kept


def vectors(memory: Kept, size: int) -> Array:
    """Those of a salient memory."""
    return np.array([vector for vector, _ in memory]).reshape(-1, size)


def nothing(size: int) -> tuple[Array, Array]:
    """A compressive memory before the first segment."""
    return np.zeros((0, size)), np.zeros((0, size))


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


class Document:
    """BART with memories in some layers, for one document, with its memories."""

    def __init__(
        self,
        w: Weights,
        *,
        kind: str,
        layers: Mapping[str, list[int]],
        heads: Mapping[str, int],
        slots: int,
        ratio: int,
    ) -> None:
        self.w, self.kind, self.layers, self.heads, self.slots, self.ratio = w, kind, layers, heads, slots, ratio
        size = w["model.shared.weight"].shape[1]
        self.memory = {
            f"{side}.layers.{layer}": w[f"model.{side}.layers.{layer}.memory.initial"]
            if kind.startswith("attentive")
            else ([] if kind == "salient" else nothing(size))
            for side in layers
            for layer in layers[side]
        }

    def segment(
        self, tokens: list[int], target: list[int], salient: Array | None = None, salience: Array | None = None
    ) -> tuple[Array, Array]:
        """The encoder's output and the logits; the memories are updated at once, when the segment is done."""
        written: dict[str, Array] = {}
        encoded = self._embed("encoder", tokens)
        for layer in range(self._count("encoder")):
            encoded = self._layer("encoder", layer, encoded, None, salient, written)
        hidden = self._embed("decoder", target)
        for layer in range(self._count("decoder")):
            hidden = self._layer("decoder", layer, hidden, encoded, None, written)
        logits = hidden @ self.w["model.shared.weight"].T + self.w["final_logits_bias"][0]
        for place, states in written.items():
            self.memory[place] = self._updated(place, states, salience if place.startswith("encoder") else None)
        return encoded, logits

    def _count(self, side: str) -> int:
        return len({name.split(".")[3] for name in self.w if name.startswith(f"model.{side}.layers.")})

    def _embed(self, side: str, tokens: list[int]) -> Array:
        positions = self.w[f"model.{side}.embed_positions.weight"][2 : 2 + len(tokens)]
        return norm(self.w, f"model.{side}.layernorm_embedding", self.w["model.shared.weight"][tokens] + positions)

    def _layer(
        self,
        side: str,
        layer: int,
        inp: Array,
        encoded: Array | None,
        salient: Array | None,
        written: dict[str, Array],
    ) -> Array:
        w, heads = self.w, self.heads[side]
        place = f"{side}.layers.{layer}"
        name = f"model.{place}"
        others = np.zeros((0, inp.shape[1]))
        if salient is not None:
            others = np.concatenate([others, linear(w, f"{name}.salient_projection", salient)])
        if place in self.memory and not self.kind.startswith("attentive"):
            held = self.memory[place]
            held = [vectors(held, inp.shape[1])] if self.kind == "salient" else held
            others = np.concatenate([others, *held])
            written[place] = inp
        causal = (
            np.tril(np.ones((len(inp), len(inp)), dtype=bool)) if side == "decoder" else np.ones((len(inp),) * 2, bool)
        )
        visible = np.concatenate([np.ones((len(inp), len(others)), dtype=bool), causal], 1)
        found = attend(w, f"{name}.self_attn", inp, np.concatenate([others, inp]), heads, visible)  # (7), (8)
        hidden = norm(w, f"{name}.self_attn_layer_norm", inp + found)
        if place in self.memory and self.kind.startswith("attentive"):
            written[place] = hidden
            hidden = hidden + attentive_read(w, f"{name}.memory", hidden, self.memory[place], heads)
        if encoded is not None:
            found = attend(w, f"{name}.encoder_attn", hidden, encoded, heads)
            hidden = norm(w, f"{name}.encoder_attn_layer_norm", hidden + found)
        inner = linear(w, f"{name}.fc2", gelu(linear(w, f"{name}.fc1", hidden)))
        return norm(w, f"{name}.final_layer_norm", hidden + inner)

    def _updated(self, place: str, states: Array, salience: Array | None) -> Array | tuple[Array, Array] | Kept:
        name, memory = f"model.{place}.memory", self.memory[place]
        if self.kind == "salient":
            return salient_update(memory, states, salience, self.slots)
        if self.kind.startswith("attentive"):
            return attentive_update(self.w, name, memory, states, self.heads[place.split(".")[0]])
        return compressive_update(self.w, name, memory, states, self.slots, self.ratio)
