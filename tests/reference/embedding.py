"""Mean pooling of one text at a time, window by window, without padding or batches."""

from __future__ import annotations

import numpy as np
import torch

from awesum.analysis.embedding import WINDOW, SentenceEncoder


@torch.inference_mode()
def encode(encoder: SentenceEncoder, text: str) -> np.ndarray:
    tokenizer = encoder.tokenizer
    ids = tokenizer.encode(text, add_special_tokens=False)
    states = []
    for window in [ids[at : at + WINDOW] for at in range(0, len(ids), WINDOW)] or [[]]:
        tokens = torch.tensor([[tokenizer.cls_token_id, *window, tokenizer.sep_token_id]])
        states += list(encoder.model(input_ids=tokens).last_hidden_state[0].numpy())
    mean = np.mean(states, axis=0)
    return mean / np.linalg.norm(mean)
