"""A causal chat model: prompts in, texts out, many side by side.

Prompts are read one at a time (reading is bound by arithmetic, and alone there is nothing to pad or mask) and
answered together (writing is bound by memory traffic, which a batch shares). What all prompts of a batch begin with is
read once. The library's own `generate` does the writing. Knows nothing of documents, segments or salience.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    StaticCache,
    StoppingCriteria,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

SHORTEST = 8
"""Tokens. A part is at least this long: a model that ends before it began has only lost its thread."""
NO_REPEAT = 6
"""No run of this many tokens is written twice in a part."""
_SENTENCE_BEGUN = re.compile(r"[.!?؟۔।][\"'”’)\]]*\s+\S|[。！？]\S")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_PLACE = "\u2063"  # an invisible character that no chat template holds: marks where the user's text goes


@dataclass(frozen=True)
class Prompt:
    """What the model reads, and when it may stop writing."""

    tokens: list[int]
    enough: Callable[[str], bool]
    """Whether a text says enough; asked when a new sentence has begun."""
    limit: int
    """Tokens after which writing ends in any case."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The library's SDPA attention, without copying keys and values once a query head while decoding.

    The heads of a group share their keys and values. For a single new token they can stand in for several query
    positions of one head, which is the same sum and moves a third of the memory (for SmolLM2's groups of three).
    """
    batch, heads, length, size = query.shape
    groups = key.shape[1]
    if length > 1 or heads == groups or kwargs.get("position_bias") is not None or kwargs.get("softcap") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    folded = query.view(batch, groups, heads // groups, size)
    output = torch.nn.functional.scaled_dot_product_attention(
        folded, key, value, attn_mask=attention_mask, scale=scaling
    )
    return output.reshape(batch, heads, 1, size).transpose(1, 2), None


AttentionInterface.register("awesum_grouped", grouped_attention)
AttentionMaskInterface.register("awesum_grouped", sdpa_mask)


def choose_device() -> tuple[torch.device, torch.dtype, str]:
    """Device and number format that this machine is fast with, and the reason."""
    if torch.cuda.is_available():
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.device("cuda"), dtype, "a CUDA device is there"
    if torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported():
        return torch.device("cpu"), torch.bfloat16, "no GPU; the processor multiplies bfloat16 in hardware"
    return (
        torch.device("cpu"),
        torch.float32,
        "no GPU; the processor has no bfloat16 arithmetic, which would be emulated",
    )


def load_tokenizer(name: str, folder: Path | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a model without the model."""
    with _loading(name, folder) as (source, options):
        return AutoTokenizer.from_pretrained(source, **options)


def load_window(name: str, folder: Path | None = None) -> int:
    """How many tokens a model can look at, without the model."""
    with _loading(name, folder) as (source, options):
        return _window(AutoConfig.from_pretrained(source, **options))


def _window(config: PretrainedConfig) -> int:
    return int(getattr(config.get_text_config(), "max_position_embeddings", 2048))


@contextmanager
def _loading(name: str, folder: Path | None) -> Iterator[tuple[str | Path, dict[str, Any]]]:
    """Where to load from and how; what goes wrong on the way is the user's to know in one line."""
    source = folder or (Path(name) if Path(name).is_dir() else name)
    if isinstance(source, str) and not _HUB_NAME.fullmatch(source):
        raise AwesumError(f"there is no folder {name}: give a model's folder, or its name on the hub such as org/model")
    getLogger("huggingface_hub").setLevel(ERROR)  # its retries are not the user's business; that it failed is
    try:
        yield source, {"local_files_only": isinstance(source, Path), "trust_remote_code": False}
    except AwesumError:
        raise
    except Exception as error:  # the library raises a dozen kinds here, all of them meaning "this is no such model"
        reasons = str(error).strip().splitlines() or [type(error).__name__]
        raise AwesumError(
            f"cannot load the model {name!r} ({reasons[0].rstrip('.:')}): "
            "give a folder with config.json, tokenizer and safetensors weights, or a model's name on the hub"
        ) from error


class ChatModel:
    """A causal language model with its chat template; `write` is the heart of it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, reason: str = "") -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.reason = reason
        """Why it runs on this device in this number format."""
        self.window = _window(model.config)
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation("awesum_grouped")
        self._before, self._behind = self._frame()

    @classmethod
    def load(cls, name: str, folder: Path | None = None) -> ChatModel:
        """Load from `folder`, or else by `name`: a folder, or a name on the hub, which the user named.

        Safetensors only, and no code but the library's.
        """
        device, dtype, reason = choose_device()
        with _loading(name, folder) as (source, options):
            config = AutoConfig.from_pretrained(source, **options)
            if config.is_encoder_decoder:
                raise AwesumError(f"{name} is an encoder-decoder model; --model takes a causal chat model")
            model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, **options)
        return cls(model.to(device), load_tokenizer(name, folder), name, reason)

    def _frame(self) -> tuple[list[int], list[int]]:
        """The tokens that the chat template puts before and behind the user's text."""
        if self.tokenizer.chat_template is None:
            return self._ids(""), self._ids("\n\n")
        system = {"role": "system", "content": "You summarize documents."}
        user = {"role": "user", "content": _PLACE}
        try:
            text = self.tokenizer.apply_chat_template([system, user], add_generation_prompt=True, tokenize=False)
        except Exception:  # some templates refuse a system message
            text = self.tokenizer.apply_chat_template([user], add_generation_prompt=True, tokenize=False)
        before, behind = text.split(_PLACE)
        return tuple(self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, behind))

    def _ids(self, text: str) -> list[int]:
        # A document may hold the very marks of the chat template: they are text there, not marks.
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]

    def prompt(self, text: str) -> list[int]:
        """The tokens of a chat in which the user says `text` and the model is about to answer."""
        return [*self._before, *self._ids(text), *self._behind]

    def bytes_per_token(self) -> int:
        """What one token of one prompt takes while it is remembered: its keys and values in every layer."""
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * self.model.dtype.itemsize)

    @torch.inference_mode()
    def write(self, prompts: Sequence[Prompt]) -> list[str]:
        """The model's answers, decoded side by side."""
        # Attention weights far from the action become denormal numbers, which processors multiply up to a hundred times
        # slower. As zeros they change nothing that can be seen, and reading a prompt is five times as fast. The switch
        # is one of the thread, so it is set where the work is done.
        torch.set_flush_denormal(True)
        cache, mask = self._read([prompt.tokens for prompt in prompts], max(prompt.limit for prompt in prompts))
        output = self.model.generate(
            # All but the last token is in the cache: the library sees, and keeps from repeating, only what is new.
            torch.tensor([prompt.tokens[-1:] for prompt in prompts], device=self.model.device),
            attention_mask=mask,
            past_key_values=cache,
            stopping_criteria=[_Enough(self.tokenizer, prompts)],
            max_new_tokens=max(prompt.limit for prompt in prompts),
            min_new_tokens=SHORTEST,
            no_repeat_ngram_size=NO_REPEAT,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=self._pad(),
            disable_compile=True,
        )
        return [
            self.tokenizer.decode(row[1 : 1 + prompt.limit], skip_special_tokens=True).strip()
            for row, prompt in zip(output, prompts, strict=True)
        ]

    def _pad(self) -> int:
        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        return int(pad if pad is not None else end)

    def _read(self, prompts: Sequence[list[int]], room: int) -> tuple[StaticCache, torch.Tensor]:
        """Keys and values of all but the last token of each prompt, left-padded into one cache with `room` behind."""
        shared = _common_prefix(prompts) if len(prompts) > 1 else 0
        prefix = self._forward(prompts[0][:shared], None) if shared else None
        longest = max(map(len, prompts)) - 1
        mask = torch.zeros((len(prompts), longest + 1), dtype=torch.long, device=self.model.device)
        batch = StaticCache(config=self.model.config, max_cache_len=longest + 1 + room)
        for row, prompt in enumerate(prompts):
            first = longest - (len(prompt) - 1)
            mask[row, first:] = 1
            alone = self._forward(prompt[shared:-1], prefix)
            for ours, its in zip(batch.layers, alone.layers, strict=True):
                if not ours.is_initialized:
                    ours.lazy_initialization(
                        *(states.expand(len(prompts), -1, -1, -1) for states in (its.keys, its.values))
                    )
                ours.keys[row, :, first:longest] = its.keys[0]
                ours.values[row, :, first:longest] = its.values[0]
        for layer in batch.layers:
            layer.cumulative_length.fill_(longest)
        return batch, mask

    def _forward(self, tokens: list[int], prefix: DynamicCache | None) -> DynamicCache:
        """Read `tokens` behind `prefix`, which stays as it is."""
        cache = DynamicCache(config=self.model.config)
        if prefix is not None:
            for layer, before in zip(cache.layers, prefix.layers, strict=True):
                layer.lazy_initialization(before.keys, before.values)
                layer.keys, layer.values = before.keys, before.values
        ids = torch.tensor([tokens], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
        return cache


class _Enough(StoppingCriteria):
    """Ends each row on its own: at its limit, or behind a sentence when that is enough."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> None:
        self.tokenizer, self.prompts = tokenizer, prompts

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any) -> torch.Tensor:
        written = input_ids[:, 1:]
        done = [self._is_done(row, prompt) for row, prompt in zip(written, self.prompts, strict=True)]
        return torch.tensor(done, device=input_ids.device)

    def _is_done(self, row: torch.Tensor, prompt: Prompt) -> bool:
        if len(row) >= prompt.limit:
            return True
        tail = self.tokenizer.decode(row[-6:], skip_special_tokens=True)
        return bool(_SENTENCE_BEGUN.search(tail)) and prompt.enough(
            self.tokenizer.decode(row, skip_special_tokens=True)
        )


def _common_prefix(prompts: Sequence[list[int]]) -> int:
    """How many tokens all prompts begin with, leaving each at least two of its own."""
    shortest = min(map(len, prompts)) - 2
    first = prompts[0]
    return next((at for at in range(shortest) if any(prompt[at] != first[at] for prompt in prompts)), max(shortest, 0))
