"""AWESOME: BART whose last layers read and write memories, and whose encoder may look at salient content.

`AwesomeBart` is the library's `BartForConditionalGeneration` with the same names and weights, and more where the
configuration asks for it. Memory goes in (`memory=`) and comes out (`.memory`): the model remembers nothing itself.
Knows nothing of documents, texts or training; `recurrence` leads it from segment to segment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from typing import Any, Self

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    EncoderDecoderCache,
)
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
)
from transformers.models.bart.modeling_bart import (
    BartAttention,
    BartDecoder,
    BartDecoderLayer,
    BartEncoder,
    BartEncoderLayer,
    BartModel,
    BartPreTrainedModel,
    create_bidirectional_mask,
    create_causal_mask,
    shift_tokens_right,
)

from awesum.errors import AwesumError
from awesum.loading import choose_device, config_of, loading
from awesum.memory import AttentiveMemory, CompressiveMemory, MemoryState, Recollection, Source
from awesum.memory.attention import all_joined, attend_to_both, merged, split
from awesum.memory.compressive import Compression

CHOICES: dict[str, tuple[str, ...]] = {
    "memory": ("none", "attentive", "compressive"),
    "salient": ("none", "text", "key-value"),
    "memory_direction": ("forward", "both"),
}
_NEW_WEIGHT = re.compile(r"\.(memory|ahead|salient_projection)\.")
_CARRY_WEIGHTS = ("memory", "memory_layers", "memory_size", "compression_ratio", "memory_direction")


@strict
class AwesomeConfig(BartConfig):
    """BART's configuration and what AWESOME adds to it."""

    model_type = "awesome-bart"

    memory: str = "attentive"
    """`none` (Se3), `attentive` or `compressive`."""
    memory_layers: int | str | list[int] | tuple[int, ...] = 3
    """How many of the last layers of encoder and decoder have a memory; `all`; or their numbers."""
    memory_size: int = 1024
    """Slots of a memory."""
    compression_ratio: int = 5
    """How many hidden states a compressive memory makes one of."""
    memory_direction: str = "forward"
    """`both`: the encoder also has a memory that runs from the last segment to the first."""
    salient: str = "none"
    """How the salient sentences of other segments come in: `none`, as `text`, or as `key-value` vectors."""
    salient_size: int = 1024
    """Tokens of salient content that come in as key-value vectors."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.check()

    def check(self) -> None:
        """Raise what is wrong with the values, in one line."""
        check_choices(self, CHOICES)
        for name in ("memory_size", "compression_ratio", "salient_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise AwesumError(f"{name} must be a whole number, 1 or more, not {value!r}")
        if self.memory == "compressive" and self.memory_size % 2:
            raise AwesumError(f"a compressive memory has two halves: memory_size={self.memory_size} is odd")
        if self.memory != "none":
            for layers in (self.encoder_layers, self.decoder_layers):
                memory_layers(self.memory_layers, int(layers or 0))


def check_choices(config: object, choices: Mapping[str, Sequence[str]], model: str = "") -> None:
    """Raise what is none of its choices, with the nearest."""
    for name, known in choices.items():
        value = getattr(config, name)
        if value not in known:
            near = get_close_matches(str(value), known, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AwesumError(f"{name}={value!r} is not one of {', '.join(known)}{model}{hint}")


def memory_layers(wanted: int | str | Sequence[int], layers: int) -> tuple[int, ...]:
    """The layers that have a memory, out of so many: the last few, all of them, or those with the given numbers."""
    if wanted == "all":
        return tuple(range(layers))
    if isinstance(wanted, str):
        raise AwesumError(f"memory_layers={wanted!r}: give a number of last layers, 'all', or a list of layers")
    if isinstance(wanted, int):
        if not 0 < wanted <= layers:
            raise AwesumError(f"memory_layers={wanted}: there are {layers} layers (for none of them, memory='none')")
        return tuple(range(layers - wanted, layers))
    chosen = tuple(sorted({layer + layers if layer < 0 else layer for layer in wanted}))
    if not chosen or chosen[0] < 0 or chosen[-1] >= layers:
        raise AwesumError(f"memory_layers={list(wanted)}: there are {layers} layers, 0 to {layers - 1}")
    return chosen


States = Mapping[int, MemoryState]
"""A layer's number and the state of its memory."""


