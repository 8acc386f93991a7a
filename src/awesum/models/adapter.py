"""Memory for causal language models: an adapter around some layers of a pretrained model.

A causal model reads a segment and a request (the prompt) and writes an answer after them. The prompt passes through
the pretrained layers unchanged, as through an encoder; the answer passes through the adapter. The adapter has two
memories for each of some layers (of the segments' tokens and of the summary's: the paper's encoder and decoder memory)
and, optionally, an update of the last layers' weights. So everything computed before the answer is the same for every
adapter, every query and every epoch, and can be cached.

The library's own model runs it all: its layers are wrapped, and receive a `Passage` as a keyword argument.
Knows nothing about documents, texts or training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from awesum import compat
from awesum import memory as memories
from awesum.errors import AwesumError
from awesum.memory import Memory, MemoryState, Recollection, Source
from awesum.memory.attention import all_joined, split
from awesum.models import memory_settings
from awesum.models.attention import GROUPED
from awesum.settings import ADAPTER

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

WEIGHTS = "adapter.safetensors"
CHOICES = {
    "salient": ("none", "text", "rewrite"),
    "update": ("none", "low-rank", "full"),
}
OLD_NAMES = {"salient": {"points": "rewrite"}}
"""Values in an older adapter.json, and what they are called now."""
UNSUPPORTED = "memory is not for a {}: give a model that is built like Llama, Qwen, Mistral or Gemma"
KINDS = ("source", "summary")
"""The memories of a layer: one is written from the segments' tokens, one from the summary's."""


@dataclass(frozen=True)
class AdapterConfig:
    """The settings of an adapter, saved with it as adapter.json."""

    base: str = ""
    """The pretrained model that it belongs to: `smollm2`, a folder, or a name on the hub."""
    base_sha256: str = ""
    """Hash of that model's weights: with others the adapter would be silently wrong. Empty for the shipped adapter,
    whose model is checked separately."""
    memory: str = "attentive"
    """`none` (Se3), or a kind of memory: `attentive`, `attentive-literal`, `compressive`, `salient`."""
    memory_format: int = memory_settings.MEMORY_FORMAT
    """Of the saved settings: older ones call `attentive` what is now `attentive-literal`."""
    memory_layers: int | str | Sequence[int] = 3
    """How many of the last layers have a memory; `all`; or their numbers."""
    memory_size: int = 256
    """Slots of a memory."""
    compression_ratio: int = 5
    """Hidden states that a compressive memory compresses into one."""
    salient: str = "none"
    """The salient sentences in a segment's request: `none`, those of other segments as `text`, or the segment's own, to
    `rewrite`."""
    salient_size: int = 256
    """Tokens of salient text."""
    update: str = "low-rank"
    """How the layers change for the answer: `none`, `low-rank` updates of their matrices, or `full`."""
    update_layers: int = 3
    """How many of the last layers change."""
    rank: int = 64
    """Of a low-rank update."""
    ending: float = 0.5
    """An answer ends once the probability of its end reaches this. The likeliest token is a poor guide: the end is one
    token and its alternatives are many, so a model that always takes the likeliest ends too early."""
    system: str = "adapter"
    """The system that was trained."""

    def __post_init__(self) -> None:
        memory_settings.check_choices(
            self, {"memory": memory_settings.memory_choices(), **CHOICES}, " for a causal model"
        )
        if isinstance(self.memory_layers, list):  # from JSON
            object.__setattr__(self, "memory_layers", tuple(self.memory_layers))
        layers = self.memory_layers if isinstance(self.memory_layers, tuple) else (self.memory_layers,)
        if self.memory_layers != "all" and not all(type(layer) is int for layer in layers):
            raise AwesumError(
                f"memory_layers={self.memory_layers!r}: give a number of last layers, 'all', or a list of layers"
            )
        for name in ("memory_size", "compression_ratio", "salient_size", "update_layers", "rank"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise AwesumError(f"{name} must be a whole number, 1 or more, not {value!r}, for a causal model")
        if not 0 < self.ending <= 1:
            raise AwesumError(f"ending={self.ending!r} is a probability: give a number above 0, and at most 1")
        memory_settings.check_memory(self.memory, self.memory_size, self.compression_ratio)

    def make_memory(self, size: int, heads: int) -> Memory:
        """A new memory for a layer of this hidden size, with `heads` attention heads."""
        memory_settings.check_memory(self.memory, self.memory_size, self.compression_ratio, heads)
        return memories.make(self.memory, size=size, heads=heads, slots=self.memory_size, ratio=self.compression_ratio)


States = Mapping[int, Mapping[str, MemoryState]]
"""The number of a layer -> `source` and `summary` -> the state of that memory."""
Recollections = Mapping[int, Mapping[str, Recollection]]
"""The same for what they are read as while a segment is answered."""


@dataclass
class Passage:
    """What the layers read and write while a segment or its answer passes through them."""

    answering: bool = False
    """Whether these tokens predict the answer: those of the answer, and the last of the prompt."""
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
            raise AwesumError(f"update_layers={self.config.update_layers}: there are {self.layers} layers")
        return tuple(range(self.layers - self.config.update_layers, self.layers))

    @property
    def first(self) -> int:
        """The number of the first layer that does either; those below are the trunk."""
        return min((*self.remembering, *self.changing), default=self.layers - 1)


class RememberingLayer(nn.Module):
    """A decoder layer of the library and, from the adapter's first layer on, its version for the answer.

    The layer runs in parts, because the memory is read between two of them. These parts are the same in Llama, Qwen,
    Mistral and Gemma; Gemma has two more norms.
    """

    prompted: Any  # the library's layer, for the prompt
    answering: Any  # its version for the answer
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
        """Make a version for the answer whose matrices can be trained."""
        self.answering = deepcopy(self.prompted)
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
        layer = self.answering if passage.answering else self.prompted
        recalled = passage.memory.get(self.index, {}) if passage.answering else {}
        given = layer.input_layernorm(hidden_states)
        extra = passage.extra.get(self.index) if passage.answering else None
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
        if self.is_last and not passage.answering:
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


class AwesomeCausal(nn.Module):
    """A pretrained causal model with an adapter around some of its layers.

    Memory goes in and comes out as a value: the model itself keeps no state.
    """

    def __init__(self, base: PreTrainedModel, config: AdapterConfig) -> None:
        super().__init__()
        self.base, self.adapter_config = base, config  # not `config`: the library's Trainer would write into that
        layers = getattr(base.get_decoder(), "layers", None)
        if layers is None:
            raise AwesumError(UNSUPPORTED.format(type(base).__name__))
        self.roles = Roles(config, len(layers))
        if not compat.takes_attention_backend(base):
            raise AwesumError(UNSUPPORTED.format(type(base).__name__))
        base.set_attn_implementation(GROUPED)
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        for index, layer in enumerate(layers):
            layers[index] = RememberingLayer(layer, index, self.roles)
        self.to(device=base.device)
        self._check()

    @torch.no_grad()
    def _check(self) -> None:
        """Refuse layers that compute something else when run in parts: some add the same parts differently."""
        ids = torch.tensor([[0, 1]], device=self.device)
        whole, parts = (
            self.base.get_decoder()(input_ids=ids, use_cache=False, **options).last_hidden_state
            for options in ({}, {"passage": Passage(answering=True)})
        )
        if not torch.allclose(whole, parts, rtol=1e-2, atol=1e-2):
            raise AwesumError(UNSUPPORTED.format(type(self.base).__name__))

    @property
    def first(self) -> int:
        """The number of the first layer above the trunk."""
        return self.roles.first

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        ends = ends_of(self.base)
        if not ends:
            raise AwesumError(f"{self.adapter_config.base} does not say which token ends an answer: give a chat model")
        return ends[0]

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        return self.base.device

    def _remembering(self) -> Iterator[tuple[int, RememberingLayer]]:
        layers = self.base.get_decoder().layers
        return ((index, layers[index]) for index in self.roles.remembering)

    def start(self, documents: int, depth: int | None = 1) -> dict[int, dict[str, MemoryState]]:
        """The memories before the first segment. `depth`: how many updates a loss goes back; None: all."""
        return {index: layer.start(documents, depth) for index, layer in self._remembering()}

    def recall(self, states: States) -> dict[int, dict[str, Recollection]]:
        """Settle the states and compute what is read while the next segment is answered."""
        return {index: layer.recall(states[index]) for index, layer in self._remembering()}

    def settle(self, states: States) -> dict[int, dict[str, MemoryState]]:
        """The states with their pending hidden states written, for a segment that is not answered."""
        return {index: layer.settle(states[index]) for index, layer in self._remembering()}

    def with_memory(self, recalled: Recollections, trunk: torch.Tensor | None = None) -> Passage:
        """The passage of an answer that reads what was recalled."""
        layers = self.base.get_decoder().layers
        extra = {index: layers[index].extra(of) for index, of in recalled.items()}
        return Passage(
            answering=True,
            memory={index: of for index, of in recalled.items() if self.can_read(index)},
            extra={index: source for index, source in extra.items() if source is not None},
            trunk=trunk,
            stops_gradient=all(each.stops_gradient for of in recalled.values() for each in of.values()),
        )

    def can_read(self, index: int) -> bool:
        """Whether the memories of a layer add anything after its self-attention."""
        return any(memory.can_read for memory in self.base.get_decoder().layers[index].memory.values())

    def trunk(self, input_ids: torch.Tensor, past_key_values: Cache | None = None) -> torch.Tensor:
        """The output of the layers below the adapter for some tokens, (1, N) -> (1, N, d)."""
        passage = Passage(only_trunk=True)
        self.base.get_decoder()(
            input_ids=input_ids, past_key_values=past_key_values, use_cache=past_key_values is not None, passage=passage
        )
        assert passage.trunk is not None
        return passage.trunk

    def run_top_layers(self, passage: Passage, **options: Any) -> torch.Tensor:
        """The last hidden states of a `passage` whose trunk is known."""
        return self.base.get_decoder()(inputs_embeds=passage.trunk, passage=passage, **options).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The scores of each next token, from last hidden states."""
        scores = self.base.get_output_embeddings()(hidden)
        cap = getattr(self.base.config.get_text_config(), "final_logit_softcapping", None)
        return torch.tanh(scores / cap) * cap if cap else scores

    @property
    def plain_head(self) -> torch.Tensor | None:
        """The matrix of `logits`, if a product with it is all that `logits` computes."""
        head = self.base.get_output_embeddings()
        cap = getattr(self.base.config.get_text_config(), "final_logit_softcapping", None)
        return None if cap or getattr(head, "bias", None) is not None else head.weight

    def fingerprint(self) -> str:
        """Hash of all that the pretrained model's output depends on, except the number format, which varies."""
        known = compat.architecture_of(self.base.config.get_text_config())
        digest = sha256(json.dumps(known, sort_keys=True, default=str).encode())
        decoder = self.base.get_decoder()
        for name, parameter in decoder.named_parameters():
            if ".answering." in name or ".memory." in name:
                continue
            digest.update(name.replace(".prompted.", ".").encode())
            rounded = parameter.detach().to("cpu", torch.bfloat16).contiguous()
            digest.update(rounded.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def bytes_of_memory(self) -> int:
        """The most that the memories of one document take while it is answered."""
        text = self.base.config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        width = 2 * heads * (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
        numbers = sum(memory.numbers(width) for _, layer in self._remembering() for memory in layer.memory.values())
        return int(numbers * self.base.dtype.itemsize)

    def new_weights(self) -> dict[str, torch.Tensor]:
        """The weights of the adapter, by name."""
        found: dict[str, torch.Tensor] = {}
        layers = self.base.get_decoder().layers
        for index in range(self.first, len(layers)):
            for name, tensor in layers[index].state_dict(keep_vars=True).items():
                is_update = name.startswith("answering.") and isinstance(tensor, nn.Parameter) and tensor.requires_grad
                if name.startswith("memory.") or is_update:
                    found[f"{index}.{name}"] = tensor
        return found

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Save the adapter alone: its settings and weights, not those of the pretrained model."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            name: tensor.detach().to("cpu", dtype).contiguous()
            for name, tensor in self.new_weights().items()
            if not _is_fixed(name)
        }
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})
        config = replace(self.adapter_config, base_sha256=self.fingerprint())
        (folder / ADAPTER).write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")

    def load_adapter(self, folder: str | Path) -> None:
        """Load the weights that were saved in `folder`."""
        path = Path(folder) / WEIGHTS
        saved_config = read_config(folder)
        was, now = saved_config.memory, self.adapter_config.memory
        if was != now:
            raise AwesumError(
                f"{folder} was trained with memory={was!r}, not {now!r}: load it as it is (memory={was!r}), or train "
                "another from the pretrained model"
            )
        trained_for = saved_config.base_sha256
        if trained_for and trained_for != self.fingerprint():
            raise AwesumError(
                f"{folder} was trained for other weights than those of {self.adapter_config.base}: give the model that "
                f"it was trained for, as `base` in its {ADAPTER}, or train it again"
            )
        try:
            saved = load_file(path)
        except (OSError, SafetensorError) as error:
            raise AwesumError(f"cannot read the adapter {path} ({error}): copy or train it again") from error
        wanted = {name: tensor for name, tensor in self.new_weights().items() if not _is_fixed(name)}
        if missing := sorted(wanted.keys() ^ saved.keys()):
            raise AwesumError(f"{path} does not fit its {ADAPTER} ({missing[0]}): copy or train it again")
        with torch.no_grad():
            for name, tensor in saved.items():
                if tensor.shape != wanted[name].shape:
                    raise AwesumError(f"{path} does not fit its {ADAPTER} ({name}): copy or train it again")
            for name, tensor in saved.items():
                wanted[name].copy_(tensor)

    def merge(self) -> None:
        """Make low-rank updates part of the weights: faster, but no longer trainable."""
        for holder in list(self.modules()):
            for name, module in list(holder.named_children()):
                if isinstance(module, LowRank):
                    with torch.no_grad():
                        module.linear.weight.copy_(module.weight)
                    setattr(holder, name, module.linear)


