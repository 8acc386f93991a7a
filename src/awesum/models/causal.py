"""A causal chat model: loading it, reading prompts, and looking at several rows at once.

What to read and write, and for whom, is the engine's to say. Knows nothing of documents, segments or salience.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from awesum import compat
from awesum.errors import AwesumError
from awesum.loading import choose_device, load_tokenizer, loading, window_of
from awesum.models.adapter import AwesomeCausal, States, after, ends_of, salience_row
from awesum.models.adapter_config import AdapterConfig, is_adapter, read_config
from awesum.models.adapter_layers import Passage, Recollections
from awesum.models.attention import GROUPED
from awesum.models.chat import Chat
from awesum.models.masks import layer_kinds, visible
from awesum.models.prefix_cache import PrefixCache
from awesum.settings import SMOLLM2
from awesum.weights import smollm2_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from awesum.models.prompt import Prompt


def _pretrained(name: str, folder: Path | None) -> tuple[PreTrainedModel, str]:
    """A causal model on the device and in the number format that this machine is fast with, and the reason for it."""
    device, dtype, reason = choose_device()
    with loading(name, folder) as (source, options):
        config = AutoConfig.from_pretrained(source, **options)
        if config.is_encoder_decoder:
            raise AwesumError(f"{name} is an encoder-decoder model; --model takes a causal chat model or a BART")
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, **options)
    return model.to(device).eval(), reason


def blank(saved: Mapping[str, Any], dtype: torch.dtype) -> PreTrainedModel:
    """A causal model of the configuration `saved`, with new weights."""
    options = dict(saved)
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


def load_base(name: str, config: AdapterConfig) -> tuple[AwesomeCausal, PreTrainedTokenizerBase]:
    """The model that an adapter belongs to, with a fresh adapter around its layers, and its tokenizer."""
    folder = smollm2_folder() if name == SMOLLM2 else None
    model, _ = _pretrained(name, folder)
    return AwesomeCausal(model, config), load_tokenizer(name, folder)


class ChatModel:
    """A causal language model with its chat template and, perhaps, an adapter."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        reason: str = "",
        adapter: AwesomeCausal | None = None,
    ) -> None:
        self.model = model.eval()
        self.adapter = adapter.eval() if adapter else None
        """The adapter around the model's layers, if there is one: it may have memories, and was trained to end."""
        self.tokenizer = tokenizer
        self.name = name
        self.reason = reason
        """Why it runs on this device in this number format."""
        self.prefix_cache: PrefixCache | None = None
        """On disk: the keys and values of segments that were read before; for a model with an adapter."""
        self.window = window_of(model.config)
        if compat.attention_implementation(model.config) == "sdpa" and compat.takes_attention_backend(model):
            model.set_attn_implementation(GROUPED)
        self.chat = Chat(tokenizer)

    @classmethod
    def load(cls, name: str, folder: Path | None = None) -> ChatModel:
        """Load from `folder`, or else by `name`: a folder, or a name on the hub, which the user named.

        Safetensors only, and no code but the library's.
        """
        if folder is None and is_adapter(name):
            config = read_config(name)
            model, tokenizer = load_base(config.base, config)
            model.load_adapter(name)
            return cls.with_adapter(model, tokenizer, name)
        pretrained, reason = _pretrained(name, folder)
        return cls(pretrained, load_tokenizer(name, folder), name, reason)

    @classmethod
    def with_adapter(cls, model: AwesomeCausal, tokenizer: PreTrainedTokenizerBase, name: str) -> ChatModel:
        """A model that is ready to write with its adapter, and no longer to train it."""
        model.merge()
        model.to(model.base.dtype)
        return cls(model.base, tokenizer, name, choose_device()[2], model)

    @property
    def ending(self) -> float:
        """The probability from which on a model with an adapter ends its answer."""
        assert self.adapter is not None
        return self.adapter.adapter_config.ending

    def prompt(self, text: str) -> list[int]:
        """The tokens of a chat in which the user says `text` and the model is about to answer."""
        return self.chat.prompt(text)

    def bytes_per_token(self) -> int:
        """What one token of one prompt takes while its answer is written: its keys and values in every layer."""
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * self.model.dtype.itemsize)

    def bytes_of_memory(self) -> int:
        """What the memories of one document take besides, at most."""
        return self.adapter.bytes_of_memory() if self.adapter else 0

    @torch.inference_mode()
    def read(self, prompt: Prompt, passage: Passage, end: int | None = None) -> DynamicCache:
        """The keys and values of a prompt's tokens before `end`; the first step will look at its last once more."""
        tokens = prompt.tokens[:end]
        if self.prefix_cache is None or not prompt.segment.stop:
            return self._pass(tokens, passage)
        cache = self.prefix_cache.read(tokens[: prompt.segment.stop], passage, self._pass)
        if rest := tokens[prompt.segment.stop :]:
            # Like the segment, but what it writes is the request's, which no memory takes.
            self._pass(rest, replace(passage, trunk=None, written={}), cache)
        return cache

    def _pass(self, tokens: Sequence[int], passage: Passage, cache: DynamicCache | None = None) -> DynamicCache:
        """The keys and values of tokens, added to those in `cache` that they follow."""
        # Without the model's config, no layer of the cache drops what has left its window.
        cache = DynamicCache() if cache is None else cache
        ids = torch.tensor([[*tokens]], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True, **self._with(passage))
        return cache

    @torch.inference_mode()
    def recall(self, states: States | None) -> Recollections:
        """What the next prompt's answer reads, given the memories after the prompts before it, if there were any."""
        return self.adapter.recall(states or self.adapter.start(1)) if self.adapter else {}

    @torch.inference_mode()
    def passage(self, recalled: Recollections) -> Passage:
        """The passage of a prompt, for `read`."""
        return self.adapter.for_prompt(recalled) if self.adapter else Passage()

    @torch.inference_mode()
    def remember(self, prompt: Prompt, states: States | None) -> States | None:
        """The memories after a prompt whose answer is known."""
        if self.adapter is None or not self.adapter.roles.remembering:
            return None
        known = prompt.known or ()
        salience = salience_row(prompt.salience, self.model.device)
        if not known and not self.adapter.adapts_prompt:  # nothing is read from memory
            read = Passage()
            self.read(prompt, read, prompt.segment.stop)
            settled = self.adapter.settle(states or self.adapter.start(1))
            return after(settled, read.written, prompt.segment, {}, 0, salience)
        recalled = self.recall(states)
        read = self.passage(recalled)
        if not known:  # then only the segment's own tokens are remembered
            self.read(prompt, read, prompt.segment.stop)
            return after(recalled, read.written, prompt.segment, {}, 0, salience)
        cache = self.read(prompt, read, -1)
        written = self.adapter.with_memory(recalled)
        ids = torch.tensor([[prompt.tokens[-1], *known]], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True, passage=written)
        # The last token of an answer that ended at its limit was not looked at.
        answered = len(known) + (len(known) < prompt.limit)
        return after(recalled, read.written, prompt.segment, written.written, answered, salience)

    def _with(self, passage: Passage) -> dict[str, Passage]:
        """What only a model with an adapter takes."""
        return {"passage": passage} if self.adapter else {}

    def look(self, slots: Any, ids: list[list[int]], positions: list[list[int]], passage: Passage) -> torch.Tensor:
        """What the model would write after each of `ids`, which are at `positions` of the first rows of `slots`."""
        device = self.model.device
        slots.positions = torch.tensor(positions, device=device)
        slots.end = 1 + max(map(max, positions))
        return self.model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=visible(self.model.config, slots.positions, torch.arange(slots.end, device=device)),
            position_ids=slots.positions,
            past_key_values=slots,
            use_cache=True,
            **self._with(passage),
        ).logits

    @cached_property
    def can_step(self) -> bool:
        """Whether the model looks back by attention alone, each layer by its own keys and values, and takes our masks.

        A state that has seen a wrongly drafted token cannot be taken back, and another kind of layer wants another
        mask.
        """
        config = self.model.config.get_text_config()
        can = (
            compat.attention_implementation(config) == GROUPED
            and not compat.is_stateful(self.model)
            and layer_kinds(config) <= {"full_attention", "sliding_attention"}
            and not getattr(config, "num_kv_shared_layers", None)
            and "position_ids" in signature(self.model.forward).parameters
        )
        if self.adapter and not can:
            raise AwesumError(f"{self.name} is of a kind that memory is not for: give a Llama, Qwen, Mistral or Gemma")
        return can

    @torch.inference_mode()
    def generate(
        self,
        prompt: Prompt,
        forbidden: Callable[[], set[int]],
        take: Callable[[int], bool],
    ) -> None:
        """Answer one prompt by the library's own loop, for a model that cannot step.

        `forbidden` names the tokens that may not come next; `take` gets each token and says whether it was the last.
        """
        ids = torch.tensor([prompt.tokens], device=self.model.device)

        def forbid(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores[0, list(forbidden())] = -torch.inf
            return scores

        def stop(input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
            return torch.tensor([take(int(input_ids[0, -1]))], device=input_ids.device)

        self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            logits_processor=[forbid],
            stopping_criteria=[stop],
            max_new_tokens=prompt.limit,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            repetition_penalty=1.0,
            pad_token_id=0,  # of a single row, nothing is padded
            disable_compile=True,
        )

    def ends(self) -> list[int]:
        """The tokens with which the model ends an answer."""
        ends = ends_of(self.model)
        return ends or [end for end in (self.tokenizer.eos_token_id,) if end is not None]
