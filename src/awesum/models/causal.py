"""A causal chat model: prompts in, texts out, many side by side.

Prompts are read one at a time (reading is bound by arithmetic, and alone there is nothing to pad or mask) and
answered together (writing is bound by memory traffic, which a batch shares). An answer that ends makes room for the
next. A summary repeats much of what was read, so the next tokens are guessed from there and checked in one go: what
is written is what one token after the other would have been. Knows nothing of documents, segments or salience.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from awesum.errors import AwesumError
from awesum.models.loading import choose_device, load_tokenizer, loading, window_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

SHORTEST = 8
"""Tokens. A part is at least this long: a model that ends before it began has only lost its thread."""
NO_REPEAT = 6
"""No run of this many tokens is written twice in a part."""
GUESSES = {1: 7, 6: 3}
"""Tokens that are guessed for each of up to so many rows; one for each of more. A row alone has time to spare while the
weights are fetched, and many rows have none. Measured with SmolLM2."""
LONGEST_CLUE = 4
"""Tokens at the end of a text from which its next are guessed, at most."""
GRAIN = 64
"""Tokens. The room for a row is a multiple of this, so that a slightly longer prompt seldom needs a larger one."""
_SENTENCE_BEGUN = re.compile(r"[.!?؟۔।][\"'”’)\]]*\s+\S|[。！？]\S")
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

    The heads of a group share their keys and values. They can stand in for more query positions of one head, which is
    the same sum and moves a third of the memory (for SmolLM2's groups of three). Reading a prompt is left to the
    library: it has no mask but the order of the tokens, which is lost when heads become positions.
    """
    batch, heads, length, _ = query.shape
    groups = key.shape[1]
    is_foldable = length == 1 if attention_mask is None else attention_mask.shape[1:3] == (1, length)
    is_plain = kwargs.get("position_bias") is None and kwargs.get("softcap") is None
    if heads == groups or not (is_foldable and is_plain):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    folded = query.reshape(batch, groups, heads // groups * length, -1)
    mask = None if attention_mask is None else attention_mask.repeat(1, 1, heads // groups, 1)
    output = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return output.reshape(batch, heads, length, -1).transpose(1, 2), None


AttentionInterface.register("awesum_grouped", grouped_attention)
AttentionMaskInterface.register("awesum_grouped", sdpa_mask)


class ChatModel:
    """A causal language model with its chat template; `write` is the heart of it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, reason: str = "") -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.reason = reason
        """Why it runs on this device in this number format."""
        self.window = window_of(model.config)
        if model.config._attn_implementation == "sdpa" and model._supports_attention_backend:
            model.set_attn_implementation("awesum_grouped")
        self._kinds = _layer_kinds(model.config.get_text_config())
        self._before, self._behind = self._frame()

    @classmethod
    def load(cls, name: str, folder: Path | None = None) -> ChatModel:
        """Load from `folder`, or else by `name`: a folder, or a name on the hub, which the user named.

        Safetensors only, and no code but the library's.
        """
        device, dtype, reason = choose_device()
        with loading(name, folder) as (source, options):
            config = AutoConfig.from_pretrained(source, **options)
            if config.is_encoder_decoder:
                raise AwesumError(f"{name} is an encoder-decoder model; --model takes a causal chat model or a BART")
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
        if not self._can_step():
            yield from map(self._write_alone, prompts)
            return
        rules = _Rules(self.tokenizer, self._ends())
        slots = _Slots(side_by_side)
        coming = enumerate(prompts)
        rows: list[_Row] = []
        ended: dict[int, list[int]] = {}
        given = 0
        while True:
            for number, prompt in islice(coming, side_by_side - len(rows)):
                rows.append(_Row(number, prompt))
                slots.fill(len(rows) - 1, self._read(prompt.tokens), rows[-1].end)
            if not rows:
                return
            self._step(slots, rows, rules)
            for slot in reversed(range(len(rows))):
                if rows[slot].has_ended:
                    ended[rows[slot].number] = rows[slot].written
                    slots.move(len(rows) - 1, slot)  # those that are written to stay the first ones
                    rows[slot] = rows[-1]
                    rows.pop()
            while given in ended:
                yield ended.pop(given)
                given += 1

    @torch.inference_mode()
    def _read(self, tokens: list[int]) -> DynamicCache:
        """The keys and values of a prompt; the first step will look at its last token once more."""
        cache = DynamicCache()  # without the model's config, no layer drops what has left its window
        ids = torch.tensor([tokens], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
        return cache

    @torch.inference_mode()
    def _step(self, slots: _Slots, rows: list[_Row], rules: _Rules) -> None:
        """Let the model look at the last token and the guesses of all rows at once.

        Each row gets its next token, and one more for each guess that was right. Rows with fewer guesses are filled up
        with any token: what the model makes of those is not looked at, and their keys are overwritten by the next step,
        as are those of the guesses that were wrong.
        """
        most = next((guesses for up_to, guesses in GUESSES.items() if len(rows) <= up_to), 1)
        guesses = [row.guess(most) for row in rows]
        width = 1 + max(map(len, guesses))
        ids = [
            [row.text.tokens[-1], *guess, *[0] * (width - 1 - len(guess))]
            for row, guess in zip(rows, guesses, strict=True)
        ]
        positions = [[min(row.last + step, row.end - 1) for step in range(width)] for row in rows]
        logits = self._look(slots, ids, positions)
        best = logits.argmax(-1).tolist()
        for row, guess, choices, scores in zip(rows, guesses, best, logits, strict=True):
            for step in range(len(guess) + 1):
                token = rules.choose(row, choices[step], scores[step])
                rules.take(row, token)
                if row.has_ended or guess[step : step + 1] != [token]:
                    break

    def _look(self, slots: _Slots, ids: list[list[int]], positions: list[list[int]]) -> torch.Tensor:
        """What the model would write behind each of `ids`, which are at `positions` of the first rows."""
        device = self.model.device
        slots.positions = torch.tensor(positions, device=device)
        slots.end = 1 + max(map(max, positions))
        return self.model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=self._visible(slots.positions, slots.end),
            position_ids=slots.positions,
            past_key_values=slots,
            use_cache=True,
        ).logits

    def _visible(self, positions: torch.Tensor, end: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """Which keys each query sees: those up to its own position, and in layers with a window those within it.

        A model with both kinds of layers takes a mask for each; where all are of one kind, it takes just that.
        """
        own = positions[:, None, :, None]  # (rows, 1, queries, 1)
        keys = torch.arange(end, device=positions.device)
        masks = {"full_attention": keys <= own}
        if "sliding_attention" in self._kinds:
            window = self.model.config.get_text_config().sliding_window
            masks["sliding_attention"] = masks["full_attention"] & (keys > own - window)
        return masks if len(self._kinds) > 1 else masks[next(iter(self._kinds))]

    def _can_step(self) -> bool:
        """Whether the model remembers by attention alone, each layer by its own keys and values, and takes our masks.

        A state that has seen a wrong guess cannot be taken back, and another kind of layer wants another mask.
        """
        config = self.model.config.get_text_config()
        return (
            config._attn_implementation == "awesum_grouped"
            and not self.model._is_stateful
            and self._kinds <= {"full_attention", "sliding_attention"}
            and not getattr(config, "num_kv_shared_layers", None)
            and "position_ids" in signature(self.model.forward).parameters
        )

    @torch.inference_mode()
    def _write_alone(self, prompt: Prompt) -> list[int]:
        """The answer of a model that only the library knows how to run, by the same rules."""
        row = _Row(0, prompt)
        rules = _Rules(self.tokenizer, self._ends())
        ids = torch.tensor([prompt.tokens], device=self.model.device)

        def forbid(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores[0, list(rules.forbidden(row))] = -torch.inf
            return scores

        def stop(input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
            rules.take(row, int(input_ids[0, -1]))
            return torch.tensor([row.has_ended], device=input_ids.device)

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
        return row.written

    def _ends(self) -> list[int]:
        """The tokens with which the model ends an answer."""
        ends = self.model.generation_config.eos_token_id
        ends = self.tokenizer.eos_token_id if ends is None else ends
        return [int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None]


def _layer_kinds(config: PretrainedConfig) -> set[str]:
    """The kinds of layers a model has, which the library only infers where the config does not say."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return set(kinds)
    if getattr(config, "sliding_window", None) is not None:
        return {"sliding_attention"}
    return {"full_attention" if getattr(config, "attention_chunk_size", None) is None else "chunked_attention"}


class _Slots(Cache):
    """Keys and values of several rows, each in a slot of its own that it fills from position 0 on.

    Nothing is padded and nothing moves while a row is written; a new row takes the place of one that has ended. Slots
    that no row has used are asked for but not touched, which costs no memory.
    """

    def __init__(self, count: int) -> None:
        super().__init__(layers=[])
        self.layers: list[Any]
        self.count = count
        self.length = 0
        """Positions of each slot."""
        self.positions = torch.empty(0)
        """Where the next keys and values go, a list for each row."""
        self.end = 0
        """Behind the last of them."""

    @torch.inference_mode()
    def fill(self, slot: int, alone: DynamicCache, end: int) -> None:
        """Put a row that was read alone into a slot, where it will reach up to `end`."""
        if not self.layers:
            self.layers = [DynamicLayer() for _ in alone.layers]
        if end > self.length:
            self._grow(slot, alone, -(-end // GRAIN) * GRAIN)
        for layer, its in zip(self.layers, alone.layers, strict=True):
            for held, new in ((layer.keys, its.keys), (layer.values, its.values)):
                held[slot, :, : new.shape[2]] = new[0]
                held[slot, :, new.shape[2] :] = 0  # what was there by chance could be no number, which no mask hides

    def _grow(self, used: int, like: DynamicCache, length: int) -> None:
        """Longer slots; what the `used` ones hold is moved tensor by tensor, so that little is there twice."""
        for layer, its in zip(self.layers, like.layers, strict=True):
            layer.keys = self._longer(layer.keys, used, its.keys, length)
            layer.values = self._longer(layer.values, used, its.values, length)
            layer.is_initialized = True
        self.length = length

    def _longer(self, old: torch.Tensor | None, used: int, like: torch.Tensor, length: int) -> torch.Tensor:
        new = like.new_empty(self.count, like.shape[1], length, like.shape[3])
        if old is not None:
            new[:used, :, : self.length] = old[:used]
            new[:used, :, self.length :] = 0
        return new

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Let a row go on in another slot."""
        if source == target:
            return
        for layer in self.layers:
            layer.keys[target] = layer.keys[source]
            layer.values[target] = layer.values[source]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put the new keys and values of the first rows at their positions; give those of all positions in use."""
        layer, rows = self.layers[layer_idx], len(key_states)
        slots = torch.arange(rows, device=key_states.device)[:, None]
        for held, new in ((layer.keys, key_states), (layer.values, value_states)):
            held[slots, :, self.positions] = new.transpose(1, 2)  # (rows, queries, heads, size)
        return layer.keys[:rows, :, : self.end], layer.values[:rows, :, : self.end]


@dataclass
class _Row:
    """An answer on its way."""

    number: int
    prompt: Prompt
    written: list[int] = field(default_factory=list)
    has_ended: bool = False
    text: _Text = field(init=False)

    def __post_init__(self) -> None:
        self.text = _Text(self.prompt.tokens)

    @property
    def last(self) -> int:
        """The position of its last token, which the next step looks at."""
        return len(self.text.tokens) - 1

    @property
    def end(self) -> int:
        """The position that it cannot reach."""
        return len(self.prompt.tokens) + self.prompt.limit

    def guess(self, most: int) -> list[int]:
        """The next tokens, perhaps; one less than it may have, as the model always adds one."""
        return self.text.guess(min(most, self.prompt.limit - len(self.written) - 1))

    def add(self, token: int) -> None:
        """One more token."""
        self.written.append(token)
        self.text.add(token)


class _Text:
    """What was read and written, and how it may go on: as it did when its last tokens stood there before.

    A summary takes over names, figures and half sentences; every second guess is right, and it costs next to nothing.
    """

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}  # where a run of tokens was last followed by something
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """One more token, and with it what the runs before it were followed by."""
        at = len(self.tokens)
        for start in range(max(at - LONGEST_CLUE, 0), at):
            self._behind[tuple(self.tokens[start:])] = at
        self.tokens.append(token)

    def guess(self, most: int) -> list[int]:
        """Up to `most` tokens that followed the longest run at the end of the text."""
        for size in range(LONGEST_CLUE, 0, -1):
            at = self._behind.get(tuple(self.tokens[-size:]))
            if at is not None:
                return self.tokens[at : at + most]
        return []


class _Rules:
    """What may be written to a row and when it ends."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: list[int]) -> None:
        self.tokenizer, self.ends = tokenizer, ends

    def forbidden(self, row: _Row) -> set[int]:
        """No end before `SHORTEST`, and no run of `NO_REPEAT` tokens for the second time."""
        repeated = _would_repeat([row.prompt.tokens[-1], *row.written], NO_REPEAT)
        return repeated.union(self.ends) if len(row.written) < SHORTEST else repeated

    def choose(self, row: _Row, best: int, scores: torch.Tensor) -> int:
        """The token with the best score, or the best of those that are not forbidden."""
        forbidden = self.forbidden(row)
        if best not in forbidden:
            return best
        scores[list(forbidden)] = -torch.inf
        return int(scores.argmax())

    def take(self, row: _Row, token: int) -> None:
        """Give a row its next token. It ends with a mark, which is not kept, at its limit, or when it says enough."""
        if token in self.ends:
            row.has_ended = True
            return
        row.add(token)
        row.has_ended = len(row.written) >= row.prompt.limit or self._says_enough(row)

    def _says_enough(self, row: _Row) -> bool:
        tail = self.tokenizer.decode(row.written[-6:], skip_special_tokens=True)
        return bool(_SENTENCE_BEGUN.search(tail)) and row.prompt.enough(
            self.tokenizer.decode(row.written, skip_special_tokens=True)
        )


def _would_repeat(tokens: list[int], size: int) -> set[int]:
    """The tokens that would end a run of `size` tokens that is there already."""
    if not size or len(tokens) < size:
        return set()
    start = tokens[len(tokens) - size + 1 :]
    return {tokens[at + size - 1] for at in range(len(tokens) - size + 1) if tokens[at : at + size - 1] == start}
