"""AWESOME: BART whose last layers read and write memories, and whose encoder can attend to salient content.

`AwesomeBart` is the library's `BartForConditionalGeneration` with the same names and weights, plus those that the
configuration asks for. Memory goes in (`memory=`) and comes out (`.memory`): the model itself keeps no state.
Knows nothing about documents, texts or training; `recurrence` takes it from segment to segment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, BartConfig, BartForConditionalGeneration
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions, Seq2SeqLMOutput
from transformers.models.bart.modeling_bart import (
    BartDecoder,
    BartEncoder,
    BartModel,
    BartPreTrainedModel,
    create_bidirectional_mask,
    create_causal_mask,
    shift_tokens_right,
)

from awesum.compat import ModelHooks
from awesum.errors import AwesumError
from awesum.loading import choose_device, config_of, loading, refuse_wrong_weights
from awesum.memory import HasStartingValues, MemoryState, Recollection
from awesum.models.bart_config import AwesomeConfig
from awesum.models.bart_layers import AwesomeDecoderLayer, AwesomeEncoderLayer, Pass, Salient
from awesum.models.memory_settings import NO_MEMORY, current

__all__ = ["AwesomeBart", "AwesomeConfig", "Memories", "load_config", "load_recurrent"]

_NEW_WEIGHT = re.compile(r"\.(memory|ahead|salient_projection)\.")
_FIXED_BY_TRAINING = (
    "memory", "memory_layers", "memory_size", "compression_ratio", "memory_direction", "salient",
)  # fmt: skip
_OF_THE_HUB = ("cache_dir", "force_download", "proxies", "revision", "subfolder", "token")
States = Mapping[int, MemoryState]
"""The number of a layer -> the state of its memory."""


@dataclass(frozen=True)
class Memories:
    """All state that flows from one segment to the next."""

    encoder: States = field(default_factory=dict)
    decoder: States = field(default_factory=dict)
    ahead: States = field(default_factory=dict)
    """The encoder's second memory, of the segments after the current one."""

    def select(self, rows: torch.Tensor) -> Self:
        """The memories of some documents of the batch."""
        return self._map(lambda state: state.select(rows))

    def to(self, device: torch.device | str) -> Self:
        """The memories on another device."""
        return self._map(lambda state: state.to(device))

    def _map(self, change: Callable[[MemoryState], MemoryState]) -> Self:
        return replace(
            self,
            **{
                name: {layer: change(state) for layer, state in getattr(self, name).items()}
                for name in ("encoder", "decoder", "ahead")
            },
        )


@dataclass
class AwesomeEncoderOutput(BaseModelOutput):
    """The library's output and the memory of the encoder after the segment."""

    memory: Any = None


@dataclass
class AwesomeOutput(Seq2SeqLMOutput):
    """The library's output and the memories after the segment."""

    memory: Any = None


class AwesomePreTrainedModel(ModelHooks, BartPreTrainedModel):
    """How new weights start: at the starting values of the modules that have them."""

    config_class = AwesomeConfig
    undivided = ("AwesomeEncoderLayer", "AwesomeDecoderLayer")

    @torch.no_grad()
    def start_weights(self, module: nn.Module) -> None:
        """Of memories and salient projections."""
        if isinstance(module, HasStartingValues):
            for tensor, value in module.starting_values():
                init.copy_(tensor, value)