@dataclass(frozen=True)
class Memories:
    """Everything that flows from one segment to the next."""

    encoder: States = field(default_factory=dict)
    decoder: States = field(default_factory=dict)
    ahead: States = field(default_factory=dict)
    """The encoder's second memory, which comes from the segments behind the current one."""

    def select(self, rows: torch.Tensor) -> Self:
        """Those of some documents of the batch."""
        return self._map(lambda state: state.select(rows))

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        return self._map(lambda state: state.to(device))

    def _map(self, change: Callable[[MemoryState], MemoryState]) -> Self:
        return replace(
            self,
            **{
                name: {layer: change(state) for layer, state in getattr(self, name).items()}
                for name in ("encoder", "decoder", "ahead")
            },
        )


@dataclass(frozen=True)
class Salient:
    """Encoder outputs of the salient tokens of other segments, for the encoder's keys and values."""

    vectors: torch.Tensor
    """(B, S, d)."""
    mask: torch.Tensor
    """(B, S)."""


@dataclass
class Pass:
    """What the layers of one stack are given and what they leave behind while one segment goes through them."""

    memory: Mapping[int, Recollection] = field(default_factory=dict)
    ahead: Mapping[int, Recollection] = field(default_factory=dict)
    salient: Salient | None = None
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    """By layer: the hidden states to write, (B, N, d)."""


@dataclass
class AwesomeEncoderOutput(BaseModelOutput):
    """The library's output and the memory of the encoder after the segment."""

    memory: Any = None


@dataclass
class AwesomeOutput(Seq2SeqLMOutput):
    """The library's output and the memories after the segment."""

    memory: Any = None


class AwesomeAttention(BartAttention):
    """BART's attention, with further keys and values that every query may look at."""

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        """The keys and values that this attention makes of `states`."""
        return Source(split(self.k_proj(states), self.num_heads), split(self.v_proj(states), self.num_heads), mask)

    def forward(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: torch.Tensor | None = None,
        extra: Source | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As the library's; with `extra`, self-attention to the segment and to `extra` in one softmax."""
        if extra is None:
            return super().forward(hidden_states, key_value_states, past_key_values, attention_mask, **kwargs)
        queries = split(self.q_proj(hidden_states), self.num_heads)
        own = self.source(hidden_states, None)
        keys, values = own.keys, own.values
        if past_key_values is not None:
            cache = past_key_values
            cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
            keys, values = cache.update(keys, values, self.layer_idx)
        visible = self._visible(attention_mask, queries.shape[2], keys.shape[2], queries.device)
        if (queries.shape[2] == 1 and not self.training) or queries.shape[0] != extra.keys.shape[0]:
            found = attend_to_both(queries, extra, keys, values, visible)
        else:
            found = nn.functional.scaled_dot_product_attention(
                queries,
                torch.cat([extra.keys, keys], 2),
                torch.cat([extra.values, values], 2),
                attn_mask=_joint_mask(extra, visible, queries, keys),
                dropout_p=self.dropout if self.training else 0.0,
            )
        return self.out_proj(merged(found)), None

    def _visible(self, mask: torch.Tensor | None, queries: int, keys: int, device: torch.device) -> torch.Tensor | None:
        """What of the segment a query may see, as truth values; the library leaves a mask out where it can."""
        if mask is not None:
            return mask if mask.dtype == torch.bool else mask == 0
        if self.is_causal and queries > 1:
            return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]
        return None


