"""Sentence embeddings: mean-pooled unit vectors from a pretrained encoder, in one batched pass over the document.

Independent of documents and segments. Text longer than the encoder's window is encoded window by window and averaged,
never truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WINDOW = 254
"""Tokens per window, besides the two special tokens: the length that all-MiniLM-L6-v2 was trained on."""
BATCH_TOKENS = 1024
"""Tokens per forward pass, padding included. Small enough for the activations to stay in a CPU's cache."""
SORTED_TOGETHER = 1024
"""Texts sorted by length at a time. More would save little padding and keep more tokens in RAM."""


class SentenceEncoder:
    """A pretrained encoder and its tokenizer. Call `encode`; it runs on the device of the model."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.size: int = model.config.hidden_size

    @classmethod
    def load(cls, source: str | Path) -> SentenceEncoder:
        """Load from a folder with safetensors weights, or by a hub name that the user gave.

        Runs on the GPU if there is one, in half precision where that is fast (a GPU, or a processor that multiplies
        bfloat16 in hardware): vectors then differ from those in float32 by a cosine of about 0.9999.
        """
        from transformers import AutoModel, AutoTokenizer

        from awesum.loading import choose_device, loading

        with loading(str(source), source if isinstance(source, Path) else None) as (found, options):
            device, dtype, _ = choose_device()
            model = AutoModel.from_pretrained(found, use_safetensors=True, dtype=dtype, **options)
            tokenizer = AutoTokenizer.from_pretrained(found, **options)
            if model.config.is_encoder_decoder or None in (tokenizer.cls_token_id, tokenizer.sep_token_id):
                raise AwesumError(f"{source} is not a sentence encoder: give a model such as BERT, RoBERTa or MiniLM")
            model = model.to(device)
        return cls(model, tokenizer)

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], object] = lambda done: None
    ) -> NDArray[np.float32]:
        """One unit vector per text (N, d). `progress` is called with the number of texts just finished."""
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        for at in range(0, len(texts), SORTED_TOGETHER):
            texts_here = texts[at : at + SORTED_TOGETHER]
            windows = [
                (at + index, ids[first : first + WINDOW])
                for index, ids in enumerate(self._tokens(texts_here))
                for first in range(0, max(len(ids), 1), WINDOW)
            ]
            windows.sort(key=lambda window: len(window[1]))
            for batch in _batches(windows):
                # A text of several windows gets their mean, weighted by tokens.
                np.add.at(vectors, [owner for owner, _ in batch], self._sums([ids for _, ids in batch]))
            progress(len(texts_here))
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)[
            "input_ids"
        ]

    def _sums(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The last hidden states summed over each window (B, d), special tokens included as in training."""
        import torch

        cls_token, sep_token = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        longest = max(len(window) for window in windows) + 2
        ids = torch.full((len(windows), longest), self.tokenizer.pad_token_id)
        mask = torch.zeros((len(windows), longest), dtype=torch.long)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = torch.tensor([cls_token, *window, sep_token])
            mask[row, : len(window) + 2] = 1
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        with torch.inference_mode():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, N, d)
            return (states.float() * mask[..., None]).sum(dim=1).cpu().numpy()


def _batches(windows: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Split windows, sorted by length, into batches of at most `BATCH_TOKENS`, padding included."""
    first = 0
    for index, (_, ids) in enumerate(windows):
        if (index + 1 - first) * (len(ids) + 2) > BATCH_TOKENS and index > first:
            yield windows[first:index]
            first = index
    if windows:
        yield windows[first:]
