"""The paper's extractor: a RoBERTa that is fine-tuned end to end.

A sentence is the mean of the last layer's outputs; self-attention over all sentences of the document follows, then a
perceptron with one hidden layer. The paper does not say more. Ours: the attention has a residual connection and a layer
norm, sentences have no positions, and a sentence's score is the sigmoid of the perceptron's output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from awesum.analysis.salience.ratings import Query, Ratings, usual_words
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.loading import choose_device, fingerprint, load_tokenizer, loading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

HEAD = "extractor_head.safetensors"
"""The weights that RoBERTa does not have, beside its own."""
TOGETHER = 32
"""Sentences that are encoded at the same time."""


class SentenceScorer(nn.Module):
    """RoBERTa, self-attention over sentences, and a perceptron."""

    def __init__(self, encoder: Any, heads: int) -> None:
        super().__init__()
        size = encoder.config.hidden_size
        self.encoder = encoder
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.norm = nn.LayerNorm(size)
        self.perceptron = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, 1))

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.norm.weight.device

    def encode(self, sentences: Sequence[Sequence[int]]) -> torch.Tensor:
        """The mean of each sentence's outputs: (N, d)."""
        pad, longest = self.encoder.config.pad_token_id, max(map(len, sentences))
        ids = torch.full((len(sentences), longest), pad, device=self.device)
        mask = torch.zeros_like(ids)
        for row, sentence in enumerate(sentences):
            ids[row, : len(sentence)] = torch.tensor(sentence, device=self.device)
            mask[row, : len(sentence)] = 1
        outputs = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return (outputs * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """The score of each sentence of a document, (N,), from their vectors, (N, d)."""
        attended, _ = self.attention(vectors[None], vectors[None], vectors[None], need_weights=False)
        return self.perceptron(self.norm(vectors + attended[0]))[:, 0]

    def new_weights(self) -> dict[str, torch.Tensor]:
        """Those that RoBERTa does not have."""
        return {name: weight for name, weight in self.state_dict().items() if not name.startswith("encoder.")}

    def save(self, folder: str | Path) -> None:
        """RoBERTa as the library saves it, and a file beside it."""
        from safetensors.torch import save_file

        self.encoder.save_pretrained(folder)
        save_file(
            {name: weight.contiguous() for name, weight in self.new_weights().items()},
            Path(folder) / HEAD,
            {"heads": json.dumps(self.attention.num_heads)},
        )

    @classmethod
    def load(cls, folder: str | Path) -> SentenceScorer:
        """What `save` saved."""
        from safetensors import SafetensorError, safe_open

        encoder = load_roberta(str(folder))
        try:
            with safe_open(Path(folder) / HEAD, framework="pt") as file:
                scorer = cls(encoder, json.loads((file.metadata() or {})["heads"]))
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            missing = scorer.load_state_dict(weights, strict=False).missing_keys
            if any(not name.startswith("encoder.") for name in missing):
                raise KeyError(missing[-1])
        except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise AwesumError(
                f"{folder} is not an extractor ({reason}): give a folder written by `awesum train --system extractor`"
            ) from error
        return scorer


def blank_roberta(saved: Mapping[str, Any]) -> Any:
    """An encoder of the configuration `saved`, with new weights."""
    from transformers import RobertaConfig, RobertaModel

    return RobertaModel(RobertaConfig(**saved), add_pooling_layer=False)


def load_roberta(name: str) -> Any:
    """The encoder, without the pooling that nothing here needs."""
    from transformers import AutoConfig, RobertaModel

    with loading(name) as (source, options):
        config = AutoConfig.from_pretrained(source, **options)
        if config.model_type != "roberta":
            raise AwesumError(
                f"{name} is a {config.model_type!r} model, and the extractor takes a RoBERTa: give another --base"
            )
        model, report = RobertaModel.from_pretrained(
            source, add_pooling_layer=False, use_safetensors=True, output_loading_info=True, **options
        )
        if report["missing_keys"]:
            raise AwesumError(
                f"the weights in {name} are not whole ({min(report['missing_keys'])} is missing): copy it again"
            )
        return model.float()


class SentenceSalience:
    """Ratings by a trained `SentenceScorer`, which is loaded when it is first needed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / HEAD).is_file():
            raise AwesumError(
                f"{folder} is not an extractor (it has no {HEAD}): give a folder written by `awesum train --system "
                "extractor`, or a file by `awesum extractor train`"
            )

    @property
    def name(self) -> str:
        """Cache key: changes with the weights."""
        return f"extractor {fingerprint(str(self.folder))[:16]}"

    @cached_property
    def scorer(self) -> SentenceScorer:
        """The model."""
        return SentenceScorer.load(self.folder).to(choose_device()[0]).eval()

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model."""
        return load_tokenizer(str(self.folder))

    def own_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """None: its vectors are for scores, not for cosines."""
        return None

    @torch.inference_mode()
    def rate(self, texts: Sequence[str], vectors: NDArray[np.float32], query: Query | None = None) -> Ratings:
        """See `Salience.rate`. A query stands before every sentence."""
        import numpy as np

        usual = usual_words(sum(map(count_words, texts)))
        if not texts:
            return Ratings(np.zeros(0, dtype=np.float32), usual)
        ids = sentence_ids(self.tokenizer, texts, query.text if query else None)
        groups = [self.scorer.encode(ids[at : at + TOGETHER]) for at in range(0, len(ids), TOGETHER)]
        scores = self.scorer(torch.cat(groups)).sigmoid()
        return Ratings(scores.float().cpu().numpy(), usual)


def sentence_ids(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], query: str | None, longest: int = 128
) -> list[list[int]]:
    """The tokens of each sentence, after the query if there is one; of a very long sentence, the first."""
    shown = [" ".join(text.split()) for text in texts]
    if query:
        shown = [f"{query.strip()} {text}" for text in shown]
    return tokenizer(shown, truncation=True, max_length=longest, split_special_tokens=True, verbose=False)["input_ids"]
