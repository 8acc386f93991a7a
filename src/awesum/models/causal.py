"""A causal chat model: prompts in, texts out, many side by side.

Prompts are read one at a time (reading is bound by arithmetic, and alone there is nothing to pad or mask) and
answered together (writing is bound by memory traffic, which a batch shares). What all prompts of a batch begin with is
read once; an answer that ends makes room for the next. The library's own `generate` does the writing. Knows nothing of
documents, segments or salience.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
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
ROUND = 32
"""Tokens that are written to all rows before those that have ended leave and others join."""
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

    def write(self, prompts: Iterable[Prompt], side_by_side: int = 8) -> Iterator[str]:
        """The answers in the order of the prompts, each as soon as it and all before it are written.

        At most `side_by_side` are written at a time. A prompt is asked for when there is room for it, and an answer
        that ends makes room: no row waits for a longer one beside it.
        """
        for tokens in self.write_tokens(prompts, side_by_side):
            yield self.tokenizer.decode(tokens, skip_special_tokens=True).strip()

    def write_tokens(self, prompts: Iterable[Prompt], side_by_side: int = 8) -> Iterator[list[int]]:
        """What `write` gives, as tokens."""
        # Attention weights far from the action become denormal numbers, which processors multiply up to a hundred times
        # slower. As zeros they change nothing that can be seen, and reading a prompt is five times as fast. The switch
        # is one of the thread, so it is set where the work is done.
        torch.set_flush_denormal(True)
        coming = enumerate(prompts)
        cache: StaticCache | None = None
        rows: list[_Row] = []
        ended: dict[int, list[int]] = {}
        given = 0
        while True:
            joining = [_Row(number, prompt) for number, prompt in islice(coming, side_by_side - len(rows))]
            if not rows and not joining:
                return
            cache = self._pack(cache, rows, joining)
            rows += joining
            self._round(cache, rows)
            ended |= {row.number: row.written for row in rows if row.has_ended}
            for slot, row in enumerate(rows):
                row.slot = slot
            rows = [row for row in rows if not row.has_ended]
            while given in ended:
                yield ended.pop(given)
                given += 1

    @torch.inference_mode()
    def _pack(self, old: StaticCache | None, staying: list[_Row], joining: list[_Row]) -> StaticCache:
        """One cache for a round: the rows that stay, moved over layer by layer, and those that join, read one by one.

        All rows end at the same position, so that the next token of each is the next column: shorter ones are padded
        on the left. Every row's last token is left to the round.
        """
        rows = [*staying, *joining]
        longest = max(row.cached for row in rows)
        cache = StaticCache(config=self.model.config, max_cache_len=longest + ROUND + 1)
        tokens = [row.prompt.tokens for row in joining]
        shared = _common_prefix(tokens) if len(tokens) > 1 else 0
        prefix = self._forward(tokens[0][:shared], None) if shared else None
        for layer_number, layer in enumerate(cache.layers):
            if old is None:
                break
            past = old.layers[layer_number]
            end = int(past.cumulative_length)
            layer.lazy_initialization(
                *(states[:1].expand(len(rows), -1, -1, -1) for states in (past.keys, past.values))
            )
            for slot, row in enumerate(staying):
                layer.keys[slot, :, longest - row.cached : longest] = past.keys[row.slot, :, end - row.cached : end]
                layer.values[slot, :, longest - row.cached : longest] = past.values[row.slot, :, end - row.cached : end]
            past.keys = past.values = None  # one layer at a time is there twice, not the whole cache
        for slot, row in enumerate(joining, len(staying)):
            alone = self._forward(row.prompt.tokens[shared:-1], prefix)
            for layer, its in zip(cache.layers, alone.layers, strict=True):
                if not layer.is_initialized:
                    layer.lazy_initialization(
                        *(states.expand(len(rows), -1, -1, -1) for states in (its.keys, its.values))
                    )
                layer.keys[slot, :, longest - row.cached : longest] = its.keys[0]
                layer.values[slot, :, longest - row.cached : longest] = its.values[0]
        for layer in cache.layers:
            layer.cumulative_length.fill_(longest)
        return cache

    @torch.inference_mode()
    def _round(self, cache: StaticCache, rows: list[_Row]) -> None:
        """Write up to `ROUND` more tokens to every row, with the library's own generation."""
        longest = max(row.cached for row in rows)
        mask = torch.zeros((len(rows), longest + 1), dtype=torch.long)
        for slot, row in enumerate(rows):
            mask[slot, longest - row.cached :] = 1
        rules = _Rules(self.tokenizer, rows, self._ends())
        output = self.model.generate(
            torch.tensor([[row.last] for row in rows], device=self.model.device),
            attention_mask=mask.to(self.model.device),
            past_key_values=cache,
            stopping_criteria=[rules.stop],
            logits_processor=[rules.forbid],
            max_new_tokens=ROUND,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=self._pad(),
            disable_compile=True,
        )
        for row, tokens in zip(rows, output[:, 1:].tolist(), strict=True):
            rules.take(row, tokens)

    def _pad(self) -> int:
        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        return int(pad if pad is not None else end)

    def _ends(self) -> list[int]:
        """The tokens with which the model ends an answer."""
        ends = self.model.generation_config.eos_token_id
        ends = self.tokenizer.eos_token_id if ends is None else ends
        return [int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None]

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


