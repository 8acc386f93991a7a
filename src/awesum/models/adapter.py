"""Memory for causal language models: an adapter around some layers of a pretrained model.

A causal model reads a segment and a request (the prompt) and writes an answer behind them. The prompt passes through
the pretrained layers as they are, as through an encoder; what answers passes through the adapter, which holds for some
layers two memories each (of the segments' tokens and of the summary's, the paper's encoder and decoder memory) and, if
wanted, an update of the last layers' weights. So everything that is known of a segment before its answer is the
same for every adapter, every query and every epoch, and can be kept.

The library's own model runs it all: its layers are wrapped, and a `Passage` comes down to them as a keyword argument.
Knows nothing of documents, texts or training.
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

from awesum.errors import AwesumError
from awesum.memory import AttentiveMemory, CompressiveMemory, MemoryState, Recollection, Source
from awesum.memory.attention import all_joined, split
from awesum.models.attention import GROUPED
from awesum.models.bart import check_choices, memory_layers
from awesum.settings import ADAPTER

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

WEIGHTS = "adapter.safetensors"
CHOICES = {
    "memory": ("none", "attentive", "compressive"),
    "salient": ("none", "text", "points"),
    "update": ("none", "low-rank", "full"),
}
NOT_FOR = "memory is not for a {}: give a model that is built like Llama, Qwen, Mistral or Gemma"
KINDS = ("source", "summary")
"""The memories of a layer: written from the segments' tokens, and from the summary's."""


@dataclass(frozen=True)
class AdapterConfig:
    """What an adapter is made of."""

    base: str = ""
    """The pretrained model that it belongs to: `smollm2`, a folder, or a name on the hub."""
    base_sha256: str = ""
    """Of that model's weights: with others, the adapter would be wrong in silence. Empty for the shipped one, whose
    model is checked by itself."""
    memory: str = "attentive"
    """`none` (Se3), `attentive` or `compressive`."""
    memory_layers: int | str | Sequence[int] = 3
    """How many of the last layers have a memory; `all`; or their numbers."""
    memory_size: int = 256
    """Slots of a memory."""
    compression_ratio: int = 5
    """How many hidden states a compressive memory makes one of."""
    salient: str = "none"
    """What a segment is told of: nothing, the salient sentences of other segments as `text`, or its own as `points`
    that its part is to make."""
    salient_size: int = 256
    """Tokens of salient text."""
    update: str = "low-rank"
    """How the layers change where they answer: `none`, `low-rank` updates of their matrices, or `full`."""
    update_layers: int = 3
    """How many of the last layers change."""
    rank: int = 64
    """Of a low-rank update."""
    ending: float = 0.5
    """The probability from which on an answer ends. The likeliest token is no guide here: the end is one token, and
    what could be said instead begins with many, so that a model that follows it falls silent too often."""

    def __post_init__(self) -> None:
        check_choices(self, CHOICES, " for a causal model")
        if isinstance(self.memory_layers, list):  # as JSON has it
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
        if self.memory == "compressive" and self.memory_size % 2:
            raise AwesumError(f"a compressive memory has two halves: memory_size={self.memory_size} is odd")


States = Mapping[int, Mapping[str, MemoryState]]
"""A layer's number, and the states of its memories by their kind."""
Recollections = Mapping[int, Mapping[str, Recollection]]
"""What they are read as while a segment is answered."""


@dataclass
class Passage:
    """What the layers are given, and what they leave behind, while a segment or its answer goes through them."""

    answering: bool = False
    """Whether these tokens write the answer, the last of the prompt included."""
    memory: Recollections = field(default_factory=dict)
    """What the attentive memories are read as."""
    further: Mapping[int, Source] = field(default_factory=dict)
    """By layer: the keys and values of its compressive memories."""
    trunk: torch.Tensor | None = None
    """What the layers below the first of the adapter give, (B, N, d): given, they are passed over."""
    only_trunk: bool = False
    """End there; `trunk` is then what was wanted."""
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    """By layer: the hidden states that may be written to its memories, (B, N, d)."""


class LowRank(nn.Module):
    """x W + x A B for a frozen W, with a B that begins as zero.

    The update is applied to what passes through, which is cheaper than to make W + A B of it: the answer is short.
    """

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        rank = min(rank, linear.in_features, linear.out_features)
        self.a = nn.Parameter(torch.randn(rank, linear.in_features, dtype=torch.float32) * linear.in_features**-0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=torch.float32))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """What the updated matrix makes of vectors."""
        found: torch.Tensor = self.linear(given)
        update = nn.functional.linear(nn.functional.linear(given.to(self.a.dtype), self.a), self.b)
        return found + update.to(found.dtype)

    @property
    def weight(self) -> torch.Tensor:
        """The matrix with its update."""
        return self.linear.weight + (self.b @ self.a).to(self.linear.weight.dtype)

    @property
    def bias(self) -> torch.Tensor | None:
        """That of the matrix, which does not change."""
        return self.linear.bias


