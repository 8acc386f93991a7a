"""A causal model with an adapter, from its equations: one document, NumPy, everything computed anew, nothing fast.

For models that are built like Llama or Qwen. A memory here has as many rows as it holds: no padding, no masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from awesum.models.adapter import AwesomeCausal
from awesum.models.adapter_layers import KINDS
from awesum.recurrence import DocumentInputs
from tests.reference.memory import (
    Array,
    attentive_read,
    attentive_update,
    compressive_update,
    linear,
    nothing,
    salient_update,
    softmax,
    vectors,
)


def weights(model: torch.nn.Module) -> dict[str, Array]:
    """Every weight by its name, with the updates in it."""
    found: dict[str, Array] = {}
    for place, module in model.named_modules(remove_duplicate=False):
        for name in ("weight", "bias", "initial", "queries", "gate"):
            tensor = getattr(module, name, None)
            if isinstance(tensor, torch.Tensor):
                found[f"{place}.{name}"] = tensor.detach().double().numpy()
    return found


class Document:
    """A document, segment by segment, with its memories."""

    def __init__(self, model: AwesomeCausal) -> None:
        self.w = weights(model.base)
        self.config, self.text = model.adapter_config, model.base.config
        layers, wanted = self.text.num_hidden_layers, self.config.memory_layers
        wanted = layers if wanted == "all" else wanted
        last = range(layers - wanted, layers) if isinstance(wanted, int) else wanted
        self.remembering = set(last) if self.config.memory != "none" else set()
        changing = range(layers - self.config.update_layers, layers) if self.config.update != "none" else ()
        self.touched = self.remembering.union(changing)
        self.heads = self.text.num_attention_heads
        self.groups = self.text.num_key_value_heads
        self.memory: dict[tuple[int, str], Any] = {}
        for layer in self.remembering:
            for kind in KINDS:
                self.memory[layer, kind] = self._start(f"model.layers.{layer}.memory.{kind}")

    @property
    def is_attentive(self) -> bool:
        return self.config.memory.startswith("attentive")

    def _start(self, name: str) -> Any:
        if self.is_attentive:
            return self.w[f"{name}.initial"]
        return [] if self.config.memory == "salient" else nothing(self.text.hidden_size)

    def losses(self, document: DocumentInputs, number: int) -> list[float]:
        """The loss of each token of a target; the segment is written to memory."""
        target = document.targets[number]
        prompt = [*document.segments[number], *document.requests[number]]
        logits, states = self.logits(prompt, target[:-1])
        own = slice(document.frame, len(document.segments[number]))
        salience = np.array(document.salience[number][own]) if document.salience else None
        self.remember(states, own, len(prompt), len(target) - 1, salience)
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
        return [-float(row[token]) for row, token in zip(logits, target, strict=True)]

    def logits(self, prompt: Sequence[int], answer: Sequence[int]) -> tuple[Array, dict[int, Array]]:
        """The scores after the prompt and after each token of the answer; and by layer the states that
        may be written to its memories, of all tokens."""
        hidden = self.w["model.embed_tokens.weight"][[*prompt, *answer]]
        border = 0 if self.config.adapted_tokens == "all" else len(prompt) - 1
        states: dict[int, Array] = {}
        for layer in range(self.text.num_hidden_layers):
            hidden = self._layer(layer, hidden, border, states)
        hidden = self._norm("model.norm", hidden[len(prompt) - 1 :])
        return hidden @ self.w["lm_head.weight"].T, states

    def remember(
        self, states: dict[int, Array], own: slice, prompt: int, answered: int, salience: Array | None = None
    ) -> None:
        """Write the own tokens of a segment, and the first `answered` of its answer, to memory."""
        for (layer, kind), memory in self.memory.items():
            new = states[layer][own] if kind == "source" else states[layer][prompt : prompt + answered]
            if not len(new):
                continue
            name = f"model.layers.{layer}.memory.{kind}"
            slots, ratio = self.config.memory_size, self.config.compression_ratio
            if self.is_attentive:
                self.memory[layer, kind] = attentive_update(self.w, name, memory, new, self.heads)
            elif self.config.memory == "salient":
                how = salience if kind == "source" else None
                self.memory[layer, kind] = salient_update(memory, new, how, slots)
            else:
                self.memory[layer, kind] = compressive_update(self.w, name, memory, new, slots, ratio)

    def _layer(self, layer: int, inp: Array, border: int, states: dict[int, Array]) -> Array:
        """All before `border` as the pretrained layer has it, the rest as the adapter has it."""
        place = f"model.layers.{layer}"
        sides = [(f"{place}.prompted", slice(0, border)), (f"{place}.answering", slice(border, len(inp)))]
        if layer not in self.touched:
            sides = [(f"{place}.prompted", slice(0, len(inp)))]
        given = np.concatenate([self._norm(f"{name}.input_layernorm", inp[side]) for name, side in sides])
        q, k, v = (
            np.concatenate([linear(self.w, f"{name}.self_attn.{part}_proj", given[side]) for name, side in sides])
            for part in "qkv"
        )
        q, k, v = self._split(q, self.heads), self._split(k, self.groups), self._split(v, self.groups)
        name = f"{place}.prompted.self_attn"
        if f"{name}.q_norm.weight" in self.w:
            q, k = self._norm(f"{name}.q_norm", q), self._norm(f"{name}.k_norm", k)
        q, k = self._rotated(q), self._rotated(k)
        others = np.concatenate([np.zeros((0, inp.shape[1])), *self._extra(layer)])
        name = f"{place}.answering.self_attn"
        extra = [np.zeros((0, *k.shape[1:]))] * 2
        if len(others):
            extra = [self._split(linear(self.w, f"{name}.{part}_proj", others), self.groups) for part in "kv"]
            if f"{name}.k_norm.weight" in self.w:
                extra[0] = self._norm(f"{name}.k_norm", extra[0])
        found = np.zeros_like(q)
        answers = np.arange(len(inp)) >= border
        visible = np.concatenate(
            [np.repeat(answers[:, None], len(extra[0]), 1), np.tril(np.ones((len(inp), len(inp)), dtype=bool))], 1
        )
        for head in range(self.heads):
            group = head // (self.heads // self.groups)
            keys, values = (
                np.concatenate([more[:, group], own[:, group]]) for more, own in zip(extra, (k, v), strict=True)
            )
            scores = np.where(visible, q[:, head] @ keys.T / np.sqrt(q.shape[2]), -np.inf)
            found[:, head] = softmax(scores) @ values
        found = found.reshape(len(inp), -1)
        made = []
        for name, side in sides:
            hidden = inp[side] + linear(self.w, f"{name}.self_attn.o_proj", found[side])
            normed = self._norm(f"{name}.post_attention_layernorm", hidden)
            if layer in self.remembering:
                new = normed if self.is_attentive else given[side]
                states[layer] = np.concatenate([states[layer], new]) if layer in states else new
            if name.endswith(".answering") and layer in self.remembering and self.is_attentive:
                read = [
                    attentive_read(self.w, f"{place}.memory.{kind}", normed, self.memory[layer, kind], self.heads)
                    for kind in KINDS
                ]
                size = np.sqrt((hidden**2).mean(-1, keepdims=True))
                hidden = hidden + size * (read[0] + read[1])
                normed = self._norm(f"{name}.post_attention_layernorm", hidden)
            gate = linear(self.w, f"{name}.mlp.gate_proj", normed)
            inner = gate / (1 + np.exp(-gate)) * linear(self.w, f"{name}.mlp.up_proj", normed)
            made.append(hidden + linear(self.w, f"{name}.mlp.down_proj", inner))
        return np.concatenate(made)

    def _extra(self, layer: int) -> list[Array]:
        if self.is_attentive or layer not in self.remembering:
            return []
        if self.config.memory == "salient":
            return [vectors(self.memory[layer, kind], self.text.hidden_size) for kind in KINDS]
        return [half for kind in KINDS for half in self.memory[layer, kind]]

    def _norm(self, name: str, x: Array) -> Array:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.text.rms_norm_eps) * self.w[f"{name}.weight"]

    @staticmethod
    def _split(x: Array, heads: int) -> Array:
        return x.reshape(len(x), heads, -1)

    def _rotated(self, x: Array) -> Array:
        """By position, pair by pair."""
        half = x.shape[2] // 2
        angles = np.arange(len(x))[:, None] * self.text.rope_parameters["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        one, other = x[..., :half], x[..., half:]
        return np.concatenate([one * cos - other * sin, other * cos + one * sin], -1)
