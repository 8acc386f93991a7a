"""Training CachED: the graph of one chunk of the encoder at a time."""

from __future__ import annotations

from functools import partial

import torch

from awesum.recurrence.inputs import Backward
from awesum.recurrence.whole import Batch, weighted_loss
from awesum.training.caching import CachedPieces
from awesum.training.long_input import LongInputTraining


class CachedTraining(LongInputTraining):
    """Chunks are encoded without a graph and joined; after the decoder's backward pass each is encoded again, and takes
    its share of the gradient that arrived at the encoder's output."""

    goes_back_once = False

    def backpropagate(
        self, batch: Batch, labels: torch.Tensor, weights: torch.Tensor, label_smoothing: float, backward: Backward
    ) -> torch.Tensor:
        """See `LongInputTraining.backpropagate`."""
        encoder = self.model.model.encoder
        chunks = CachedPieces(
            [
                partial(encoder.encode_chunk, batch.ids[:, part], batch.mask[:, part])
                for part in encoder.chunks(batch.ids.shape[1])
            ],
            batch.ids.device,
        )
        joined = torch.cat(chunks.found, 1)
        logits = self.model(encoder_outputs=(joined,), attention_mask=batch.mask, labels=labels).logits
        loss = weighted_loss(logits, labels, weights, label_smoothing)
        backward(loss)
        total = loss.detach()
        del logits, loss, joined  # the decoder's graph goes before the encoder's come
        chunks.backward()
        return total
