"""SummaC: how well a document supports each sentence of a summary, by a natural language inference (NLI) model.

For a document sentence i (the premise) and a summary sentence j (the hypothesis), the model gives the probability that
i entails j (E) and that i contradicts j (C). SummaC-ZS is the mean over j of max_i E - max_i C, here over the whole
document. SummaC-Conv, at its published settings, sees only the beginning of both texts and grows with the number of
document sentences; it is included for comparison with published numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.loading import window_of
from awesum.metrics.metric import Need, Option, Sample, Score
from awesum.summary import count
from awesum.verify.nli import ADVICE, VITC, load_nli, nli_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Encoding
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PREMISES = 40
"""Document sentences that each summary sentence is compared with: the nearest ones."""
CONV_PREMISES, CONV_HYPOTHESES = 100, 10
"""Sentences used by Conv: the first ones."""
TOO_SHORT = 10
"""A chunk of at most this many characters is not a sentence but a heading, a number or the rest of a list."""
LONGEST = 500
"""Word pieces of a pair, special tokens included."""

BATCH_TOKENS = 1024
"""Tokens per forward pass on a CPU, padding included; sixteen times as many on a CUDA GPU."""
TOGETHER = 1024
"""Pairs sorted by length at a time, and sentences tokenized or embedded at a time."""

# Conv: 23 bins of E, the weight of a premise in each, and the logistic function of the mean over the hypotheses.
# fmt: off
EDGES = np.array([
    0, 0.01, 0.02, 0.03, 0.04, 0.07, 0.13, 0.37, 0.90, 0.91, 0.92, 0.93,
    0.94, 0.95, 0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1,
])
WEIGHTS = np.array([
    -0.0045, -0.0148, -0.0224, 0.0213, -0.0110, -0.0796, -0.0559, -0.0842, -0.2454, -0.5176, -0.3848, -0.4864,
    -0.6251, -0.4775, -0.7724, -0.9259, -1.0009, -1.0923, -1.1168, -1.1111, -1.5993, -2.0340, -2.3670,
])
# fmt: on
BIAS, SLOPE, OFFSET = 0.6318, -1.6173, -0.3712

ZS_SCORE = Score("summac-zs", "SummaC-ZS", "higher", low=-1.0, high=1.0, scale=100.0)
CONV_SCORE = Score("summac-conv", "SummaC-Conv", "higher", high=1.0, scale=100.0)


@dataclass(frozen=True, slots=True)
class Support:
    """The support that a document gives to the sentences of a summary."""

    entailment: NDArray[np.float64]
    """max_i E of every summary sentence. (m)"""
    contradiction: NDArray[np.float64]
    """max_i C of every summary sentence. (m)"""
    image: NDArray[np.float64]
    """E of the sentences used by Conv. (at most 100, at most 10)"""

    @property
    def sentences(self) -> NDArray[np.float64]:
        """SummaC-ZS of every summary sentence. (m)"""
        return self.entailment - self.contradiction


class Pair(NamedTuple):
    """The input of the model for a premise and a hypothesis, given by index."""

    premise: int
    hypothesis: int
    ids: NDArray[np.int32]
    types: NDArray[np.int32]


def _premises(value: str) -> int | None:
    """The value of `--premises`: a number, or None for `all`."""
    if value == "all":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise AwesumError(f"--premises must be a number of sentences or 'all', not {value!r}")
    return int(value)


class Summac:
    """SummaC with any NLI model; with `premises=None`, every pair of sentences is compared."""

    name = "summac"
    scores: tuple[Score, ...] = (ZS_SCORE, CONV_SCORE)
    needs: frozenset[Need] = frozenset({"document", "model"})
    options = (
        Option(
            "model",
            "--nli-model",
            metavar="NAME_OR_PATH",
            help=f"model for summac: a folder, or a name on the hub such as {VITC}",
            is_model=True,
        ),
        Option(
            "premises",
            "--premises",
            metavar="N|all",
            help=f"document sentences that summac compares each summary sentence with (default: {PREMISES})",
            default=str(PREMISES),
            parse=_premises,
        ),
    )

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        title: str = VITC,
        premises: int | None = PREMISES,
        encoder: SentenceEncoder | None = None,
    ) -> None:
        if premises is not None and premises < 1:
            raise AwesumError(
                f"SummaC cannot compare with {premises} document sentences: give 1 or more, or None for all"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.title = title
        self.premises = premises
        self.labels = nli_labels(model.config.id2label, title)
        # Two positions fewer than the model has: RoBERTa reserves two.
        self.limit = min(LONGEST, window_of(model.config) - 2, tokenizer.model_max_length)
        self.cut = 0
        """Document sentences, over all samples, that were too long for the model and were truncated."""
        self.cut_summary = 0
        """Summary sentences that were: only those that alone take more than half of the model's window."""
        self._encoder = encoder
        compared = "all document sentences" if premises is None else f"the {premises} nearest document sentences"
        of_conv = f"the first {CONV_PREMISES} document and {CONV_HYPOTHESES} summary sentences"
        self.scores = (
            replace(ZS_SCORE, settings=f"{title}; each summary sentence with {compared} of the whole document"),
            replace(CONV_SCORE, settings=f"{title}; official settings: {of_conv} only, weights released for {VITC}"),
        )

    @classmethod
    def load(cls, model: str = VITC, premises: int | None = PREMISES, encoder: SentenceEncoder | None = None) -> Summac:
        """Load an NLI model from a folder or the hub; `encoder`, or else MiniLM, finds the nearest sentences."""
        loaded, tokenizer = load_nli(model)
        return cls(loaded, tokenizer, model, premises, encoder)

    def measure(self, sample: Sample) -> Mapping[str, float]:
        """Both scores of one summary."""
        support = self.support(sample.document, sample.prediction)
        return {"summac-zs": float(support.sentences.mean()), "summac-conv": conv(support.image)}

    def notes(self) -> list[str]:
        """Report truncated sentences."""
        cut = self.cut + self.cut_summary
        return [f"{self.name}: {count(cut, 'sentence')} too long for the model, truncated to its window"] if cut else []

    def support(self, document: str, summary: str) -> Support:
        """The maxima that the scores are computed from; if a text has no sentence, zeros as for one neutral pair."""
        premises, hypotheses = chunks(document), chunks(summary)
        if not premises or not hypotheses:
            return Support(np.zeros(1), np.zeros(1), np.zeros((1, 1)))
        near = self._near(premises, hypotheses)
        seen = range(min(len(premises), CONV_PREMISES)), range(min(len(hypotheses), CONV_HYPOTHESES))
        # The union of the pairs that both scores need, so that no pair is evaluated twice.
        wanted = [near[i].union(seen[1]) if i in seen[0] else near[i] for i in range(len(premises))]
        entailment, contradiction = np.zeros(len(hypotheses)), np.zeros(len(hypotheses))
        image = np.zeros((len(seen[0]), len(seen[1])))
        for i, j, e, c in self._evaluate(premises, hypotheses, wanted):
            if j in near[i]:
                entailment[j], contradiction[j] = max(entailment[j], e), max(contradiction[j], c)
            if i in seen[0] and j in seen[1]:
                image[i, j] = e
        return Support(entailment, contradiction, image)

    def _near(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[frozenset[int]]:
        """For each premise, the hypotheses it is compared with."""
        if self.premises is None or self.premises >= len(premises):
            return [frozenset(range(len(hypotheses)))] * len(premises)
        return near(self._minilm(), premises, hypotheses, self.premises)

    def _minilm(self) -> SentenceEncoder:
        if self._encoder is None:
            from awesum.weights import minilm_folder

            self._encoder = SentenceEncoder.load(minilm_folder())
        return self._encoder

    def _evaluate(
        self, premises: Sequence[str], hypotheses: Sequence[str], wanted: Sequence[Collection[int]]
    ) -> Iterator[tuple[int, int, float, float]]:
        """Premise, hypothesis, E and C of all wanted pairs, in batches of similar length."""
        budget = BATCH_TOKENS * (16 if self.model.device.type == "cuda" else 1)
        pairs = self._pairs(premises, hypotheses, wanted)
        while together := list(islice(pairs, TOGETHER)):
            together.sort(key=lambda pair: len(pair.ids))
            for batch in _batches(together, budget):
                for pair, (e, c) in zip(batch, self._probabilities(batch), strict=True):
                    yield pair.premise, pair.hypothesis, float(e), float(c)

    def _pairs(
        self, premises: Sequence[str], hypotheses: Sequence[str], wanted: Sequence[Collection[int]]
    ) -> Iterator[Pair]:
        """The pairs as the tokenizer joins them, from sentences tokenized once; counts truncated sentences."""
        backend = self.tokenizer.backend_tokenizer
        claims = self._pieces(hypotheses)
        cut_claims: set[int] = set()
        for first in range(0, len(premises), TOGETHER):
            block = [i for i in range(first, min(first + TOGETHER, len(premises))) if wanted[i]]
            for i, premise in zip(block, self._pieces([premises[i] for i in block]), strict=True):
                cut = False
                for j in sorted(wanted[i]):
                    # A pair that is too long loses the end of its longer side, as in the authors' code.
                    joined = backend.post_process(premise, claims[j])
                    if len(joined) >= self.limit:
                        cut |= joined.sequence_ids.count(0) < len(premise)
                        if joined.sequence_ids.count(1) < len(claims[j]):
                            cut_claims.add(j)
                    yield Pair(i, j, np.array(joined.ids, np.int32), np.array(joined.type_ids, np.int32))
                self.cut += cut
        self.cut_summary += len(cut_claims)

    def _pieces(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokenize each text alone, untruncated and without special tokens; then set the tokenizer up for pairs."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_padding()
        backend.no_truncation()
        pieces: list[Encoding] = backend.encode_batch(list(texts), add_special_tokens=False)
        backend.enable_truncation(self.limit, strategy="longest_first")
        return pieces

    def _probabilities(self, batch: Sequence[Pair]) -> NDArray[np.float64]:
        """E and C of each pair. (B, 2)"""
        import torch

        shape = len(batch), max(len(pair.ids) for pair in batch)
        ids = torch.full(shape, self.tokenizer.pad_token_id)
        types, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        for row, pair in enumerate(batch):
            ids[row, : len(pair.ids)] = torch.from_numpy(pair.ids)
            types[row, : len(pair.ids)] = torch.from_numpy(pair.types)
            mask[row, : len(pair.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = types
        with torch.inference_mode():
            inputs = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
            logits = self.model(**inputs).logits.float()
            if not torch.isfinite(logits).all():
                raise AwesumError(
                    f"the model {self.title} gives NaN or infinite numbers, so there is no score: its weights are "
                    f"broken, or too large for {self.model.dtype}; {ADVICE}"
                )
            probabilities = logits.softmax(dim=-1)[:, list(self.labels)]
        return probabilities.cpu().double().numpy()  # in this order: Apple's GPU has no float64


def near(
    encoder: SentenceEncoder, premises: Sequence[str], hypotheses: Sequence[str], nearest: int
) -> list[frozenset[int]]:
    """For each premise, the hypotheses that have it among their `nearest` nearest ones."""
    m = len(hypotheses)
    claims = encoder.encode(hypotheses)  # (m, d)
    best, places = np.zeros((m, 0), np.float32), np.zeros((m, 0), np.intp)
    for first in range(0, len(premises), TOGETHER):
        # Block by block, so that the vectors of a whole book are never in RAM at once. Of equals the first is taken.
        vectors = encoder.encode(premises[first : first + TOGETHER])
        best = np.concatenate([best, claims @ vectors.T], axis=1)
        here = np.broadcast_to(np.arange(first, first + len(vectors)), (m, len(vectors)))
        places = np.concatenate([places, here], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :nearest]
        best, places = np.take_along_axis(best, order, axis=1), np.take_along_axis(places, order, axis=1)
    found: list[set[int]] = [set() for _ in premises]
    for j, i in np.ndindex(places.shape):
        found[places[j, i]].add(j)
    return [frozenset(indices) for indices in found]


def chunks(text: str) -> list[str]:
    """The sentences of a text, without those of at most `TOO_SHORT` characters."""
    sentences = (text[start:end].strip() for start, end in sentence_spans(text))
    return [sentence for sentence in sentences if len(sentence) > TOO_SHORT]


def histograms(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number of premises in each bin of E, for each hypothesis; 1 belongs to the last bin. (m, 23)"""
    bins = np.searchsorted(EDGES[1:-1], image, side="right")  # (n, m)
    return np.array([np.bincount(column, minlength=len(WEIGHTS)) for column in bins.T], dtype=np.float64)


def conv(image: NDArray[np.float64]) -> float:
    """SummaC-Conv from E of all pairs (n, m). It uses raw counts, so it grows with n even if nothing is entailed."""
    mean = float((histograms(image) @ WEIGHTS + BIAS).mean())
    return 1 / (1 + exp(-(SLOPE * mean + OFFSET)))


def _batches(pairs: Sequence[Pair], budget: int) -> Iterator[Sequence[Pair]]:
    """Split pairs, sorted by length, into batches of at most `budget` tokens, padding included."""
    first = 0
    for index, pair in enumerate(pairs):
        if (index + 1 - first) * len(pair.ids) > budget and index > first:
            yield pairs[first:index]
            first = index
    yield pairs[first:]
