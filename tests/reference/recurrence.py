"""From segment to segment without haste: one document, one segment at a time, nothing shared, nothing thrown away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from awesum.memory import MemoryState
from awesum.models.bart import AwesomeBart, AwesomeEncoderOutput, Memories
from awesum.models.bart_layers import Salient
from awesum.recurrence import DocumentInputs


def losses(
    model: AwesomeBart,
    document: DocumentInputs,
    *,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
    depth: int | None = 1,
) -> torch.Tensor:
    """One loss over all segments: every graph is kept until the caller's single backward pass.

    The states between segments are cut off by the model itself, which is the truncation; nothing else is.
    """
    memory = model.start(1, depth)
    salient = _salient(model, document)
    later = _from_the_end(model, document, salient, depth or 1)
    total, tokens = torch.zeros((), dtype=model.dtype), 0
    for number, (segment, target) in enumerate(zip(document.segments, document.targets, strict=True)):
        output = model(
            input_ids=torch.tensor([list(segment)]),
            attention_mask=torch.ones(1, len(segment), dtype=torch.long),
            labels=torch.tensor([list(target)]),
            memory=replace(memory, ahead=later[number]),
            salient=salient[number],
            salience=torch.tensor([list(document.salience[number])]) if document.salience else None,
        )
        memory = output.memory
        if empty_targets or len(target) > 2:
            for logits, token in zip(output.logits[0], target, strict=True):
                total = total + smoothed(logits.log_softmax(0), token, label_smoothing)
                tokens += 1
    return total / max(tokens, 1)


def smoothed(log_probabilities: torch.Tensor, token: int, smoothing: float) -> torch.Tensor:
    """Cross-entropy with (1 - smoothing) on the token and `smoothing` spread evenly over the vocabulary."""
    return -(1 - smoothing) * log_probabilities[token] - smoothing * log_probabilities.mean()


def mean_loss(model: AwesomeBart, documents: list[DocumentInputs], **options: Any) -> torch.Tensor:
    """Each document alone, and the mean of their losses."""
    return torch.stack([losses(model, document, **options) for document in documents]).mean()


@torch.no_grad()
def write(model: AwesomeBart, document: DocumentInputs, **options: Any) -> Iterator[list[int]]:
    """The parts of a document. What the decoder reads is made anew from the state at each token, without a cache; and
    the part that was chosen goes through the model as a target would."""
    memory = model.start(1)
    salient = _salient(model, document)
    later = _from_the_end(model, document, salient)
    for number, segment in enumerate(document.segments):
        memory = replace(memory, ahead=later[number])
        ids, mask = torch.tensor([list(segment)]), torch.ones(1, len(segment), dtype=torch.long)
        how = torch.tensor([list(document.salience[number])]) if document.salience else None
        encoded = model.model.encoder(
            ids, mask, memory=memory.encoder, ahead=memory.ahead, salient=salient[number], salience=how
        )
        written = model.generate(
            encoder_outputs=AwesomeEncoderOutput(last_hidden_state=encoded.last_hidden_state),
            attention_mask=mask,
            memory=Memories(decoder=memory.decoder),
            use_cache=False,
            **options,
        )
        part = written[0, 1:].tolist()
        if model.config.eos_token_id in part:
            part = part[: part.index(model.config.eos_token_id) + 1]
        yield part
        memory = model(
            input_ids=ids,
            attention_mask=mask,
            labels=torch.tensor([part]),
            memory=memory,
            salient=salient[number],
            salience=how,
        ).memory


@torch.no_grad()
def _from_the_end(
    model: AwesomeBart, document: DocumentInputs, salient: list[Salient | None], depth: int = 1
) -> list[dict[int, MemoryState]]:
    """For each segment the state of the second memory, of the segments after it; all of them held at once."""
    if model.config.memory == "none" or model.config.memory_direction == "forward":
        return [{} for _ in document.segments]
    was_training = model.training
    model.eval()
    states = model.model.encoder.start(1, ahead=True, depth=depth)
    found = []
    for number in reversed(range(len(document.segments))):
        found.insert(0, states)
        ids = torch.tensor([list(document.segments[number])])
        mask = torch.ones_like(ids)
        trunk = model.model.encoder.trunk(ids, mask, salient[number])
        how = torch.tensor([list(document.salience[number])]) if document.salience else None
        states = model.model.encoder.look_ahead(trunk, mask, states, salient[number], how)
    model.train(was_training)
    return found


@torch.no_grad()
def _salient(model: AwesomeBart, document: DocumentInputs) -> list[Salient | None]:
    """The vectors that each segment may look at; all segments are encoded, and all vectors held."""
    if model.config.salient != "key-value":
        return [None for _ in document.segments]
    was_training = model.training
    model.eval()
    encoded = [model.model.encoder(torch.tensor([list(tokens)])).last_hidden_state[0] for tokens in document.segments]
    model.train(was_training)
    found: list[Salient | None] = []
    for number in range(len(document.segments)):
        vectors = []
        for at in document.salient[number] if document.salient else []:
            segment, start, end = document.spans[at]
            vectors += [encoded[segment][token] for token in range(start, end)]
        # No vector at all: one that nobody sees.
        there = torch.stack(vectors) if vectors else torch.zeros(1, model.config.d_model, dtype=model.dtype)
        found.append(Salient(there[None], torch.full((1, len(there)), bool(vectors))))
    return found
