"""DiscoScore: how similar the discourse of a summary is to its reference, by BERT (Zhao, Strube and Eger, EACL 2023).

DS-Focus compares BERT's states of the nouns that both texts share; DS-Sent compares their sentences, each combined with
the later ones that share a noun. The definitions are those of the published code, in the "NN" variant, except:

- The attention mask is all ones. The published code passes zeros, which make attention uniform.
- Texts longer than BERT's window are read in windows that overlap by half, instead of raising an error.
- Texts are split into sentences and tagged (by spaCy, not UDPipe) as written, and lower-cased for BERT only. Sentences
  are split from the text itself, not from "[CLS] " and the text; [CLS] belongs to the first one.
- The tokenizer is used as saved, so accents are stripped if the model was trained without them.
- Without a noun in common there is no DS-Focus. The published code gives 0, the best possible distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.metrics.english import REQUIREMENT, nouns
from awesum.metrics.entity_graph import link_rows, mean
from awesum.metrics.metric import Need, Option, Sample, Score

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BERT = "bert-base-uncased"
"""The encoder of the published scores."""
LAYERS = 8
"""The first layers of the encoder; the output of the last of these is compared."""
WINDOW = 512
"""Word pieces per window, unless the model has fewer positions."""
BATCH = 8
"""Windows per forward pass."""

_READING = f"first {LAYERS} layers, mask of ones, windows of {WINDOW} by half, nouns by spaCy with {REQUIREMENT}"


@dataclass(frozen=True)
class Discourse:
    """The vectors of a text that are compared."""

    focus: dict[str, NDArray[np.float64]]
    """E(f): for each noun, the sum of its unit vectors."""  # (d,) each
    sentences: NDArray[np.float64]
    """S' = (I + A) S, in rows of length 1."""  # (n, d)


