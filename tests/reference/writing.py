"""Greedy decoding of one prompt alone: all is read anew for every token, nothing is remembered or batched."""

from __future__ import annotations

import re

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from awesum.models.prompt import Prompt


@torch.inference_mode()
def write_alone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Prompt,
    shortest: int,
    no_repeat: int,
) -> list[int]:
    """The new tokens, without the mark that ends them."""
    new: list[int] = []
    while len(new) < prompt.limit:
        logits = model(torch.tensor([[*prompt.tokens, *new]])).logits[0, -1]
        if len(new) < shortest:
            logits[tokenizer.eos_token_id] = -torch.inf
        for banned in would_repeat([prompt.tokens[-1], *new], no_repeat):
            logits[banned] = -torch.inf
        token = int(logits.argmax())
        if token == tokenizer.eos_token_id:
            break
        new.append(token)
        tail = tokenizer.decode(new[-6:], skip_special_tokens=True)
        if re.search(r"[.!?]\s+\S", tail) and prompt.enough(tokenizer.decode(new, skip_special_tokens=True)):
            break
    return new


def would_repeat(tokens: list[int], size: int) -> set[int]:
    """The tokens that would end a run of `size` tokens that was written before."""
    runs = [tokens[at : at + size] for at in range(len(tokens) - size + 1)]
    return {run[-1] for run in runs if run[:-1] == tokens[len(tokens) - size + 1 :]}


def draft(text: list[int], longest: int, most: int) -> list[int]:
    """What followed the longest run at the end of `text` (of at most `longest` tokens) the last time it stood there."""
    for size in range(min(longest, len(text)), 0, -1):
        for at in reversed(range(len(text) - size)):
            if text[at : at + size] == text[-size:]:
                return text[at + size : at + size + most]
    return []