def _joint_mask(
    extra: Source, visible: torch.Tensor | None, queries: torch.Tensor, keys: torch.Tensor
) -> torch.Tensor | None:
    if extra.mask is None and visible is None:
        return None
    documents, _, length, _ = queries.shape
    to_extra = queries.new_ones(documents, extra.keys.shape[2], dtype=torch.bool) if extra.mask is None else extra.mask
    to_own = queries.new_ones(1, 1, 1, keys.shape[2], dtype=torch.bool) if visible is None else visible
    return torch.cat(
        [
            to_extra[:, None, None, :].expand(-1, -1, length, -1),
            to_own.expand(documents, 1, length, -1),
        ],
        -1,
    )


class SalientProjection(nn.Linear):
    """What salient vectors pass before they become keys and values. It begins as the identity."""


def _new_memory(config: AwesomeConfig, heads: int) -> AttentiveMemory | CompressiveMemory:
    if config.memory == "attentive":
        return AttentiveMemory(config.d_model, heads, config.memory_size, config.attention_dropout)
    return CompressiveMemory(config.d_model, config.memory_size, config.compression_ratio)


class _Remembering:
    """What encoder and decoder layers have in common: their memories, and BART's feed-forward sublayer."""

    layer_idx: int
    memory: AttentiveMemory | CompressiveMemory  # where there is one, as the next two
    ahead: AttentiveMemory | CompressiveMemory
    salient_projection: SalientProjection
    # The library's:
    self_attn: AwesomeAttention
    self_attn_layer_norm: nn.LayerNorm
    activation_fn: Callable[[torch.Tensor], torch.Tensor]
    fc1: nn.Linear
    fc2: nn.Linear
    final_layer_norm: nn.LayerNorm
    dropout: float
    activation_dropout: float
    training: bool

    def recall(self, memory: AttentiveMemory | CompressiveMemory, state: MemoryState) -> Recollection:
        """What the layer reads during the next segment."""
        if isinstance(memory, CompressiveMemory):
            return memory.recall(state, self.self_attn)
        return memory.recall(state)

    def _recollections(self, given: Pass) -> list[tuple[AttentiveMemory | CompressiveMemory, Recollection]]:
        named = ((getattr(self, "memory", None), given.memory), (getattr(self, "ahead", None), given.ahead))
        return [(memory, of[self.layer_idx]) for memory, of in named if memory is not None and self.layer_idx in of]

    def _extra(self, given: Pass) -> Source | None:
        """Salient vectors and compressive memory: further keys and values of the self-attention."""
        sources = []
        if given.salient is not None and getattr(self, "salient_projection", None) is not None:
            sources.append(self.self_attn.source(self.salient_projection(given.salient.vectors), given.salient.mask))
        sources += [
            memory.read(recollection)
            for memory, recollection in self._recollections(given)
            if isinstance(memory, CompressiveMemory)
        ]
        return all_joined(sources)

    def _self_attention(self, hidden: torch.Tensor, mask: torch.Tensor | None, given: Pass, **kwargs: Any) -> Any:
        """BART's self-attention sublayer, with what is written to memory noted and what is read added."""
        found, _ = self.self_attn(hidden, attention_mask=mask, extra=self._extra(given), **kwargs)
        output = self.self_attn_layer_norm(hidden + self._dropped(found))
        if (memory := getattr(self, "memory", None)) is not None:
            written = hidden if isinstance(memory, CompressiveMemory) else output
            given.written[self.layer_idx] = written.detach()  # checkpointing's graph holds `given`: not the reverse
        read = [
            memory.read(output, recollection)
            for memory, recollection in self._recollections(given)
            if isinstance(memory, AttentiveMemory)
        ]
        return output + self._dropped(reduce(torch.add, read)) if read else output

    def _feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        inner = self.activation_fn(self.fc1(hidden))
        inner = nn.functional.dropout(inner, p=self.activation_dropout, training=self.training)
        hidden = self.final_layer_norm(hidden + self._dropped(self.fc2(inner)))
        if hidden.dtype == torch.float16:
            limit = torch.finfo(torch.float16).max - 1000
            hidden = hidden.clamp(-limit, limit)
        return hidden

    def _dropped(self, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(states, p=self.dropout, training=self.training)


class AwesomeEncoderLayer(_Remembering, BartEncoderLayer):
    """An encoder layer; with a memory, or two, or salient vectors, if the configuration says so."""

    def __init__(self, config: AwesomeConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.layer_idx = layer_idx
        heads = config.encoder_attention_heads
        self.self_attn = AwesomeAttention(
            config.d_model, heads, config.attention_dropout, config=config, layer_idx=layer_idx
        )
        if config.memory != "none" and layer_idx in memory_layers(config.memory_layers, config.encoder_layers):
            self.memory = _new_memory(config, heads)
            if config.memory_direction == "both":
                self.ahead = _new_memory(config, heads)
        if config.salient == "key-value":
            self.salient_projection = SalientProjection(config.d_model, config.d_model, bias=False)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, given: Pass) -> torch.Tensor:
        """One segment, or one batch of them, through the layer."""
        return self._feed_forward(self._self_attention(hidden_states, attention_mask, given))


class AwesomeDecoderLayer(_Remembering, BartDecoderLayer):
    """A decoder layer; with a memory, if the configuration says so."""

    def __init__(self, config: AwesomeConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.layer_idx = layer_idx
        heads = config.decoder_attention_heads
        self.self_attn = AwesomeAttention(
            config.d_model,
            heads,
            config.attention_dropout,
            is_decoder=True,
            is_causal=True,
            config=config,
            layer_idx=layer_idx,
        )
        if config.memory != "none" and layer_idx in memory_layers(config.memory_layers, config.decoder_layers):
            self.memory = _new_memory(config, heads)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = True,
        given: Pass | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """As the library's, with `given` on top."""
        hidden = self._self_attention(
            hidden_states, attention_mask, given or Pass(), past_key_values=past_key_values, **kwargs
        )
        if encoder_hidden_states is not None:
            found, _ = self.encoder_attn(
                hidden,
                key_value_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
            hidden = self.encoder_attn_layer_norm(hidden + self._dropped(found))
        return self._feed_forward(hidden)


class AwesomePreTrainedModel(BartPreTrainedModel):
    """How new weights begin: memories as `AttentiveMemory.reset` says, the salient projection as nothing done."""

    config_class = AwesomeConfig
    _supports_flash_attn = False
    _supports_flex_attn = False
    _no_split_modules = ("AwesomeEncoderLayer", "AwesomeDecoderLayer")

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, AttentiveMemory):
            init.copy_(module.initial, module.distinct_slots())
            init.zeros_(module.reading.out_proj.weight)
        elif isinstance(module, Compression):  # not what holds it: the library asks for no module without weights
            init.copy_(module.weight, module.mean())
        elif isinstance(module, SalientProjection):
            init.eye_(module.weight)


class AwesomeEncoder(AwesomePreTrainedModel, BartEncoder):
    """BART's encoder in two parts: the trunk, which no memory reaches, and the layers from the first memory on."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        layers = [AwesomeEncoderLayer(config, index) for index in range(config.encoder_layers)]
        self.layers: Any = nn.ModuleList(layers)  # torch's lists do not say of what
        self.remembering = memory_layers(config.memory_layers, config.encoder_layers) if config.memory != "none" else ()
        self.first = min(self.remembering, default=config.encoder_layers)
        """The first layer with a memory."""
        self.post_init()

    def trunk(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, salient: Salient | None = None
    ) -> torch.Tensor:
        """The hidden states below the first memory, for any number of segments at once: (B, N, d)."""
        embedded = self.embed_tokens(input_ids)
        hidden = self.layernorm_embedding(embedded + self.embed_positions(input_ids).to(embedded.device))
        hidden = nn.functional.dropout(hidden, p=self.dropout, training=self.training)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=hidden, attention_mask=attention_mask)
        given = Pass(salient=salient)
        for layer in self.layers[: self.first]:
            if not (self.training and self.layerdrop and torch.rand([]) < self.layerdrop):
                hidden = layer(hidden, mask, given)
        return hidden

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        memory: States | None = None,
        ahead: States | None = None,
        salient: Salient | None = None,
        trunk: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> AwesomeEncoderOutput:
        """One segment of each document. `trunk` is what `trunk()` gave for it, if it has been asked already."""
        if trunk is None:
            if input_ids is None:
                raise ValueError("give the tokens of the segment, or the trunk that was made of them")
            trunk = self.trunk(input_ids, attention_mask, salient)
        hidden = trunk
        if attention_mask is None:
            attention_mask = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
        before = memory or self.start(hidden.shape[0])
        given = Pass(self.recollect(before), self.recollect(ahead or {}, ahead=True), salient)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=hidden, attention_mask=attention_mask)
        for layer in self.layers[self.first :]:
            hidden = layer(hidden, mask, given)
        return AwesomeEncoderOutput(
            last_hidden_state=hidden, memory=_after(given.memory, before, given.written, attention_mask.bool())
        )

    def start(self, documents: int, ahead: bool = False) -> dict[int, MemoryState]:
        """The states before the first segment (or, of the other direction, behind the last)."""
        return {
            index: (self.layers[index].ahead if ahead else self.layers[index].memory).start(documents)
            for index in self.remembering
        }

    def recollect(self, states: States, ahead: bool = False) -> dict[int, Recollection]:
        """What the layers will read of these states."""
        return {
            index: self.layers[index].recall(
                self.layers[index].ahead if ahead else self.layers[index].memory, states[index]
            )
            for index in states
        }

    @torch.no_grad()
    def look_ahead(
        self, trunk: torch.Tensor, attention_mask: torch.Tensor, ahead: States, salient: Salient | None = None
    ) -> dict[int, MemoryState]:
        """One step of the other direction: the memory of the later segments, with this segment left to be written."""
        given = Pass(ahead=self.recollect(ahead, ahead=True), salient=salient)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=trunk, attention_mask=attention_mask)
        hidden = trunk
        for layer in self.layers[self.first :]:
            hidden = layer(hidden, mask, given)
        return _after(given.ahead, ahead, given.written, attention_mask.bool())


def _after(
    recollections: Mapping[int, Recollection], before: States, written: dict[int, torch.Tensor], mask: torch.Tensor
) -> dict[int, MemoryState]:
    """The states after a segment. A layer that was dropped has written nothing and keeps its state."""
    return {
        index: recollection.then(written[index], mask) if index in written else before[index].detach()
        for index, recollection in recollections.items()
    }


class AwesomeDecoder(AwesomePreTrainedModel, BartDecoder):
    """BART's decoder, whose loop hands `given` down to the layers; to learn, it can be run in two parts."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        layers = [AwesomeDecoderLayer(config, index) for index in range(config.decoder_layers)]
        self.layers: Any = nn.ModuleList(layers)  # torch's lists do not say of what
        self.remembering = memory_layers(config.memory_layers, config.decoder_layers) if config.memory != "none" else ()
        self.first = min(self.remembering, default=config.decoder_layers)
        """The first layer with a memory."""
        self.post_init()

    def trunk(self, input_ids: torch.Tensor, encoded: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The hidden states below the first memory, for any number of segments at once: (B, N, d).

        `encoded` is what the encoder made of the segments, `attention_mask` which of it is no padding. The tokens are
        known, all of them, as they are while one learns; padding behind them is seen by none of them.
        """
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        embedded = self.embed_tokens(input_ids)
        hidden = self.layernorm_embedding(embedded + self.embed_positions(input_ids, position_ids=positions))
        hidden = nn.functional.dropout(hidden, p=self.dropout, training=self.training)
        return self._through(self.layers[: self.first], hidden, encoded, attention_mask, Pass())

    def top(
        self, trunk: torch.Tensor, encoded: torch.Tensor, attention_mask: torch.Tensor | None, given: Pass
    ) -> torch.Tensor:
        """The hidden states of one segment of each document, from what `trunk` gave for it."""
        return self._through(self.layers[self.first :], trunk, encoded, attention_mask, given)

    def _through(
        self, layers: Any, hidden: torch.Tensor, encoded: torch.Tensor, mask: torch.Tensor | None, given: Pass
    ) -> torch.Tensor:
        order = create_causal_mask(self.config, inputs_embeds=hidden, attention_mask=None, past_key_values=None)
        visible = create_bidirectional_mask(
            self.config, inputs_embeds=hidden, attention_mask=mask, encoder_hidden_states=encoded
        )
        for layer in layers:
            if not (self.training and self.layerdrop and torch.rand([]) < self.layerdrop):
                hidden = layer(hidden, order, encoded, encoder_attention_mask=visible, use_cache=False, given=given)
        return hidden

    def start(self, documents: int) -> dict[int, MemoryState]:
        """The states before the first segment."""
        return {index: self.layers[index].memory.start(documents) for index in self.remembering}

    def recollect(self, states: States) -> dict[int, Recollection]:
        """What the layers will read of these states."""
        return {index: self.layers[index].recall(self.layers[index].memory, state) for index, state in states.items()}


class AwesomeModel(AwesomePreTrainedModel, BartModel):
    """BART's encoder and decoder with memories."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        self.encoder = AwesomeEncoder(config)
        self.decoder = AwesomeDecoder(config)
        self.post_init()


def _check_same(name: object, saved: AwesomeConfig, wanted: AwesomeConfig) -> None:
    for option in (*_CARRY_WEIGHTS, "salient"):
        before, after = (
            list(value) if isinstance(value, tuple) else value
            for value in (getattr(saved, option), getattr(wanted, option))
        )
        if before != after:
            raise AwesumError(
                f"{name} was trained with {option}={before!r}, not {after!r}: "
                "load it as it is, or train another from the pretrained model"
            )


def _check_complete(name: object, report: Mapping[str, Any], is_ours: bool) -> None:
    """Nothing may be fresh that should be trained; only a plain BART has no weights yet for what we add."""
    wrong = {
        "of another size": {key for key, *_ in report["mismatched_keys"]},
        "missing": {key for key in report["missing_keys"] if is_ours or not _NEW_WEIGHT.search(key)},
        "unknown": set(report["unexpected_keys"]) if is_ours else set(),
    }
    for what, keys in wrong.items():
        if keys:
            first, *more = sorted(keys)
            others = f" and {len(more)} more" if more else ""
            raise AwesumError(
                f"the weights in {name} are not those of its config.json ({first}{others}: {what}): "
                "give a folder as it was saved, whole, or train another from the pretrained model"
            )


class AwesomeBart(AwesomePreTrainedModel, BartForConditionalGeneration):
    """The paper's model. Without memory and salient content it is BART, number for number."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        self.model = AwesomeModel(config)
        self.post_init()

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Self:
        """Load a checkpoint of ours, or equip a plain BART: `from_pretrained("facebook/bart-large", memory=...)`."""
        with loading(str(name), kind="a folder with config.json and safetensors weights") as (source, options):
            saved = config_of(source, options)
            is_ours = saved.get("model_type") == AwesomeConfig.model_type
            if not is_ours and saved.get("model_type") != BartConfig.model_type:
                raise AwesumError(
                    f"{name} is a {saved.get('model_type')!r} model: give a BART model, or a folder that awesum trained"
                )
            config = kwargs.pop("config", None)
            if config is None:
                ours = {key: kwargs.pop(key) for key in list(kwargs) if key in AwesomeConfig.__dataclass_fields__}
                config = AwesomeConfig(**{**saved, "model_type": AwesomeConfig.model_type, **ours})
            if is_ours:
                _check_same(name, AwesomeConfig(**saved), config)
            model, report = super().from_pretrained(
                source,
                *args,
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # they are ours to report
                output_loading_info=True,
                **options,
                **kwargs,
            )
            _check_complete(name, report, is_ours)
            return model

    def start(self, documents: int) -> Memories:
        """The memories before the first segment."""
        return Memories(self.model.encoder.start(documents), self.model.decoder.start(documents))

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        memory: Memories | None = None,
        decoder_memory: Mapping[int, Recollection] | None = None,
        salient: Salient | None = None,
        decoder_trunk: torch.Tensor | None = None,
        use_loss: bool = True,
        **kwargs: Any,
    ) -> AwesomeOutput:
        """One segment of each document: the memories before it in, its logits and the memories after it out.

        `decoder_memory`, what the decoder reads, is given while text is generated: it is made once a segment.
        `decoder_trunk` is what the decoder's `trunk` gave for it, if it has been asked already. `use_loss=False` leaves
        the loss to the caller, who may want to weigh it.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None:
                decoder_input_ids = shift_tokens_right(
                    labels, self.config.pad_token_id, self.config.decoder_start_token_id
                )
        elif decoder_input_ids is None:
            decoder_input_ids = shift_tokens_right(
                input_ids, self.config.pad_token_id, self.config.decoder_start_token_id
            )
        if encoder_outputs is None:
            encoder_outputs = self.model.encoder(
                input_ids,
                attention_mask,
                memory=memory.encoder if memory else None,
                ahead=memory.ahead if memory else None,
                salient=salient,
            )
        before = memory.decoder if memory else {}
        if decoder_memory is None:
            before = before or self.model.decoder.start(decoder_input_ids.shape[0])
            decoder_memory = self.model.decoder.recollect(before)
        given = Pass(decoder_memory)
        if decoder_trunk is not None:
            top = self.model.decoder.top(decoder_trunk, encoder_outputs[0], attention_mask, given)
            outputs = BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=top)
        else:
            outputs = self.model.decoder(
                input_ids=decoder_input_ids,
                attention_mask=decoder_attention_mask,
                encoder_hidden_states=encoder_outputs[0],
                encoder_attention_mask=attention_mask,
                past_key_values=past_key_values,
                use_cache=use_cache,
                given=given,
                **kwargs,
            )
        logits = self.lm_head(outputs[0]) + self.final_logits_bias
        loss = None
        if labels is not None and use_loss:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        after = None
        if before or not decoder_memory:
            if decoder_attention_mask is not None:
                mask = decoder_attention_mask.bool()
            else:
                mask = torch.ones_like(decoder_input_ids, dtype=torch.bool) if labels is None else labels.ne(-100)
            after = Memories(
                getattr(encoder_outputs, "memory", None) or {}, _after(given.memory, before, given.written, mask)
            )
        return AwesomeOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            encoder_last_hidden_state=encoder_outputs[0],
            decoder_hidden_states=outputs.hidden_states,
            decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions,
            memory=after,
        )


def load_config(name: str) -> AwesomeConfig:
    """What `load_recurrent` would load, without the weights: a plain BART is one without memory."""
    with loading(name) as (source, options):
        saved = config_of(source, options)
        bare = {} if saved.get("model_type") == AwesomeConfig.model_type else {"memory": "none"}
        return AwesomeConfig(**{**saved, "model_type": AwesomeConfig.model_type, **bare})


def load_recurrent(name: str) -> AwesomeBart:
    """A model to write with: one that awesum trained as it is, a plain BART without memory, on what is there."""
    device, dtype, _ = choose_device()
    return AwesomeBart.from_pretrained(name, config=load_config(name), dtype=dtype).to(device).eval()


AutoConfig.register(AwesomeConfig.model_type, AwesomeConfig)
AutoModelForSeq2SeqLM.register(AwesomeConfig, AwesomeBart)
