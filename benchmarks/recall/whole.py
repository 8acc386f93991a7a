"""The systems that read a document as one input: their own models and training, at a 64th of the usual lengths.

A window of 1,024 tokens is one of 16 here, a block of 512 one of 8, and so on; only Longformer's window is one of 4,
because it reads multiples of it, and two of 16 or three of 8 exceed the budget. Token by token, `Reader` does what the
layouts of `awesum.compose.long_inputs` do with a text.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration, LongT5Config, LongT5ForConditionalGeneration

from awesum import systems
from awesum.loading import hide_progress_bars
from awesum.models.long_input import load
from awesum.recurrence import DocumentInputs
from awesum.recurrence.whole import padded
from awesum.scoring import oracle
from awesum.training.trainable import make
from benchmarks.recall.memories import (
    ALONE,
    ALONE_RATE,
    BART,
    NEW_RATE,
    RATE,
    SIZE,
    TESTED,
    WINDOW,
    before_memory,
    longer_documents,
    salient_sentences,
    single_segments,
    steps_on,
    watch,
)  # fmt: skip
from benchmarks.recall.task import END, LENGTH, PAD, SENTENCES, START, VOCABULARY, to_test_on

SILENT = 0.5
"""The share of documents for training that ask for nothing."""
SETTINGS: dict[str, dict[str, Any]] = {
    "truncated": {},
    "extract-abstract": {},
    "block-attention": {"block_size": WINDOW // 2, "global_tokens": 2},
    "longformer": {"window": WINDOW // 4},
    "long-t5": {},
    "unlimiformer": {"retrieved": WINDOW},
    "pagesum": {"pages": 3, "page_size": WINDOW},
    "cached": {"chunk_size": WINDOW},
}
"""The systems, with their own settings."""
LONG_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": SIZE,
    "d_kv": SIZE // 4,
    "d_ff": 2 * SIZE,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "local_radius": 3,
    "global_block_size": 4,
    "encoder_attention_type": "transient-global",
    "feed_forward_proj": "relu",
    "dropout_rate": 0.0,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": END,
}
"""BART's size. It has no positions, whatever the length."""
LONG_T5_ALONE = 2 * ALONE
"""Steps of LongT5 on single segments: it learns more slowly, and after as many as BART it fails the control."""
AT_ONCE = 32
"""Documents that are tested side by side."""