def after(
    recalled: Recollections | States,
    read: Mapping[int, torch.Tensor],
    segment: slice | torch.Tensor,
    written: Mapping[int, torch.Tensor],
    answered: int | torch.Tensor,
    salience: torch.Tensor | None = None,
) -> dict[int, dict[str, MemoryState]]:
    """The states after a segment that was answered, or (given settled states) one that was not.

    `read` are the hidden states of the prompt, of which `segment` are the segment's own: a slice for all rows, or
    (B, P). `written` are those that predict the answer, the first `answered` of them, or (B, A): they start with the
    prompt's last token, and there are none if nothing was asked. `salience` says how salient the sentence of each of
    the segment's tokens is: (B, segment), or (B, P).
    """
    states: dict[int, dict[str, MemoryState]] = {}
    for layer, of in recalled.items():
        source = read[layer]
        summary = written[layer][:, 1:] if layer in written else source[:, :0]
        if isinstance(segment, slice):
            source = source[:, segment]
        if isinstance(answered, int):
            summary = summary[:, : max(answered - 1, 0)]
        source_mask = segment if isinstance(segment, torch.Tensor) else _all_of(source)
        summary_mask = answered[:, 1:] if isinstance(answered, torch.Tensor) else _all_of(summary)
        states[layer] = {
            "source": of["source"].then(source, source_mask, salience),
            "summary": of["summary"].then(summary, summary_mask),
        }
    return states


