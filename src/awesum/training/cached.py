"""Training CachED: the graph of one chunk of the encoder at a time."""

from __future__ import annotations

import torch

from awesum.recurrence.inputs import Backward
from awesum.recurrence.whole import Batch, weighted_loss
from awesum.training.long_input import LongInputTraining


class CachedTraining(LongInputTraining):
    """Chunks are encoded without a graph and joined; after the decoder's backward pass each is encoded again, and takes
    its share of the gradient that arrived at the encoder's output. The gradients are those of full backpropagation."""

    def backpropagate(
        self, batch: Batch, labels: torch.Tensor, weights: torch.Tensor, label_smoothing: float, backward: Backward
    ) -> torch.Tensor:
        """See `LongInputTraining.backpropagate`."""
        encoder = self.model.model.encoder
        parts = list(encoder.chunks(batch.ids.shape[1]))
        states, encoded = [], []
        with torch.no_grad():
            for part in parts:
                states.append(_random_state(batch.ids.device))
                encoded.append(encoder.encode_chunk(batch.ids[:, part], batch.mask[:, part]))
        joined = torch.cat(encoded, 1).requires_grad_(torch.is_grad_enabled())
        del encoded
        logits = self.model(encoder_outputs=(joined,), attention_mask=batch.mask, labels=labels).logits
        loss = weighted_loss(logits, labels, weights, label_smoothing)
        backward(loss)
        total = loss.detach()
        del logits, loss
        if joined.grad is not None:
            after = _random_state(batch.ids.device)
            for part, state in zip(parts, states, strict=True):
                _set_random_state(state, batch.ids.device)  # the same dropout as the first time
                again = encoder.encode_chunk(batch.ids[:, part], batch.mask[:, part])
                again.backward(joined.grad[:, part].to(again.dtype))
            _set_random_state(after, batch.ids.device)
        return total


RandomState = tuple[torch.Tensor, torch.Tensor | None]
"""Of the processor, and of another device."""


def _random_state(device: torch.device) -> RandomState:
    is_other = device.type != "cpu"
    return torch.get_rng_state(), torch.get_device_module(device).get_rng_state() if is_other else None


def _set_random_state(state: RandomState, device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.get_device_module(device).set_rng_state(state[1])