@dataclass
class _Row:
    """An answer on its way."""

    number: int
    prompt: Prompt
    written: list[int] = field(default_factory=list)
    has_ended: bool = False
    slot: int = 0
    """Its row in the cache of the last round."""

    @property
    def cached(self) -> int:
        """Tokens in the cache: all but the last."""
        return len(self.prompt.tokens) + len(self.written) - 1

    @property
    def last(self) -> int:
        return self.written[-1] if self.written else self.prompt.tokens[-1]


class _Rules:
    """What may be written to each row and when it ends: the library's rules, but a row at a time and across rounds."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rows: list[_Row], ends: list[int]) -> None:
        self.tokenizer, self.rows, self.ends = tokenizer, rows, ends

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """No end before `SHORTEST`, and no run of `NO_REPEAT` tokens for the second time."""
        for slot, (row, new) in enumerate(zip(self.rows, input_ids[:, 1:].tolist(), strict=True)):
            if len(row.written) + len(new) < SHORTEST:
                scores[slot, self.ends] = -torch.inf
            repeated = _would_repeat([row.prompt.tokens[-1], *row.written, *new], NO_REPEAT)
            scores[slot, list(repeated)] = -torch.inf
        return scores

    def stop(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Which rows have ended: at their limit, or behind a sentence when that is enough."""
        rounds = input_ids[:, 1:].tolist()
        done = [self._stops([*row.written, *new], row.prompt) for row, new in zip(self.rows, rounds, strict=True)]
        return torch.tensor(done, device=input_ids.device)

    def _stops(self, written: list[int], prompt: Prompt) -> bool:
        if len(written) >= prompt.limit:
            return True
        tail = self.tokenizer.decode(written[-6:], skip_special_tokens=True)
        return bool(_SENTENCE_BEGUN.search(tail)) and prompt.enough(
            self.tokenizer.decode(written, skip_special_tokens=True)
        )

    def take(self, row: _Row, tokens: list[int]) -> None:
        """Give a row what a round wrote to it, up to where it ended; what the library wrote behind that is padding."""
        for token in tokens:
            if token in self.ends:
                row.has_ended = True
                return
            row.written.append(token)
            if self._stops(row.written, row.prompt):
                row.has_ended = True
                return


def _would_repeat(tokens: list[int], size: int) -> set[int]:
    """The tokens that would end a run of `size` tokens that is there already."""
    if not size or len(tokens) < size:
        return set()
    start = tokens[len(tokens) - size + 1 :]
    return {tokens[at + size - 1] for at in range(len(tokens) - size + 1) if tokens[at : at + size - 1] == start}


def _common_prefix(prompts: Sequence[list[int]]) -> int:
    """How many tokens all prompts begin with, leaving each at least two of its own."""
    shortest = min(map(len, prompts)) - 2
    first = prompts[0]
    return next((at for at in range(shortest) if any(prompt[at] != first[at] for prompt in prompts)), max(shortest, 0))
