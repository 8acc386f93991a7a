"""A causal model's layers with memories, and an update of their weights for the tokens that are adapted.

A layer of the library's own model is wrapped, and receives a `Passage` as a keyword argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from awesum import compat
from awesum.errors import AwesumError
from awesum.memory import MemoryState, Recollection, Source
from awesum.memory.attention import all_joined, split
from awesum.models import memory_settings
from awesum.models.adapter_config import AdapterConfig

UNSUPPORTED = "memory is not for a {}: give a model that is built like Llama, Qwen, Mistral or Gemma"
KINDS = ("source", "summary")
"""The memories of a layer: one is written from the segments' tokens, one from the summary's."""
Recollections = Mapping[int, Mapping[str, Recollection]]
"""The number of a layer -> `source` and `summary` -> what that memory is read as while a segment is answered."""


@dataclass
class Passage:
    """What the layers read and write while a segment or its answer passes through them."""

    adapted: bool = False
    """Whether these tokens pass through the adapter: those that predict the answer (the prompt's last one and the
    answer's own) do, and with `adapted_tokens="all"` all others too."""
    memory: Recollections = field(default_factory=dict)
    """By layer: what its memories add after the self-attention."""
    extra: Mapping[int, Source] = field(default_factory=dict)
    """By layer: extra keys and values for its self-attention, from its memories."""
    trunk: torch.Tensor | None = None
    """Output of the layers below the adapter, (B, N, d). If given, those layers are skipped."""
    only_trunk: bool = False
    """Stop there, with the result in `trunk`."""
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    """By layer: the hidden states that its memories take, (B, N, d)."""
    stops_gradient: bool = True
    """Whether these are detached from the layers that compute them."""


class LowRank(nn.Module):
    """x W + x A B for a frozen W, with a B that starts at zero.

    The update is applied to x, which for a short answer is cheaper than computing W + A B.
    """

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        rank = min(rank, linear.in_features, linear.out_features)
        self.a = nn.Parameter(torch.randn(rank, linear.in_features, dtype=torch.float32) * linear.in_features**-0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=torch.float32))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Multiply with the updated matrix."""
        found: torch.Tensor = self.linear(given)
        update = nn.functional.linear(nn.functional.linear(given.to(self.a.dtype), self.a), self.b)
        return found + update.to(found.dtype)

    @property
    def weight(self) -> torch.Tensor:
        """The matrix with its update."""
        return self.linear.weight + (self.b @ self.a).to(self.linear.weight.dtype)

    @property
    def bias(self) -> torch.Tensor | None:
        """The bias, which does not change."""
        return self.linear.bias


@dataclass(frozen=True)
class Roles:
    """Which layers of a model do what."""

    config: AdapterConfig
    layers: int
    """How many layers there are."""

    @cached_property
    def remembering(self) -> tuple[int, ...]:
        """The numbers of the layers with a memory."""
        if self.config.memory == memory_settings.NO_MEMORY:
            return ()
        return memory_settings.memory_layers(self.config.memory_layers, self.layers)

    @cached_property
    def changing(self) -> tuple[int, ...]:
        """The numbers of the layers that change."""
        if self.config.update == "none":
            return ()
        if self.config.update_layers > self.layers:
            raise AwesumError(
                f"update_layers={self.config.update_layers}: there are {self.layers} layers; give at most as many"
            )
        return tuple(range(self.layers - self.config.update_layers, self.layers))

    @property
    def first(self) -> int:
        """The number of the first layer that does either; those below are the trunk."""
        return min((*self.remembering, *self.changing), default=self.layers - 1)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the adapter's weights are trained for, without those of parts that it does not have."""
        config = self.config
        names = ["memory", "update", "adapted_tokens"]
        names += ["memory_size"] if self.remembering else []
        names += ["compression_ratio"] if config.memory == "compressive" else []
        names += ["update_layers"] if self.changing else []
        names += ["rank"] if config.update == "low-rank" else []
        return {name: getattr(config, name) for name in names} | {"memory_layers": list(self.remembering)}


