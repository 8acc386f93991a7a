"""Training the paper's extractor end to end on oracle sentences, with the graph of some sentences at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from awesum import systems
from awesum.analysis.salience.sentence_encoder import (
    HEAD,
    TOGETHER,
    SentenceScorer,
    blank_roberta,
    load_roberta,
    sentence_ids,
)
from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.loading import load_model_type
from awesum.recurrence import DocumentInputs
from awesum.scoring import oracle
from awesum.training.caching import CachedPieces
from awesum.training.trainable import OfOneModel, Report

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst
    from awesum.datasets import Example
    from awesum.prepared.shards import PreparedDocument
    from awesum.recurrence.inputs import Backward
    from awesum.systems.extractor import ExtractorSettings

VERSION = 1
"""Of the inputs: to be raised when the same example would give others."""


class SentenceInputs:
    """The tokens of each sentence of a document, and the numbers of those that the oracle selects."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_tokens: int | None, report: Report) -> None:
        self.tokenizer, self.max_tokens, self.report = tokenizer, max_tokens, report

    @property
    def key(self) -> list[Any]:
        """See `Inputs.key`."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return [
            type(self).__name__, VERSION, self.max_tokens,
            backend.to_str() if backend is not None else repr(self.tokenizer),
        ]  # fmt: skip

    def __call__(self, example: Example | PreparedDocument) -> DocumentInputs:
        """See `Inputs.__call__`."""
        text = example.document
        texts = [text[start:end] for start, end in sentence_spans(text) if text[start:end].strip()]
        if not texts:
            raise AwesumError(f"{example.id} has no sentence: remove it from the data, or add its text")
        ids = sentence_ids(self.tokenizer, texts, example.query)
        read = total = sum(map(len, ids))
        while self.max_tokens is not None and read > self.max_tokens and len(ids) > 1:
            read -= len(ids.pop())
        if read < total:
            self.report(f"{example.id}: trained on {read:,} of {total:,} tokens (max_tokens={self.max_tokens:,})")
        chosen = [number for number in sorted(oracle.greedy(texts, example.summary)) if number < len(ids)]
        return DocumentInputs(example.id, ids, [chosen])


class SentenceEncoderTraining(OfOneModel):
    """All weights of a RoBERTa, and those of the scores."""

    def __init__(self, base: str, settings: ExtractorSettings, system: str) -> None:
        self.base, self.settings, self.system = base, settings, system

    @cached_property
    def model(self) -> SentenceScorer:
        """The model, in single precision."""
        if (Path(self.base) / HEAD).is_file():
            scorer = SentenceScorer.load(self.base)
        else:
            systems.find(self.system).check_base(self.base, load_model_type(self.base))
            encoder = load_roberta(self.base)
            if encoder.config.hidden_size % self.settings.heads:
                raise AwesumError(
                    f"heads={self.settings.heads} does not divide {encoder.config.hidden_size}, the size of {self.base}"
                )
            scorer = SentenceScorer(encoder, self.settings.heads)
        scorer.encoder.config.system = self.system
        if self.settings.gradient_checkpointing:
            scorer.encoder.gradient_checkpointing_enable({"use_reentrant": False})
        return scorer

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """See `Trainable.make_blank`."""
        systems.find(self.system).check_base(self.base, str(saved["model_type"]))
        scorer = SentenceScorer(blank_roberta(saved), self.settings.heads)
        if self.settings.gradient_checkpointing:
            scorer.encoder.gradient_checkpointing_enable({"use_reentrant": False})
        vars(self)["model"] = scorer

    def describe(self) -> str:
        """See `Trainable.describe`."""
        return f"self-attention over sentences with {self.settings.heads} heads"

    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> SentenceInputs:
        """See `Trainable.inputs`."""
        return SentenceInputs(self.tokenizer, max_tokens, report)

    def loss(
        self,
        documents: Sequence[DocumentInputs],
        backward: Backward,
        *,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        """See `Trainable.loss`. The mean cross entropy of a document's sentences, averaged over the documents."""
        total = torch.zeros((), device=self.model.device)
        for document in documents:
            sentences = document.segments
            groups = CachedPieces(
                [
                    partial(self.model.encode, sentences[at : at + TOGETHER])
                    for at in range(0, len(sentences), TOGETHER)
                ],
                self.model.device,
            )
            labels = torch.zeros(len(sentences), device=self.model.device)
            labels[torch.tensor(list(document.targets[0]), dtype=torch.long, device=labels.device)] = 1
            scores = self.model(torch.cat(groups.found)).float()
            loss = binary_cross_entropy_with_logits(scores, labels) / len(documents)
            backward(loss)
            total += loss.detach()
            groups.backward()
        return total

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """See `Trainable.new_weights`."""
        named = self.model.named_parameters()
        return [weight for name, weight in named if not name.startswith("encoder.")], None

    def save(self, folder: str | Path) -> None:
        """See `Trainable.save`."""
        self.model.save(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        self.model.load_state_dict(SentenceScorer.load(checkpoint).state_dict())
