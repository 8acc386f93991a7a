"""A causal chat model: prompts in, texts out, many side by side.

Prompts are read one at a time (reading is bound by arithmetic, and alone there is nothing to pad or mask) and
answered together (writing is bound by memory traffic, which a batch shares). An answer that ends makes room for the
next. A summary repeats much of what was read, so the next tokens are guessed from there and checked in one go: what
is written is what one token after the other would have been. Knows nothing of documents, segments or salience.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from awesum.errors import AwesumError
from awesum.loading import choose_device, load_tokenizer, loading, window_of
from awesum.models.adapter import (
    AdapterConfig,
    AwesomeCausal,
    Passage,
    States,
    after,
    ends_of,
    is_adapter,
    read_config,
)
from awesum.models.attention import GROUPED
from awesum.models.chat import Chat
from awesum.models.masks import layer_kinds, visible
from awesum.models.prefix_cache import KeptSegments
from awesum.models.remembered import Remembered
from awesum.settings import SMOLLM2
from awesum.weights import smollm2_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SHORTEST = 8
"""Tokens. A part is at least this long: a chat model that ends before it began has only lost its thread."""
NO_REPEAT, NO_REPEAT_TRAINED = 6, 4
"""No run of this many tokens is written twice in a part. The second is for a model with an adapter, which
has learned to go on to the end of what there is to say, and else goes in circles."""
GUESSES = {1: 7, 6: 3}
"""Tokens that are guessed for each of up to so many rows; one for each of more. A row alone has time to spare while the
weights are fetched, and many rows have none. Measured with SmolLM2."""
LONGEST_CLUE = 4
"""Tokens at the end of a text from which its next are guessed, at most."""
GRAIN = 64
"""Tokens. The room for a row is a multiple of this, so that a slightly longer prompt seldom needs a larger one."""
_SENTENCE_BEGUN = re.compile(r"[.!?؟۔।][\"'”’)\]]*\s+\S|[。！？]\S")


@dataclass(frozen=True)
class Prompt:
    """What the model reads, and when it may stop writing."""

    tokens: list[int]
    enough: Callable[[str], bool]
    """Whether a text says enough; asked when a new sentence has begun."""
    limit: int
    """Tokens after which writing ends in any case."""
    segment: slice = field(default_factory=lambda: slice(0))
    """Which of the tokens are the segment's own: what a model with a memory remembers of them."""
    least: int = SHORTEST
    """Tokens before which it does not end."""
    known: Sequence[int] | None = None
    """The answer, where it is known: from an earlier run, or because nothing is to be said. It is only remembered."""


@dataclass(frozen=True)
class Answer:
    """What was written behind a prompt."""

    tokens: list[int]
    is_whole: bool
    """Whether the model ended it, and not its limit or that it said enough."""


def _pretrained(name: str, folder: Path | None) -> tuple[PreTrainedModel, str]:
    """A causal model on the device and in the number format that this machine is fast with, and the reason for it."""
    device, dtype, reason = choose_device()
    with loading(name, folder) as (source, options):
        config = AutoConfig.from_pretrained(source, **options)
        if config.is_encoder_decoder:
            raise AwesumError(f"{name} is an encoder-decoder model; --model takes a causal chat model or a BART")
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, **options)
    return model.to(device).eval(), reason


def load_base(name: str, config: AdapterConfig) -> tuple[AwesomeCausal, PreTrainedTokenizerBase]:
    """The model that an adapter is for, with a fresh one around its layers, and its tokenizer."""
    folder = smollm2_folder() if name == SMOLLM2 else None
    model, _ = _pretrained(name, folder)
    return AwesomeCausal(model, config), load_tokenizer(name, folder)