def salience_row(salience: Sequence[float] | None, device: torch.device) -> torch.Tensor | None:
    """How salient the tokens of one segment are, as `after` takes it: (1, N)."""
    return None if salience is None else torch.tensor([[*salience]], device=device)


def _all_of(states: torch.Tensor) -> torch.Tensor:
    return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)


def _is_fixed(name: str) -> bool:
    """Whether a tensor is the same random numbers each time, and need not be saved."""
    return name.endswith((".initial", ".queries"))


def ends_of(model: PreTrainedModel) -> list[int]:
    """The tokens that end a text, according to the model's own configuration."""
    ends = model.generation_config.eos_token_id
    ends = model.config.get_text_config().eos_token_id if ends is None else ends
    return [int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None]


def read_config(folder: str | Path) -> AdapterConfig:
    """The settings of a saved adapter."""
    path = Path(folder) / ADAPTER
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(saved, dict):
            raise TypeError("settings are missing")
        renamed = {name: new.get(saved[name], saved[name]) for name, new in OLD_NAMES.items() if name in saved}
        return AdapterConfig(**{**memory_settings.current(saved), **renamed})
    except (OSError, ValueError, TypeError) as error:
        raise AwesumError(f"cannot read {path} ({error}): copy or train the adapter again") from error


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter."""
    return (Path(folder) / ADAPTER).is_file()