@dataclass(frozen=True)
class Roles:
    """Which of a model's layers do what."""

    config: AdapterConfig
    layers: int
    """How many there are."""

    @cached_property
    def remembering(self) -> tuple[int, ...]:
        """The numbers of those that have a memory."""
        return memory_layers(self.config.memory_layers, self.layers) if self.config.memory != "none" else ()

    @cached_property
    def changing(self) -> tuple[int, ...]:
        """The numbers of those that change."""
        if self.config.update == "none":
            return ()
        if self.config.update_layers > self.layers:
            raise AwesumError(f"update_layers={self.config.update_layers}: there are {self.layers} layers")
        return tuple(range(self.layers - self.config.update_layers, self.layers))

    @property
    def first(self) -> int:
        """The number of the first that does either: what is below is the trunk."""
        return min((*self.remembering, *self.changing), default=self.layers - 1)


class RememberingLayer(nn.Module):
    """A decoder layer of the library, and from the adapter's first layer on what it is where it answers.

    The layer is run in its parts, because the memory is read between two of them. These parts are the same in Llama,
    Qwen, Mistral and Gemma; Gemma has two norms more.
    """

    prompted: Any  # the library's layer
    answering: Any  # as it is where it answers
    memory: Any  # by kind

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
            raise AwesumError(NOT_FOR.format(type(layer).__name__))
        self.answering = layer
        if index in roles.changing:
            self._update(roles.config)
        if index in roles.remembering:
            self.memory.update({kind: self._memory(layer, roles.config) for kind in KINDS})

    @staticmethod
    def _memory(layer: Any, config: AdapterConfig) -> AttentiveMemory | CompressiveMemory:
        text = layer.self_attn.config
        if config.memory == "compressive":
            return CompressiveMemory(text.hidden_size, config.memory_size, config.compression_ratio)
        return AttentiveMemory(text.hidden_size, text.num_attention_heads, config.memory_size)

    def _update(self, config: AdapterConfig) -> None:
        """Let the matrices where it answers change."""
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
        """What the library asks a layer for, such as the kind of its attention."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("prompted"), name)

    def start(self, documents: int) -> dict[str, MemoryState]:
        """The states of its memories before the first segment."""
        return {kind: memory.start(documents) for kind, memory in self.memory.items()}

    def settle(self, states: Mapping[str, MemoryState]) -> dict[str, MemoryState]:
        """Its memories with what was left to be written."""
        return {kind: memory.settle(states[kind]) for kind, memory in self.memory.items()}

    def recall(self, states: Mapping[str, MemoryState]) -> dict[str, Recollection]:
        """What it reads while the next segment is answered."""
        return {
            kind: memory.recall(states[kind], _KeysWithoutPosition(self.answering.self_attn))
            if isinstance(memory, CompressiveMemory)
            else memory.recall(states[kind])
            for kind, memory in self.memory.items()
        }

    def forward(self, hidden_states: torch.Tensor, *args: Any, passage: Passage | None = None, **kwargs: Any) -> Any:
        """As the library's layer, but for what `passage` says."""
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
        further = passage.further.get(self.index) if passage.answering else None
        found = layer.self_attn(given, *args, **kwargs, **({} if further is None else {"further": further}))[0]
        is_gemma = hasattr(layer, "pre_feedforward_layernorm")
        if is_gemma:
            found = layer.post_attention_layernorm(found)
        hidden = hidden_states + found
        norm = layer.pre_feedforward_layernorm if is_gemma else layer.post_attention_layernorm
        normed = norm(hidden)
        if self.memory:
            # As the layer's own norm makes it: the sums themselves have a few directions that dwarf all others.
            compressive = isinstance(self.memory[KINDS[0]], CompressiveMemory)
            passage.written[self.index] = (given if compressive else normed).detach()
        if self.is_last and not passage.answering:
            return hidden  # nobody asks what a prompt's last layer makes of it
        read = [
            memory.read(normed, recalled[kind])
            for kind, memory in self.memory.items()
            if kind in recalled and isinstance(memory, AttentiveMemory)
        ]
        if read:
            # In units of the sum that it is added to: this is tens of times larger than what a memory holds, and a read
            # that starts at zero would take as many times longer to be heard.
            hidden = hidden + _size(hidden) * sum(read[1:], read[0])
            normed = norm(hidden)
        inner = layer.mlp(normed)
        return hidden + (layer.post_feedforward_layernorm(inner) if is_gemma else inner)