class ChatModel:
    """A causal language model with its chat template; `write` is the heart of it."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        reason: str = "",
        memory: AwesomeCausal | None = None,
    ) -> None:
        self.model = model.eval()
        self.memory = memory.eval() if memory else None
        """The adapter around the model's layers, if there is one: it may remember, and was trained to end."""
        self.tokenizer = tokenizer
        self.name = name
        self.reason = reason
        """Why it runs on this device in this number format."""
        self.kept: KeptSegments | None = None
        """Where to look for what was made of segments before, and to keep what is made; for a model with an adapter."""
        self.window = window_of(model.config)
        if model.config._attn_implementation == "sdpa" and model._supports_attention_backend:
            model.set_attn_implementation(GROUPED)
        self._kinds = layer_kinds(model.config.get_text_config())
        self.chat = Chat(tokenizer)

    @classmethod
    def load(cls, name: str, folder: Path | None = None) -> ChatModel:
        """Load from `folder`, or else by `name`: a folder, or a name on the hub, which the user named.

        Safetensors only, and no code but the library's.
        """
        if folder is None and is_adapter(name):
            return cls._with_adapter(name)
        model, reason = _pretrained(name, folder)
        return cls(model, load_tokenizer(name, folder), name, reason)

    @classmethod
    def _with_adapter(cls, name: str) -> ChatModel:
        """A pretrained model with the adapter in a folder."""
        config = read_config(name)
        model, tokenizer = load_base(config.base, config)
        model.load_adapter(name)
        return cls.around(model, tokenizer, name)

    @classmethod
    def around(cls, model: AwesomeCausal, tokenizer: PreTrainedTokenizerBase, name: str) -> ChatModel:
        """A model that is ready to write with its adapter, and no longer to train it."""
        model.merge()
        model.to(model.base.dtype)
        return cls(model.base, tokenizer, name, choose_device()[2], model)

    def prompt(self, text: str) -> list[int]:
        """The tokens of a chat in which the user says `text` and the model is about to answer."""
        return self.chat.prompt(text)

    def bytes_per_token(self) -> int:
        """What one token of one prompt takes while it is remembered: its keys and values in every layer."""
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * self.model.dtype.itemsize)

    def bytes_of_memory(self) -> int:
        """What is remembered of one document besides, at most."""
        return self.memory.bytes_of_memory() if self.memory else 0

    def write(self, prompts: Iterable[Prompt], side_by_side: int = 8) -> Iterator[str]:
        """The answers in the order of the prompts, each as soon as it and all before it are written.

        At most `side_by_side` are written at a time. A prompt is asked for when there is room for it, and an answer
        that ends makes room: no row waits for a longer one beside it.
        """
        for tokens in self.write_tokens(prompts, side_by_side):
            yield self.tokenizer.decode(tokens, skip_special_tokens=True).strip()

    def write_tokens(self, prompts: Iterable[Prompt], side_by_side: int = 8) -> Iterator[list[int]]:
        """What `write` gives, as tokens."""
        ended: dict[int, list[int]] = {}
        given = 0
        for number, _, answer in self.follow(([prompt] for prompt in prompts), side_by_side):
            ended[number] = answer.tokens
            while given in ended:
                yield ended.pop(given)
                given += 1

    def follow(self, documents: Iterable[Iterable[Prompt]], side_by_side: int = 8) -> Iterator[tuple[int, int, Answer]]:
        """Number of the document, number of the prompt in it, and answer, each as soon as it is written.

        The prompts of a document are answered one after the other, because what is remembered of one is read by the
        next; each is asked for when the one before it is answered. Several documents are answered side by side.
        """
        # Attention weights far from the action become denormal numbers, which processors multiply up to a hundred times
        # slower. As zeros they change nothing that can be seen, and reading a prompt is five times as fast. The switch
        # is one of the thread, so it is set where the work is done.
        torch.set_flush_denormal(True)
        if not self._can_step():
            yield from self._follow_alone(documents)
            return
        rules = _Rules(self.tokenizer, self._ends())
        if self.memory:
            rules = _TrainedRules(self.tokenizer, self._ends(), self.memory.adapter.ending)
        slots = _Slots(side_by_side)
        remembered = Remembered(self.memory, side_by_side) if self.memory else None
        coming = enumerate(documents)
        rows: list[_Row] = []
        while True:
            while len(rows) < side_by_side and (following := next(coming, None)):
                number, document = following
                yield from self._begin(number, -1, iter(document), None, len(rows), rows, slots, remembered)
            if not rows:
                return
            self._step(slots, rows, rules, remembered)
            for slot in reversed(range(len(rows))):
                row = rows[slot]
                if not row.has_ended:
                    continue
                yield row.number, row.segment, Answer(row.written, row.is_whole)
                states = remembered.after(slot, row.answered) if remembered else None
                yield from self._begin(row.number, row.segment, row.prompts, states, slot, rows, slots, remembered)
                if rows[slot] is row:  # there was nothing more to begin: the last row takes its place
                    last = len(rows) - 1
                    slots.move(last, slot)  # those that are written to stay the first ones
                    if remembered:
                        remembered.move(last, slot)
                    rows[slot] = rows[last]
                    rows.pop()

    def _begin(
        self,
        number: int,
        segment: int,
        prompts: Iterator[Prompt],
        states: States | None,
        slot: int,
        rows: list[_Row],
        slots: _Slots,
        remembered: Remembered | None,
    ) -> Iterator[tuple[int, int, Answer]]:
        """Read the next prompt of a document into a slot; those whose answer is known are answered on the way."""
        for prompt in prompts:
            segment += 1
            if prompt.known is not None:
                states = self._remember(prompt, states)
                yield number, segment, Answer(list(prompt.known), True)
                continue
            row = _Row(number, segment, prompt, prompts)
            passage = Passage()
            slots.fill(slot, self._read(prompt, passage), row.end)
            if remembered:
                remembered.fill(slot, states, passage, prompt.segment, prompt.limit)
            rows[slot : slot + 1] = [row]
            return

    def _follow_alone(self, documents: Iterable[Iterable[Prompt]]) -> Iterator[tuple[int, int, Answer]]:
        if self.memory:
            raise AwesumError(f"{self.name} is of a kind that memory is not for: give a Llama, Qwen, Mistral or Gemma")
        for number, document in enumerate(documents):
            for segment, prompt in enumerate(document):
                yield number, segment, self._write_alone(prompt)

    @torch.inference_mode()
    def _read(self, prompt: Prompt, passage: Passage, end: int | None = None) -> DynamicCache:
        """The keys and values of a prompt's tokens before `end`; the first step will look at its last once more."""
        tokens = prompt.tokens[:end]
        if self.kept is None or not prompt.segment.stop:
            return self._pass(tokens, passage)
        cache = self.kept.read(tokens[: prompt.segment.stop], passage, self._pass)
        if further := tokens[prompt.segment.stop :]:
            self._pass(further, Passage(), cache)
        return cache

    def _pass(self, tokens: Sequence[int], passage: Passage, behind: DynamicCache | None = None) -> DynamicCache:
        """The keys and values of tokens, and of those that they stand behind."""
        # Without the model's config, no layer of the cache drops what has left its window.
        cache = DynamicCache() if behind is None else behind
        ids = torch.tensor([[*tokens]], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True, **self._with(passage))
        return cache

    @torch.inference_mode()
    def _remember(self, prompt: Prompt, states: States | None) -> States | None:
        """The memories after a prompt whose answer is known."""
        if self.memory is None or not self.memory.roles.remembering:
            return None
        known = prompt.known or ()
        read = Passage()
        states = states or self.memory.start(1)
        if not known:  # then only the segment's own tokens are remembered
            self._read(prompt, read, prompt.segment.stop)
            return after(self.memory.settle(states), read.written, prompt.segment, {}, 0)
        cache = self._read(prompt, read, -1)
        recalled = self.memory.recall(states)
        written = self.memory.with_memory(recalled)
        ids = torch.tensor([[prompt.tokens[-1], *known]], device=self.model.device)
        self.model.base_model(input_ids=ids, past_key_values=cache, use_cache=True, passage=written)
        # The last token of an answer that ended at its limit was not looked at.
        answered = len(known) + (len(known) < prompt.limit)
        return after(recalled, read.written, prompt.segment, written.written, answered)

    def _with(self, passage: Passage) -> dict[str, Passage]:
        """What only a model with an adapter takes."""
        return {"passage": passage} if self.memory else {}

    @torch.inference_mode()
    def _step(self, slots: _Slots, rows: list[_Row], rules: _Rules, remembered: Remembered | None = None) -> None:
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
        passage = remembered.passage(len(rows)) if remembered else Passage()
        logits = self._look(slots, ids, positions, passage)
        if remembered:
            remembered.note(passage, torch.tensor(positions), [len(row.prompt.tokens) - 1 for row in rows])
        best = logits.argmax(-1).tolist()
        for row, guess, choices, scores in zip(rows, guesses, best, logits, strict=True):
            for step in range(len(guess) + 1):
                token = rules.choose(row, choices[step], scores[step])
                rules.take(row, token)
                if row.has_ended or guess[step : step + 1] != [token]:
                    break

    def _look(self, slots: _Slots, ids: list[list[int]], positions: list[list[int]], passage: Passage) -> torch.Tensor:
        """What the model would write behind each of `ids`, which are at `positions` of the first rows."""
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

    def _can_step(self) -> bool:
        """Whether the model remembers by attention alone, each layer by its own keys and values, and takes our masks.

        A state that has seen a wrong guess cannot be taken back, and another kind of layer wants another mask.
        """
        config = self.model.config.get_text_config()
        return (
            config._attn_implementation == GROUPED
            and not self.model._is_stateful
            and self._kinds <= {"full_attention", "sliding_attention"}
            and not getattr(config, "num_kv_shared_layers", None)
            and "position_ids" in signature(self.model.forward).parameters
        )

    @torch.inference_mode()
    def _write_alone(self, prompt: Prompt) -> Answer:
        """The answer of a model that only the library knows how to run, by the same rules."""
        row = _Row(0, 0, prompt, iter(()))
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
        return Answer(row.written, row.is_whole)

    def _ends(self) -> list[int]:
        """The tokens with which the model ends an answer."""
        ends = ends_of(self.model)
        return ends or [end for end in (self.tokenizer.eos_token_id,) if end is not None]


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
        self.used = 0
        """Slots that a row has been in."""
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
            self._grow(alone, -(-end // GRAIN) * GRAIN)
        self.used = max(self.used, slot + 1)
        for layer, its in zip(self.layers, alone.layers, strict=True):
            for held, new in ((layer.keys, its.keys), (layer.values, its.values)):
                held[slot, :, : new.shape[2]] = new[0]
                held[slot, :, new.shape[2] :] = 0  # what was there by chance could be no number, which no mask hides

    def _grow(self, like: DynamicCache, length: int) -> None:
        """Longer slots; what the used ones hold is moved tensor by tensor, so that little is there twice."""
        for layer, its in zip(self.layers, like.layers, strict=True):
            layer.keys = self._longer(layer.keys, its.keys, length)
            layer.values = self._longer(layer.values, its.values, length)
            layer.is_initialized = True
        self.length = length

    def _longer(self, old: torch.Tensor | None, like: torch.Tensor, length: int) -> torch.Tensor:
        new = like.new_empty(self.count, like.shape[1], length, like.shape[3])
        if old is not None:
            new[: self.used, :, : self.length] = old[: self.used]
            new[: self.used, :, self.length :] = 0
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
    segment: int
    prompt: Prompt
    prompts: Iterator[Prompt]
    """Those that come behind it."""
    written: list[int] = field(default_factory=list)
    has_ended: bool = False
    is_whole: bool = False
    """Whether it was the model that ended it."""
    text: _Text = field(init=False)

    def __post_init__(self) -> None:
        self.text = _Text(self.prompt.tokens)

    @property
    def last(self) -> int:
        """The position of its last token, which the next step looks at."""
        return len(self.text.tokens) - 1

    @property
    def answered(self) -> int:
        """The tokens that the model has looked at, from the prompt's last on. Where writing was ended for it, the last
        token is not one of them."""
        return len(self.written) + self.is_whole

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

    @property
    def no_repeat(self) -> int:
        """The length of a run of tokens that is not written twice."""
        return NO_REPEAT

    def forbidden(self, row: _Row) -> set[int]:
        """No end before the prompt's `least` tokens, and no run of `no_repeat` tokens for the second time."""
        repeated = _would_repeat([row.prompt.tokens[-1], *row.written], self.no_repeat)
        return repeated.union(self.ends) if len(row.written) < row.prompt.least else repeated

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
            row.has_ended = row.is_whole = True
            return
        row.add(token)
        row.has_ended = len(row.written) >= row.prompt.limit or self._says_enough(row)

    def _says_enough(self, row: _Row) -> bool:
        tail = self.tokenizer.decode(row.written[-6:], skip_special_tokens=True)
        return bool(_SENTENCE_BEGUN.search(tail)) and row.prompt.enough(
            self.tokenizer.decode(row.written, skip_special_tokens=True)
        )


class _TrainedRules(_Rules):
    """Those of a model that was trained to end by itself: it does so where that is likely enough."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: list[int], ending: float) -> None:
        super().__init__(tokenizer, ends)
        self.ending = ending

    @property
    def no_repeat(self) -> int:
        return NO_REPEAT_TRAINED

    def choose(self, row: _Row, best: int, scores: torch.Tensor) -> int:
        """The end, if it is likely enough; otherwise the best of the tokens that are not forbidden."""
        end = max(self.ends, key=lambda token: float(scores[token]), default=None)
        if end is not None:
            # Most often it is too unlikely beside the best token alone.
            is_near = float(scores[end]) >= float(scores[best]) + math.log(self.ending)
            if is_near and len(row.written) >= row.prompt.least and self._is_likely(scores):
                return end
            scores[self.ends] = -torch.inf
            best = int(scores.argmax()) if best in self.ends else best
        return super().choose(row, best, scores)

    def _is_likely(self, scores: torch.Tensor) -> bool:
        return float(scores.float().softmax(-1)[self.ends].sum()) >= self.ending


def _would_repeat(tokens: list[int], size: int) -> set[int]:
    """The tokens that would end a run of `size` tokens that is there already."""
    if not size or len(tokens) < size:
        return set()
    start = tokens[len(tokens) - size + 1 :]
    return {tokens[at + size - 1] for at in range(len(tokens) - size + 1) if tokens[at : at + size - 1] == start}
