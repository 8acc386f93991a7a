"""Models for natural language inference: loading any of them, and using one as the verifier's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from awesum.errors import AwesumError
from awesum.loading import choose_device, fingerprint, load_tokenizer, loading, window_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

VITC = "tals/albert-xlarge-vitaminc-mnli"
"""The model recommended by SummaC's authors, for which the weights of Conv were released."""
UNLABELLED = {
    "albert-xlarge-vitaminc-mnli": (0, 1),
    "albert-base-vitaminc-mnli": (0, 1),
    "albert-xlarge-vitaminc": (0, 1),
}
"""Indices of entailment and contradiction, by the last part of the name, for configurations without label names."""
BATCH = 8
"""Pairs per pass."""
SPECIAL = 8
"""Tokens for the marks of a pair, and for what a piece takes more alone than inside its text."""

ADVICE = f"give an NLI model such as {VITC}, as a folder or a name on the hub"


def load_nli(model: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """An NLI model and its tokenizer, from a folder or the hub."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    kind = "an NLI model's folder with config.json, tokenizer and safetensors weights"
    with loading(model, kind=kind) as (source, options):
        nli_labels(getattr(AutoConfig.from_pretrained(source, **options), "id2label", {}), model)
        loaded, report = AutoModelForSequenceClassification.from_pretrained(
            # Always float32: a score must not depend on the machine.
            source,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            **options,
        )
    if missing := sorted(report["missing_keys"]):
        raise AwesumError(
            f"{model} is not an NLI model: weights are missing ({', '.join(missing[:3])}), as in a model that was "
            f"never trained to classify; {ADVICE}"
        )
    tokenizer = load_tokenizer(model)
    if not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise AwesumError(f"{model} has no tokenizer for batches of pairs (tokenizer.json, padding token); {ADVICE}")
    return loaded.to(choose_device()[0]).eval(), tokenizer


def nli_labels(names: Mapping[int, str], model: str) -> tuple[int, int]:
    """The indices of entailment and contradiction in a model's output; refuses a model that lacks either."""
    entailment, contradiction = _places(names, "entail", "support"), _places(names, "contradict", "refute")
    if len(names) > 2:
        if len(entailment) == 1 and len(contradiction) == 1:
            return entailment[0], contradiction[0]
        if not entailment and not contradiction and Path(model).name in UNLABELLED:
            return UNLABELLED[Path(model).name]
    labels = ", ".join([*map(str, names.values())][:4]) + (", ..." if len(names) > 4 else "")
    raise AwesumError(
        f"{model} is not an NLI model: its labels ({labels or 'none'}) are not one entailment, one contradiction and "
        f"a neutral one; {ADVICE}"
    )


def _places(names: Mapping[int, str], *words: str) -> list[int]:
    """The indices of the labels that contain one of the words and are not negated, as `not_entailment` is."""
    named = ((int(place), str(name).lower()) for place, name in names.items())
    return [place for place, name in named if any(word in name for word in words) and not name.startswith(("no", "un"))]


class NliModel:
    """The log-odds of entailment; the source is the premise."""

    english_only = False

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.name = f"{name} {fingerprint(name)[:16]}"
        self.entailment, _ = nli_labels(model.config.id2label, name)
        self.half = (min(window_of(model.config), tokenizer.model_max_length) - SPECIAL) // 2

    @classmethod
    def load(cls, source: str) -> NliModel:
        """A folder, or a name on the hub that the user gave."""
        return cls(*load_nli(source), source)

    def bytes(self) -> int:
        """The RAM that the weights take."""
        return self.model.get_memory_footprint()

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See `Scorer.logits`. A source or statement that does not fit the window is judged piece by piece: the best
        piece of a source and the worst of a statement count."""
        pieces = [(number, part, pair) for number, each in enumerate(pairs) for part, pair in self._pieces(*each)]
        found: dict[tuple[int, int], float] = {}
        for at in range(0, len(pieces), BATCH):
            batch = pieces[at : at + BATCH]
            for (number, part, _), score in zip(batch, self._scores([pair for *_, pair in batch]), strict=True):
                found[number, part] = max(score, found.get((number, part), score))
        return [min(score for (of, _), score in found.items() if of == number) for number in range(len(pairs))]

    def _pieces(self, source: str, statement: str) -> list[tuple[int, tuple[str, str]]]:
        return [
            (part, (premise, hypothesis))
            for part, hypothesis in enumerate(self._split(statement))
            for premise in self._split(source)
        ]

    def _split(self, text: str) -> list[str]:
        """A text in pieces of at most half of the window."""
        offsets = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
            "offset_mapping"
        ]
        starts = [0, *(offsets[at][0] for at in range(self.half, len(offsets), self.half)), len(text)]
        return [text[start:end] for start, end in pairwise(starts)]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        premises, hypotheses = zip(*pairs, strict=True)
        inputs = self.tokenizer(list(premises), list(hypotheses), padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self.model(**inputs.to(self.model.device)).logits.float()
            others = logits.clone()
            others[:, self.entailment] = -torch.inf
            return (logits[:, self.entailment] - others.logsumexp(-1)).tolist()