def _size(hidden: torch.Tensor) -> torch.Tensor:
    """The root mean square of each vector."""
    return hidden.detach().float().square().mean(-1, keepdim=True).sqrt().to(hidden.dtype)


class _KeysWithoutPosition:
    """The keys and values that a layer's attention makes of what it remembers, which has no place in the segment.

    Without the rotation by position a key stands where the segment begins: before all that is being answered.
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
    """A pretrained causal model of which some layers remember.

    Memory goes in and comes out as a value: it remembers nothing itself.
    """

    def __init__(self, base: PreTrainedModel, config: AdapterConfig) -> None:
        super().__init__()
        self.base, self.adapter = base, config  # not `config`: the library's Trainer would write into that
        layers = getattr(base.get_decoder(), "layers", None)
        if layers is None:
            raise AwesumError(NOT_FOR.format(type(base).__name__))
        self.roles = Roles(config, len(layers))
        if not base._supports_attention_backend:
            raise AwesumError(NOT_FOR.format(type(base).__name__))
        base.set_attn_implementation(GROUPED)
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        for index, layer in enumerate(layers):
            layers[index] = RememberingLayer(layer, index, self.roles)
        self.to(device=base.device)
        self._check()

    @torch.no_grad()
    def _check(self) -> None:
        """Whether the layers in their parts are the layers as a whole: some have the same parts and other sums."""
        ids = torch.tensor([[0, 1]], device=self.device)
        whole, parts = (
            self.base.get_decoder()(input_ids=ids, use_cache=False, **options).last_hidden_state
            for options in ({}, {"passage": Passage(answering=True)})
        )
        if not torch.allclose(whole, parts, rtol=1e-2, atol=1e-2):
            raise AwesumError(NOT_FOR.format(type(self.base).__name__))

    @property
    def first(self) -> int:
        """The number of the first layer that is not of the trunk."""
        return self.roles.first

    @property
    def end(self) -> int:
        """The token with which an answer ends."""
        ends = ends_of(self.base)
        if not ends:
            raise AwesumError(f"{self.adapter.base} does not say with which token an answer ends: give a chat model")
        return ends[0]

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.base.device

    def _remembering(self) -> Iterator[tuple[int, RememberingLayer]]:
        layers = self.base.get_decoder().layers
        return ((index, layers[index]) for index in self.roles.remembering)

    def start(self, documents: int) -> dict[int, dict[str, MemoryState]]:
        """The memories before the first segment."""
        return {index: layer.start(documents) for index, layer in self._remembering()}

    def recall(self, states: States) -> dict[int, dict[str, Recollection]]:
        """What is read while the next segment is answered: what the one before left to be written is written now."""
        return {index: layer.recall(states[index]) for index, layer in self._remembering()}

    def settle(self, states: States) -> dict[int, dict[str, MemoryState]]:
        """The memories behind a segment to which nobody answers: what was left to be written is written."""
        return {index: layer.settle(states[index]) for index, layer in self._remembering()}

    def with_memory(self, recalled: Recollections, trunk: torch.Tensor | None = None) -> Passage:
        """An answer's passage, which reads what was recalled."""
        layers = self.base.get_decoder().layers
        further = {
            index: all_joined([layers[index].memory[kind].read(of) for kind, of in kinds.items()])
            for index, kinds in recalled.items()
            if self.adapter.memory == "compressive"
        }
        return Passage(
            answering=True,
            memory={} if further else recalled,
            further={index: source for index, source in further.items() if source and source.keys.shape[2]},
            trunk=trunk,
        )

    def trunk(self, input_ids: torch.Tensor, past_key_values: Cache | None = None) -> torch.Tensor:
        """What the layers below the adapter make of tokens, (1, N) -> (1, N, d)."""
        passage = Passage(only_trunk=True)
        self.base.get_decoder()(
            input_ids=input_ids, past_key_values=past_key_values, use_cache=past_key_values is not None, passage=passage
        )
        assert passage.trunk is not None
        return passage.trunk

    def above(self, passage: Passage, **options: Any) -> torch.Tensor:
        """The last hidden states of a `passage` that has its trunk."""
        return self.base.get_decoder()(inputs_embeds=passage.trunk, passage=passage, **options).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the model would write behind last hidden states."""
        scores = self.base.get_output_embeddings()(hidden)
        cap = getattr(self.base.config.get_text_config(), "final_logit_softcapping", None)
        return torch.tanh(scores / cap) * cap if cap else scores

    @property
    def plain_head(self) -> torch.Tensor | None:
        """The matrix that `logits` multiplies with, where that is all it does."""
        head = self.base.get_output_embeddings()
        cap = getattr(self.base.config.get_text_config(), "final_logit_softcapping", None)
        return None if cap or getattr(head, "bias", None) is not None else head.weight

    def fingerprint(self) -> str:
        """Of all that the pretrained model's output depends on but the number format, which a machine chooses."""
        known = self.base.config.get_text_config().to_dict()
        for name in ("_name_or_path", "transformers_version", "architectures", "dtype"):
            known.pop(name, None)
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
        """What the memories of one document take, at most, while it is answered: as states, and as keys and values, of
        which those of a compressive memory stand beside those of other documents as well."""
        text = self.base.config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        width = 2 * heads * (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
        numbers = text.hidden_size + (2 * width if self.adapter.memory == "compressive" else 2 * text.hidden_size)
        return len(self.roles.remembering) * len(KINDS) * self.adapter.memory_size * numbers * self.base.dtype.itemsize

    def new_weights(self) -> dict[str, torch.Tensor]:
        """What the adapter has and the pretrained model has not, by name."""
        found: dict[str, torch.Tensor] = {}
        layers = self.base.get_decoder().layers
        for index in range(self.first, len(layers)):
            for name, tensor in layers[index].state_dict(keep_vars=True).items():
                is_update = name.startswith("answering.") and isinstance(tensor, nn.Parameter) and tensor.requires_grad
                if name.startswith("memory.") or is_update:
                    found[f"{index}.{name}"] = tensor
        return found

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """The adapter alone: its configuration and its weights, not those of the pretrained model."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            name: tensor.detach().to("cpu", dtype).contiguous()
            for name, tensor in self.new_weights().items()
            if not name.endswith(".initial")  # the same random slots each time
        }
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})
        config = replace(self.adapter, base_sha256=self.fingerprint())
        (folder / ADAPTER).write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")

    def load_adapter(self, folder: str | Path) -> None:
        """Take over the weights that were saved in `folder`."""
        path = Path(folder) / WEIGHTS
        trained_for = read_config(folder).base_sha256
        if trained_for and trained_for != self.fingerprint():
            raise AwesumError(
                f"{folder} was trained for other weights than those of {self.adapter.base}: give it the model that it "
                f"was trained for, as `base` in its {ADAPTER}, or train it again"
            )
        try:
            saved = load_file(path)
        except (OSError, SafetensorError) as error:
            raise AwesumError(f"cannot read the adapter {path} ({error}): copy or train it again") from error
        wanted = {name: tensor for name, tensor in self.new_weights().items() if not name.endswith(".initial")}
        if missing := sorted(wanted.keys() ^ saved.keys()):
            raise AwesumError(f"{path} does not fit its {ADAPTER} ({missing[0]}): copy or train it again")
        with torch.no_grad():
            for name, tensor in saved.items():
                if tensor.shape != wanted[name].shape:
                    raise AwesumError(f"{path} does not fit its {ADAPTER} ({name}): copy or train it again")
            for name, tensor in saved.items():
                wanted[name].copy_(tensor)

    def merge(self) -> None:
        """Make low-rank updates part of the weights: no more to be trained, and nothing to be added on the way."""
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
) -> dict[int, dict[str, MemoryState]]:
    """The memories once a segment is answered, or only settled where nobody answers.

    `read` are the prompt's states, of which `segment` are the segment's own: a slice for all rows, or (B, P). `written`
    are those that the answer is written behind, `answered` of them, or (B, A); the first is the prompt's last token,
    and there are none where nothing was asked.
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
            "source": of["source"].then(source, source_mask),
            "summary": of["summary"].then(summary, summary_mask),
        }
    return states


def _all_of(states: torch.Tensor) -> torch.Tensor:
    return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)


def ends_of(model: PreTrainedModel) -> list[int]:
    """The tokens with which a model ends what it writes, as it says itself."""
    ends = model.generation_config.eos_token_id
    ends = model.config.get_text_config().eos_token_id if ends is None else ends
    return [int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None]


def read_config(folder: str | Path) -> AdapterConfig:
    """The configuration of an adapter."""
    path = Path(folder) / ADAPTER
    try:
        return AdapterConfig(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise AwesumError(f"cannot read {path} ({error}): copy or train the adapter again") from error


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter."""
    return (Path(folder) / ADAPTER).is_file()