class DiscoScore:
    """DS-Focus and DS-Sent with one encoder for both."""

    name = "discoscore"
    needs: frozenset[Need] = frozenset({"reference", "model", "english"})
    options = (
        Option(
            "model",
            "--bert-model",
            metavar="NAME_OR_PATH",
            help=f"model for discoscore: a folder, or a name on the hub such as {BERT}",
            is_model=True,
        ),
    )

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        self.model = model.eval()
        self.title = name
        self.tokenizer = tokenizer
        # RoBERTa and similar models start counting positions after that of padding.
        first_position = getattr(getattr(model, "embeddings", None), "padding_idx", -1) + 1
        self.window = min(WINDOW, getattr(model.config, "max_position_embeddings", WINDOW) - first_position)
        self.scores = (
            Score(
                "disco-focus",
                "DS-Focus",
                "lower",
                settings=f"{name}, {_READING}; NaN without a noun in common (published: 0); mean over references",
            ),
            Score(
                "disco-sent",
                "DS-Sent",
                "higher",
                low=-1.0,
                high=1.0,
                scale=100,
                settings=f"{name}, {_READING}; mean over references",
            ),
        )

    @classmethod
    def load(cls, model: str = BERT) -> DiscoScore:
        """Load from a folder with safetensors weights, or by a hub name."""
        import torch
        from transformers import AutoConfig, AutoModel

        from awesum.loading import choose_device, load_tokenizer, loading

        with loading(model) as (source, options):
            config = AutoConfig.from_pretrained(source, **options)
            _check_encoder(model, config)
            tokenizer = load_tokenizer(model)
            if tokenizer.cls_token_id is None:
                raise AwesumError(f"the tokenizer of {model} has no [CLS] token: give an encoder such as {BERT}")
            config.num_hidden_layers = min(config.num_hidden_layers, LAYERS)  # the others are not loaded
            # Always float32: a score must not depend on the machine.
            encoder, report = AutoModel.from_pretrained(
                source, config=config, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **options
            )
            # The pooler after the last layer is not used, and not in every checkpoint.
            if missing := sorted(key for key in report["missing_keys"] if "pooler" not in key):
                raise AwesumError(
                    f"{model} lacks {len(missing)} weights of the {config.model_type!r} model that its config.json "
                    f"describes, such as {missing[0]}: give a complete folder, or the name of a model on the hub"
                )
        return cls(encoder.to(choose_device()[0]), tokenizer, model)

    def measure(self, sample: Sample) -> dict[str, float]:
        """Both scores, each the mean over the references for which it is defined."""
        prediction = self.read(sample.prediction)
        references = [self.read(reference) for reference in sample.references]
        return {
            "disco-focus": mean(focus_distance(prediction, reference) for reference in references),
            "disco-sent": mean(sentence_similarity(prediction, reference) for reference in references),
        }

    def read(self, text: str) -> Discourse:
        """Encode a text. The states of its word pieces are summed as they are computed, and never all kept."""
        import torch

        sentences = nouns(text)
        lemmas = {noun for sentence in sentences for noun in sentence}
        words = [
            (number, word)
            for number, (start, end) in enumerate(sentence_spans(text))
            for word in text[start:end].lower().split()
        ]
        ids, owners, focus = [self.tokenizer.cls_token_id], [0], [-1]
        foci: dict[str, int] = {}
        for (number, word), pieces in zip(words, self._pieces([word for _, word in words]), strict=True):
            if not pieces:
                continue  # control characters, which the tokenizer removes
            ids += pieces
            owners += [number] * len(pieces)
            is_focus = word in lemmas  # as written: a plural, or a word followed by a comma, is not
            focus += [-1] * (len(pieces) - 1) + [foci.setdefault(word, len(foci)) if is_focus else -1]

        size = self.model.config.hidden_size
        sums = torch.zeros(max(len(sentences), 1), size, dtype=torch.float64)
        focus_sums = torch.zeros(len(foci), size, dtype=torch.float64)
        owner, focus_of = torch.tensor(owners), torch.tensor(focus)
        done = 0
        for states in self._states(torch.tensor(ids)):
            here = slice(done, done := done + len(states))
            sums.index_add_(0, owner[here], states)
            in_focus = focus_of[here] >= 0
            units = states[in_focus] / (states[in_focus].norm(dim=1, keepdim=True) + 1e-30)
            focus_sums.index_add_(0, focus_of[here][in_focus], units)
        counts = torch.bincount(owner, minlength=len(sums)).clamp(min=1)
        vectors = (sums / counts[:, None]).numpy()[: len(sentences)]  # S
        return Discourse(dict(zip(foci, focus_sums.numpy(), strict=True)), _linked(vectors, sentences))

    def _pieces(self, words: list[str]) -> list[list[int]]:
        """The word pieces of each word on its own."""
        if not words:
            return []
        return self.tokenizer(words, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]

    def _states(self, ids: torch.Tensor) -> Iterator[torch.Tensor]:
        """The states of all tokens in order, a batch of windows at a time.

        Of each window but the first, only the last half is used, so that it has the first half as left context. The
        last window may be shorter than the others, and is read on its own rather than padded.
        """
        size = min(self.window, len(ids))
        step = max(self.window // 2, 1)
        windows = ids.unfold(0, size, step)  # (number, size)
        for first in range(0, len(windows), BATCH):
            states = self._forward(windows[first : first + BATCH])  # (B, size, d)
            if first == 0:
                yield states[0]
                states = states[1:]
            yield states[:, size - step :].flatten(0, 1)
        if (end := size + (len(windows) - 1) * step) < len(ids):
            context = size - step
            yield self._forward(ids[None, end - context :])[0, context:]

    def _forward(self, windows: torch.Tensor) -> torch.Tensor:
        import torch

        windows = windows.to(self.model.device)
        with torch.inference_mode():
            states = self.model(input_ids=windows, attention_mask=torch.ones_like(windows)).last_hidden_state
        if not torch.isfinite(states).all():
            raise AwesumError(
                f"the model {self.title} gives NaN or infinite numbers, so there is no score: its weights are broken; "
                f"give an encoder such as {BERT}"
            )
        return states.cpu().double()  # in this order: Apple's GPU has no float64


def focus_distance(prediction: Discourse, reference: Discourse) -> float:
    """DS-Focus: the total squared distance of the common nouns, over the number of nouns of the prediction."""
    common = prediction.focus.keys() & reference.focus.keys()
    if not common:
        return nan
    apart = sum(float(((prediction.focus[noun] - reference.focus[noun]) ** 2).sum()) for noun in sorted(common))
    return apart / len(prediction.focus)


def sentence_similarity(prediction: Discourse, reference: Discourse) -> float:
    """DS-Sent: the cosine of the two texts, each given as the minimum, mean, maximum and sum of its sentences."""
    if not (len(prediction.sentences) and len(reference.sentences)):
        return nan
    if len(reference.sentences) == 1:
        return float(np.clip(prediction.sentences @ reference.sentences[0], -1, 1).mean())
    one, other = (
        np.concatenate([rows.min(axis=0), rows.mean(axis=0), rows.max(axis=0), rows.sum(axis=0)])  # (4d,)
        for rows in (prediction.sentences, reference.sentences)
    )
    return float(np.clip(one @ other / (np.linalg.norm(one) * np.linalg.norm(other) + 1e-30), -1, 1))


def _linked(vectors: NDArray[np.float64], sentences: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """S' = (I + A) S with rows of length 1: to each sentence, add the later ones that share a noun with it."""
    linked = vectors + np.concatenate([vectors[:0], *(rows @ vectors for rows in link_rows(sentences))])
    return linked / (np.linalg.norm(linked, axis=1, keepdims=True) + 1e-30)


def _check_encoder(name: str, config: PretrainedConfig) -> None:
    """Refuse a model that is not built like BERT, before its weights are read."""
    import torch
    from transformers import AutoModel

    encoder: Any = None
    if not any(getattr(config, kind, False) for kind in ("is_encoder_decoder", "is_decoder")):
        with torch.device("meta"):
            encoder = getattr(AutoModel.from_config(config), "encoder", None)
    if not (hasattr(encoder, "layer") or hasattr(encoder, "layers")):
        raise AwesumError(
            f"{name} is a {config.model_type!r} model, not an encoder like BERT, which DiscoScore needs: "
            f"give one such as {BERT}"
        )