class Reader:
    """How a system takes a document, at most `tokens` of it; or, with pages, at most `tokens` of each page."""

    def __init__(self, system: str, tokens: int | None) -> None:
        self.system, self.tokens = system, tokens

    def read(self, document: DocumentInputs, *, training: bool) -> DocumentInputs:
        """The document with one input, or one for each page, and one target."""
        target = next((each for each in document.targets if len(each) > 1), [END])
        if self.system == "pagesum":
            pages = [self._marked(page) for page in self._pages(document)]
            return DocumentInputs("", pages, [target], special=1, is_paged=True)
        words = _words(document)
        if self.system == "extract-abstract" and len(words) > WINDOW - 2:
            words = self._oracle(document, target) if training else self._extracted(document)
        return DocumentInputs("", [self._marked(words)], [target], special=1)

    def _marked(self, words: Sequence[int]) -> list[int]:
        return [START, *(words if self.tokens is None else words[: self.tokens - 2]), END]

    def _pages(self, document: DocumentInputs) -> list[list[int]]:
        """The segments split evenly over the pages, after what exceeds all pages together is cut. A layout splits
        sentences, but those have two or three words here, and a fact would never share its page with the question."""
        count = SETTINGS["pagesum"]["pages"]
        room = len(document.segments) if self.tokens is None else max(1, self.tokens * count // LENGTH)
        kept = document.segments[:room]
        ends = [len(kept) * page // count for page in range(count + 1)]
        return [[word for tokens in kept[first:last] for word in tokens[1:-1]] for first, last in pairwise(ends)]

    def _oracle(self, document: DocumentInputs, target: Sequence[int]) -> list[int]:
        sentences = _sentences(document)
        texts = [" ".join(f"w{word}" for word in sentence) for sentence in sentences]
        chosen = sorted(oracle.greedy(texts, " ".join(f"w{word}" for word in target[:-1]))) or range(len(sentences))
        return [word for number in chosen for word in sentences[number]]

    def _extracted(self, document: DocumentInputs) -> list[int]:
        chosen = salient_sentences(document, WINDOW - 2)
        return [word for number, place in chosen for word in document.segments[number][place]] or _words(document)


def _words(document: DocumentInputs) -> list[int]:
    return [word for tokens in document.segments for word in tokens[1:-1]]


def _sentences(document: DocumentInputs) -> list[list[int]]:
    return [list(tokens[1:-1][place]) for tokens in document.segments for place in SENTENCES]


class WholeDocuments:
    """A system with a small model that has learned to answer within a segment, to read at most `tokens`."""

    def __init__(self, system: str, seed: int, tokens: int | None, *, is_taught: bool = True) -> None:
        """Without `is_taught`, the model is as random as it begins."""
        self.system, self.seed = system, seed
        self.reader = Reader(system, tokens)
        hide_progress_bars()
        torch.manual_seed(seed)
        own = SETTINGS[system] | ({"page_size": tokens} if system == "pagesum" and tokens else {})
        kind: Any = systems.find(system)
        with tempfile.TemporaryDirectory() as folder:
            self._base(is_taught).save_pretrained(folder)
            self.training: Any = make(system, folder, kind.settings_class(**own))
            if system == "longformer":  # a converted one would have 16,384 positions, most of its weights
                positions = -(-(tokens or WINDOW) // own["window"]) * own["window"]  # to which it pads
                changes = {**self.training.settings.model_config, "max_encoder_position_embeddings": positions}
                vars(self.training)["model"] = load(kind.model_kind(), folder, kind.check_base, **changes)
            self.model: Any = self.training.model
        if (extend := getattr(self.model, "extend_positions", None)) is not None:
            extend(tokens)
        if system == "long-t5" and is_taught:
            for _ in steps_on(
                self.model, (), self.loss, single_segments(seed), LONG_T5_ALONE, (ALONE_RATE, ALONE_RATE)
            ):
                pass

    def _base(self, is_taught: bool) -> Any:
        if self.system == "long-t5":
            return LongT5ForConditionalGeneration(LongT5Config(**LONG_T5))
        bart: Any = BartForConditionalGeneration(BartConfig(**BART))
        if is_taught:
            bart.load_state_dict(before_memory(self.seed))
        return bart

    @cached_property
    def parameters(self) -> int:
        """How many weights it has."""
        return sum(weight.numel() for weight in self.model.parameters())

    def loss(self, batch: Sequence[DocumentInputs]) -> torch.Tensor:
        """The loss of a batch, after its backward pass."""
        read = [self.reader.read(document, training=True) for document in batch]
        loss: torch.Tensor = self.training.loss(read, torch.Tensor.backward)
        return loss

    def learn(self, steps: int, future: bool, facts: int = 1) -> None:
        """The second stage: longer and longer documents."""
        batches = longer_documents(self.seed, steps, future, facts, questions=1, silent=SILENT)
        new, _ = self.training.new_weights()
        watch(steps_on(self.model, new, self.loss, batches, steps, (RATE, NEW_RATE)))

    @torch.inference_mode()
    def accuracy(self, distance: int, future: bool = False, facts: int = 1, tested: int = TESTED) -> float:
        """The share of unseen facts that are recalled over a distance, in what the model writes."""
        chance = random.Random(1000 + distance)
        tokens = None if self.system == "unlimiformer" else self.reader.tokens  # it is cut in training only
        reader = Reader(self.system, tokens)
        documents = [reader.read(to_test_on(chance, distance, future, facts), training=False) for _ in range(tested)]
        self.model.eval()
        right = 0
        for first in range(0, tested, AT_ONCE):
            some = documents[first : first + AT_ONCE]
            batch = padded(some, PAD, self.model.device)
            written = self.model.generate(  # after the start token, the answer and the end
                input_ids=batch.ids, attention_mask=batch.mask, num_beams=1, early_stopping=False, max_length=3
            )
            answers = zip(written[:, 1].tolist(), some, strict=True)
            right += sum(token == document.targets[0][0] for token, document in answers)
        self.model.train()
        return right / tested