class AwesomeEncoder(AwesomePreTrainedModel, BartEncoder):
    """BART's encoder in two parts: the trunk, which reads no memory, and the layers from the first memory on."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        layers = [AwesomeEncoderLayer(config, index) for index in range(config.encoder_layers)]
        self.layers: Any = nn.ModuleList(layers)  # typed: torch's lists have no item type
        self.remembering = config.layers_with_memory(config.encoder_layers)
        """The numbers of the layers with a memory."""
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
        salience: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> AwesomeEncoderOutput:
        """One segment of each document. `trunk` is the result of `trunk()` for it, if that was computed before.

        `salience` says how salient the sentence of each token is, 0 if it is not selected: (B, N); for the memory.
        """
        if trunk is None:
            if input_ids is None:
                raise ValueError("give the tokens of the segment (input_ids), or their trunk")
            trunk = self.trunk(input_ids, attention_mask, salient)
        hidden = trunk
        if attention_mask is None:
            attention_mask = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
        before = memory or self.start(hidden.shape[0])
        given = Pass(self.recollect(before), self.recollect(ahead or {}, ahead=True), salient)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=hidden, attention_mask=attention_mask)
        for layer in self.layers[self.first :]:
            hidden = layer(hidden, mask, given)
        after = _states_after(given.memory, before, given.written, attention_mask.bool(), salience)
        return AwesomeEncoderOutput(last_hidden_state=hidden, memory=after)

    def start(self, documents: int, ahead: bool = False, depth: int | None = 1) -> dict[int, MemoryState]:
        """The states before the first segment; with `ahead`, those after the last. `depth`: see `MemoryState`."""
        memories = {
            index: self.layers[index].ahead if ahead else self.layers[index].memory for index in self.remembering
        }
        return {index: replace(memory.start(documents), depth=depth) for index, memory in memories.items()}

    def recollect(self, states: States, ahead: bool = False) -> dict[int, Recollection]:
        """What the layers read during the next segment."""
        return {
            index: self.layers[index].recall(
                self.layers[index].ahead if ahead else self.layers[index].memory, states[index]
            )
            for index in states
        }

    @torch.no_grad()
    def look_ahead(
        self,
        trunk: torch.Tensor,
        attention_mask: torch.Tensor,
        ahead: States,
        salient: Salient | None = None,
        salience: torch.Tensor | None = None,
    ) -> dict[int, MemoryState]:
        """One step from the last segment to the first: the states of the second memory, with this segment pending."""
        given = Pass(ahead=self.recollect(ahead, ahead=True), salient=salient)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=trunk, attention_mask=attention_mask)
        hidden = trunk
        for layer in self.layers[self.first :]:
            hidden = layer(hidden, mask, given)
        return _states_after(given.ahead, ahead, given.written, attention_mask.bool(), salience)


def _states_after(
    recollections: Mapping[int, Recollection],
    before: States,
    written: dict[int, torch.Tensor],
    mask: torch.Tensor,
    salience: torch.Tensor | None = None,
) -> dict[int, MemoryState]:
    """The states after a segment. A layer that layerdrop skipped has written nothing and keeps its state."""
    return {
        index: recollection.then(written[index], mask, salience) if index in written else before[index].cut()
        for index, recollection in recollections.items()
    }


class AwesomeDecoder(AwesomePreTrainedModel, BartDecoder):
    """BART's decoder, whose loop passes `given` on to the layers. In training it can run in two parts."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        layers = [AwesomeDecoderLayer(config, index) for index in range(config.decoder_layers)]
        self.layers: Any = nn.ModuleList(layers)  # typed: torch's lists have no item type
        self.remembering = config.layers_with_memory(config.decoder_layers)
        """The numbers of the layers with a memory."""
        self.first = min(self.remembering, default=config.decoder_layers)
        """The first layer with a memory."""
        self.post_init()

    def trunk(self, input_ids: torch.Tensor, encoded: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The hidden states below the first memory, for any number of segments at once: (B, N, d).

        `encoded` is the encoder's output for the segments, `attention_mask` says which of it is not padding. For
        training, where all tokens are known; padding comes after them, so that none of them sees it.
        """
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        embedded = self.embed_tokens(input_ids)
        hidden = self.layernorm_embedding(embedded + self.embed_positions(input_ids, position_ids=positions))
        hidden = nn.functional.dropout(hidden, p=self.dropout, training=self.training)
        return self._run_layers(self.layers[: self.first], hidden, encoded, attention_mask, Pass())

    def run_top_layers(
        self, trunk: torch.Tensor, encoded: torch.Tensor, attention_mask: torch.Tensor | None, given: Pass
    ) -> torch.Tensor:
        """The hidden states of one segment of each document, from its trunk."""
        return self._run_layers(self.layers[self.first :], trunk, encoded, attention_mask, given)

    def _run_layers(
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

    def start(self, documents: int, depth: int | None = 1) -> dict[int, MemoryState]:
        """The states before the first segment. `depth`: see `MemoryState`."""
        return {index: replace(self.layers[index].memory.start(documents), depth=depth) for index in self.remembering}

    def recollect(self, states: States) -> dict[int, Recollection]:
        """What the layers read during the next segment."""
        return {index: self.layers[index].recall(self.layers[index].memory, state) for index, state in states.items()}


class AwesomeModel(AwesomePreTrainedModel, BartModel):
    """BART's encoder and decoder with memories."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        self.encoder = AwesomeEncoder(config)
        self.decoder = AwesomeDecoder(config)
        self.post_init()


def _check_same(name: object, saved: AwesomeConfig, wanted: AwesomeConfig) -> None:
    for option in _FIXED_BY_TRAINING:
        before, after = (
            list(value) if isinstance(value, tuple) else value
            for value in (getattr(saved, option), getattr(wanted, option))
        )
        if before != after:
            raise AwesumError(
                f"{name} was trained with {option}={before!r}, not {after!r}: "
                f"load it as it is ({option}={before!r}), or train another from the pretrained model"
            )


def _check_complete(name: object, report: Mapping[str, Any], is_ours: bool, any_size: bool) -> None:
    """Refuse weights that would be left untrained; only a plain BART may lack those that we add."""
    wrong = {
        "of another size": set() if any_size else {key for key, *_ in report["mismatched_keys"]},
        "missing": {key for key in report["missing_keys"] if is_ours or not _NEW_WEIGHT.search(key)},
        "unknown": set(report["unexpected_keys"]) if is_ours else set(),
    }
    refuse_wrong_weights(
        name, wrong, "give a folder as it was saved, whole, or train another from the pretrained model"
    )


class AwesomeBart(AwesomePreTrainedModel, BartForConditionalGeneration):
    """The paper's model. Without memory and salient content it is BART, number for number."""

    def __init__(self, config: AwesomeConfig) -> None:
        super().__init__(config)
        self.model = AwesomeModel(config)
        self.post_init()

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: Any,
        *args: Any,
        config: Any = None,
        local_files_only: bool = False,
        use_safetensors: bool | None = None,
        trust_remote_code: bool | None = None,
        ignore_mismatched_sizes: bool = False,
        output_loading_info: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Load our checkpoint, or add memory to a plain BART: `from_pretrained("facebook/bart-large", memory=...)`.

        Takes what every model of the library takes, except weights that are not safetensors and code from a model's
        folder. With `output_loading_info=True` it returns the model and the library's report, as the library does.
        """
        name = pretrained_model_name_or_path
        if use_safetensors is False:
            raise AwesumError("only safetensors weights are loaded: leave out use_safetensors=False")
        if trust_remote_code:
            raise AwesumError("code from a model's folder is never run: leave out trust_remote_code=True")
        with loading(str(name), kind="a folder with config.json and safetensors weights") as (source, options):
            options["local_files_only"] |= local_files_only
            saved = config_of(source, {**options, **{key: kwargs[key] for key in _OF_THE_HUB if key in kwargs}})
            is_ours = saved.get("model_type") == AwesomeConfig.model_type
            saved = current(saved) if is_ours else saved
            if not is_ours and saved.get("model_type") != BartConfig.model_type:
                raise AwesumError(
                    f"{name} is a {saved.get('model_type')!r} model: give a BART model, or a folder that awesum trained"
                )
            if config is None:
                known = AwesomeConfig.__dataclass_fields__.keys() - {"dtype"}  # the library takes care of that
                ours = {key: kwargs.pop(key) for key in list(kwargs) if key in known}
                config = AwesomeConfig(**{**saved, "model_type": AwesomeConfig.model_type, **ours})
            elif isinstance(config, (str, os.PathLike)):
                config = AwesomeConfig.from_pretrained(config)
            if is_ours:
                _check_same(name, AwesomeConfig(**saved), config)
            model, report = super().from_pretrained(
                source,
                *args,
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # reported by `_check_complete`
                output_loading_info=True,
                **options,
                **kwargs,
            )
            _check_complete(name, report, is_ours, ignore_mismatched_sizes)
            result: Any = (model, report) if output_loading_info else model
            return result

    def start(self, documents: int, depth: int | None = 1) -> Memories:
        """The memories before the first segment. `depth`: how many updates a loss goes back; None: all."""
        encoder, decoder = self.model.encoder, self.model.decoder
        return Memories(encoder.start(documents, depth=depth), decoder.start(documents, depth=depth))

    def new_weights(self) -> dict[str, nn.Parameter]:
        """The weights that a pretrained BART does not have, by name."""
        return {name: weight for name, weight in self.named_parameters() if _NEW_WEIGHT.search(name)}

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
        salience: torch.Tensor | None = None,
        decoder_trunk: torch.Tensor | None = None,
        use_loss: bool = True,
        **kwargs: Any,
    ) -> AwesomeOutput:
        """One segment of each document: the memories before it in, its logits and the memories after it out.

        `decoder_memory` is what the decoder reads, computed once a segment; given during generation. `salience` says
        how salient the sentence of each token is, for a memory that keeps the most salient. `decoder_trunk` is the
        result of the decoder's `trunk`, if that was computed before. `use_loss=False` leaves the loss to the caller,
        who may want to weight it.
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
                salience=salience,
            )
        before = memory.decoder if memory else {}
        if decoder_memory is None:
            before = before or self.model.decoder.start(decoder_input_ids.shape[0])
            decoder_memory = self.model.decoder.recollect(before)
        given = Pass(decoder_memory)
        if decoder_trunk is not None:
            top = self.model.decoder.run_top_layers(decoder_trunk, encoder_outputs[0], attention_mask, given)
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
                getattr(encoder_outputs, "memory", None) or {}, _states_after(given.memory, before, given.written, mask)
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
    """The configuration of what `load_recurrent` loads; a plain BART has no memory."""
    with loading(name) as (source, options):
        saved = config_of(source, options)
        if saved.get("model_type") == AwesomeConfig.model_type:
            saved = current(saved)
        bare = {} if saved.get("model_type") == AwesomeConfig.model_type else {"memory": NO_MEMORY}
        return AwesomeConfig(**{**saved, "model_type": AwesomeConfig.model_type, **bare})


def load_recurrent(name: str) -> AwesomeBart:
    """A model for generation, on the fastest device: one that awesum trained, or a plain BART without memory."""
    device, dtype, _ = choose_device()
    return AwesomeBart.from_pretrained(name, config=load_config(name), dtype=dtype).to(device).eval()


AutoModelForSeq2SeqLM.register(AwesomeConfig, AwesomeBart)
