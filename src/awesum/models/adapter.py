"""Memory for causal language models: an adapter around some layers of a pretrained model.

A causal model reads a segment and a request (the prompt) and writes an answer after them. The answer passes through the
adapter: two memories for each of some layers (of the segments' tokens and of the summary's: the paper's encoder and
decoder memory) and, optionally, an update of the last layers' weights. The prompt passes through the pretrained layers
unchanged, so that everything computed before the answer is the same for every adapter, every query and every epoch, and
can be cached; or, with `adapted_tokens="all"`, through the adapter too, and only the layers below it can be.

The library's own model runs it all: its layers are wrapped, and receive a `Passage` as a keyword argument.
Knows nothing about documents, texts or training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from awesum import compat
from awesum.errors import AwesumError
from awesum.memory import MemoryState, Recollection
from awesum.models.adapter_config import AdapterConfig, read_config
from awesum.models.adapter_layers import UNSUPPORTED, LowRank, Passage, Recollections, RememberingLayer, Roles
from awesum.models.attention import GROUPED
from awesum.settings import ADAPTER

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

__all__ = ["AdapterConfig", "AwesomeCausal", "read_config"]

WEIGHTS = "adapter.safetensors"


States = Mapping[int, Mapping[str, MemoryState]]
"""The number of a layer -> `source` and `summary` -> the state of that memory."""


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
        if not compat.is_fake(base.get_input_embeddings().weight):  # a plan's have no device and no contents
            self.to(device=base.device)
            self._check()

    @torch.no_grad()
    def _check(self) -> None:
        """Refuse layers that compute something else when run in parts: some add the same parts differently."""
        ids = torch.tensor([[0, 1]], device=self.device)
        whole, parts = (
            self.base.get_decoder()(input_ids=ids, use_cache=False, **options).last_hidden_state
            for options in ({}, {"passage": Passage(adapted=True)})
        )
        if not torch.allclose(whole, parts, rtol=1e-2, atol=1e-2):
            raise AwesumError(UNSUPPORTED.format(type(self.base).__name__))

    @property
    def first(self) -> int:
        """The number of the first layer above the trunk."""
        return self.roles.first

    @property
    def adapts_prompt(self) -> bool:
        """Whether the prompt passes through the adapter as well as the answer."""
        return self.adapter_config.adapted_tokens == "all"

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
        """The passage of tokens that read what was recalled."""
        layers = self.base.get_decoder().layers
        extra = {index: layers[index].extra(of) for index, of in recalled.items()}
        return Passage(
            adapted=True,
            memory={index: of for index, of in recalled.items() if self.can_read(index)},
            extra={index: source for index, source in extra.items() if source is not None},
            trunk=trunk,
            stops_gradient=all(each.stops_gradient for of in recalled.values() for each in of.values()),
        )

    def for_prompt(self, recalled: Recollections) -> Passage:
        """The passage of a prompt: it reads what was recalled only if it passes through the adapter."""
        return self.with_memory(recalled) if self.adapts_prompt else Passage()

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
        wanted_settings = self.roles.settings
        for name, was in Roles(saved_config, self.roles.layers).settings.items():
            if was != wanted_settings[name]:
                raise AwesumError(
                    f"{folder} was trained with {name}={was!r}, not {wanted_settings[name]!r}: load it as it is "
                    f"({name}={was!r}), or train another from the pretrained model"
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
    (B, P). `written` are those that predict the answer, the first `answered` of them, or a mask, (B, A): each row of it
    starts with the prompt's last token, and there are none if nothing was asked. `salience` says how salient the
    sentence of each of the segment's tokens is: (B, segment), or (B, P).
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
        # Of the tokens that predict an answer, the first is the prompt's last.
        summary_mask = answered[:, 1:] & answered[:, :-1] if isinstance(answered, torch.Tensor) else _all_of(summary)
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
