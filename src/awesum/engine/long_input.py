"""The engine for encoder-decoders that read a document as one input: one call of the library's generation a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from awesum.engine.seq2seq import Seq2SeqEngine
from awesum.recurrence import DocumentInputs
from awesum.recurrence.whole import padded


class LongInputEngine(Seq2SeqEngine):
    """Writes the documents of several sessions side by side, each in one go."""

    @torch.inference_mode()
    def _generate(
        self, documents: Sequence[DocumentInputs], known: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, int, list[int]]]:
        config = self.model.config
        batch = padded(documents, config.pad_token_id, self.model.device)
        written = self.model.generate(input_ids=batch.ids, attention_mask=batch.mask)
        for place, row in enumerate(written.tolist()):
            yield place, 0, [token for token in row[1:] if token != config.pad_token_id]