class RememberingLayer(nn.Module):
    """A decoder layer of the library and, from the adapter's first layer on, its version for adapted tokens.

    The layer runs in parts, because the memory is read between two of them. These parts are the same in Llama, Qwen,
    Mistral and Gemma; Gemma has two more norms.
    """

    prompted: Any  # the library's layer, for a prompt that is not adapted
    answering: Any  # its version for the answer, and for a prompt that is
    memory: Any  # `source` and `summary` -> Memory

    def __init__(self, layer: nn.Module, index: int, roles: Roles) -> None:
        super().__init__()
        self.prompted, self.index = layer, index
        self.is_trunk, self.is_first = index < roles.first, index == roles.first
        self.is_last = index == roles.layers - 1
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
        self.memory = nn.ModuleDict()
        if self.is_trunk:
            return
        parts = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
        if not all(hasattr(layer, name) for name in parts):
            raise AwesumError(UNSUPPORTED.format(type(layer).__name__))
        self.answering = layer
        if index in roles.changing:
            self._update(roles.config)
        if index in roles.remembering:
            text = self.prompted.self_attn.config
            for kind in KINDS:
                self.memory[kind] = roles.config.make_memory(text.hidden_size, text.num_attention_heads)

    def _update(self, config: AdapterConfig) -> None:
        """Make a version whose matrices can be trained."""
        self.answering = compat.copy_of_module(self.prompted)
        for holder in list(self.answering.modules()):
            for name, module in list(holder.named_children()):
                if not isinstance(module, nn.Linear):
                    continue
                if config.update == "full":
                    module.weight.requires_grad_()
                else:
                    setattr(holder, name, LowRank(module, config.rank))

    def __getattr__(self, name: str) -> Any:
        """Attributes of the library's layer, such as the type of its attention."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("prompted"), name)

    def start(self, documents: int, depth: int | None = 1) -> dict[str, MemoryState]:
        """The states of its memories before the first segment. `depth`: see `MemoryState`."""
        return {kind: replace(memory.start(documents), depth=depth) for kind, memory in self.memory.items()}

    def settle(self, states: Mapping[str, MemoryState]) -> dict[str, MemoryState]:
        """The states with their pending hidden states written."""
        return {kind: memory.settle(states[kind]) for kind, memory in self.memory.items()}

    def recall(self, states: Mapping[str, MemoryState]) -> dict[str, Recollection]:
        """What the layer reads while the next segment is answered."""
        attention = _KeysWithoutPosition(self.answering.self_attn)
        return {kind: memory.recall(states[kind], attention) for kind, memory in self.memory.items()}

    def extra(self, recalled: Mapping[str, Recollection]) -> Source | None:
        """Extra keys and values for its self-attention; None if no memory gives any."""
        found = (self.memory[kind].extra(recollection) for kind, recollection in recalled.items())
        source = all_joined([each for each in found if each is not None])
        return source if source is not None and source.keys.shape[2] else None

    def forward(self, hidden_states: torch.Tensor, *args: Any, passage: Passage | None = None, **kwargs: Any) -> Any:
        """The library's layer; with a `passage`, also what that asks for."""
        if passage is None:
            return self.prompted(hidden_states, *args, **kwargs)
        if self.is_trunk:
            return hidden_states if passage.trunk is not None else self.prompted(hidden_states, *args, **kwargs)
        if self.is_first:
            if passage.trunk is None:
                passage.trunk = hidden_states
            hidden_states = passage.trunk
        if passage.only_trunk:
            return hidden_states
        layer = self.answering if passage.adapted else self.prompted
        recalled = passage.memory.get(self.index, {}) if passage.adapted else {}
        given = layer.input_layernorm(hidden_states)
        extra = passage.extra.get(self.index) if passage.adapted else None
        found = layer.self_attn(given, *args, **kwargs, **({} if extra is None else {"extra": extra}))[0]
        is_gemma = hasattr(layer, "pre_feedforward_layernorm")
        if is_gemma:
            found = layer.post_attention_layernorm(found)
        hidden = hidden_states + found
        norm = layer.pre_feedforward_layernorm if is_gemma else layer.post_attention_layernorm
        normed = norm(hidden)
        if self.memory:
            # After the layer's own norm: a few directions of the residual stream dwarf all others.
            written = self.memory[KINDS[0]].to_write(given, normed)
            passage.written[self.index] = written.detach() if passage.stops_gradient else written
        if self.is_last and not passage.adapted:
            return hidden  # the last layer's output for a prompt is not used
        reads = (memory.read(normed, recalled[kind]) for kind, memory in self.memory.items() if kind in recalled)
        read = [each for each in reads if each is not None]
        if read:
            # In units of the residual stream, which is tens of times larger than what a memory holds: a read that
            # starts at zero would otherwise take that much longer to have an effect.
            hidden = hidden + _size(hidden) * sum(read[1:], read[0])
            normed = norm(hidden)
        inner = layer.mlp(normed)
        return hidden + (layer.post_feedforward_layernorm(inner) if is_gemma else inner)


def _size(hidden: torch.Tensor) -> torch.Tensor:
    """The root mean square of each vector."""
    return hidden.detach().float().square().mean(-1, keepdim=True).sqrt().to(hidden.dtype)


class _KeysWithoutPosition:
    """Keys and values of memory slots, which have no position in the segment.

    Without the rotation by position, a key is placed where the segment begins: before everything in the answer.
    """

    def __init__(self, attention: Any) -> None:
        self.attention = attention

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        size = self.attention.head_dim
        keys, values = self.attention.k_proj(states), self.attention.v_proj(states)
        keys, values = (split(tensor, tensor.shape[-1] // size) for tensor in (keys, values))
        norm = getattr(self.attention, "k_norm", None)
        return Source(norm(keys) if norm is not None else keys, values, mask)
