"""How well a statement is supported by source sentences, from 0 to 1.

The statement is compared with the source sentences nearest to it: by exact checks (`claims`) of figures, names,
negation, modality and direction, and by a model that has learned to tell true statements from corrupted ones. Text in a
language that the model does not know is scored by the exact checks, and counts as supported only where it is a copy: of
eleven other sentences that agreed in every check, six were false.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from awesum.errors import AwesumError
from awesum.settings import EXACT
from awesum.verify.claims import Agreement, agreement, has_all, nearest

if TYPE_CHECKING:
    from awesum.verify.cross_encoder import CrossEncoder

SHIPPED = Path(__file__).with_name("verifier.safetensors")
MOST = 0.999
"""The highest support of anything but a copy."""
AGREES = 0.5
"""The support by the exact checks alone from which they speak for a statement."""
CONTRADICTED = 0.1
"""What is left of the support of a statement with a figure, a name or an address that no source has."""
_WORD = re.compile(r"[^\W\d_]+")
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_ENGLISH = frozenset(
    (
        "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
        "which one you were all her she there would their we him been has when who will no more if out so up said "
        "what its about than into them can only other time new some could these two may first then do any like my now "
        "over such our me even most also after many must before through years where your well should because each "
        "just those people how too"
    ).split()
)
LARGE = 1_000_000_000
"""Parameters from which on a model that writes counts as large. The threshold for those was fixed on drafts of a model
of 1.5 billion, the other on drafts of 135 million."""
RANK = 32
"""The rank of what is kept of the changes that training made to a matrix."""
ENGLISH_SHARE = 0.18
"""The share of common English words from which a text counts as English."""


class Verdict(NamedTuple):
    """How well a statement is supported, and by what."""

    support: float
    sources: tuple[int, ...]
    """The source sentences that it was compared with, the nearest first."""
    is_judged: bool = True
    """False for anything but a copy in a language that the model does not know: nobody can tell whether it is true."""
    exact: float = 1.0
    """The support by the exact checks alone."""


class Scorer(Protocol):
    """A model that judges pairs of a source and a statement."""

    name: str
    """Changes with the weights."""
    english_only: bool
    """Whether it knows no other language."""

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The log-odds that the source supports the statement, for each pair."""

    def bytes(self) -> int:
        """The RAM that the model takes."""


@dataclass(frozen=True)
class Calibration:
    """How the model's judgement and the exact checks add up, and from where on a statement counts as supported."""

    model: float = 1.0
    """The weight of the model's log-odds."""
    checks: tuple[float, ...] = field(default_factory=lambda: (0.0,) * len(Agreement().values()))
    """The weights of what `Agreement` compares, each as its distance from full agreement."""
    bias: float = 0.0
    threshold: float = AGREES
    """The support from which a statement is kept."""
    strict: float = 0.9
    """The same for `--strict`."""
    large: float | None = None
    """The same for what a large model wrote, if it is lower: most of its drafts are true, and most of a small one's
    are false. The exact checks must then agree as well."""

    def support(self, logit: float, agreed: Agreement) -> float:
        """A probability."""
        total = self.bias + self.model * logit
        total += sum(weight * (1 - value) for weight, value in zip(self.checks, agreed.values(), strict=True))
        return 1 / (1 + math.exp(-max(min(total, 50.0), -50.0)))


class Verifier:
    """Judges statements. `Verifier.load()` is the shipped one."""

    def __init__(self, scorer: Scorer | None = None, calibration: Calibration | None = None) -> None:
        self.scorer = scorer
        self.calibration = calibration or Calibration()

    @classmethod
    def load(cls, source: str | Path | None = None) -> Verifier:
        """The shipped verifier, one that `awesum verifier train` wrote, or any NLI model by its name or folder.

        `exact` is verification by exact checks alone.
        """
        if source is None:
            return _shipped()
        if Path(source).is_file():
            return load_file(Path(source))
        if str(source) == EXACT:
            return cls()
        from awesum.verify.nli import NliModel

        return cls(NliModel.load(str(source)))

    @property
    def name(self) -> str:
        """Changes whenever the verdicts would."""
        return self.scorer.name if self.scorer else EXACT

    def bytes(self) -> int:
        """The RAM that the model takes."""
        return self.scorer.bytes() if self.scorer else 0

    def support(self, sources: Sequence[str], sentence: str) -> float:
        """How well source sentences support a sentence, from 0 to 1; 1 if it is one of them."""
        return self.judge(sources, [sentence])[0].support

    def supports(self, verdict: Verdict, *, strict: bool = False, by_large: bool = False) -> bool:
        """Whether a statement is supported well enough to be kept; `by_large` if a large model wrote it."""
        known = self.calibration
        if not verdict.is_judged or not verdict.sources:
            return False
        if by_large and not strict and known.large is not None:
            return verdict.support >= known.large and verdict.exact >= AGREES
        return verdict.support >= (known.strict if strict else known.threshold)

    def judge(self, sources: Sequence[str], statements: Sequence[str]) -> list[Verdict]:
        """The verdict on each statement."""
        plain = [" ".join(source.split()) for source in sources]
        together = [_squeeze(source) for source in plain]
        verdicts: list[Verdict | None] = []
        waiting: list[tuple[int, str, list[int], Agreement]] = []
        for statement in (" ".join(each.split()) for each in statements):
            near = nearest(plain, statement)
            if statement and statement in plain:
                verdicts.append(Verdict(1.0, (plain.index(statement),)))
            elif statement and (squeezed := _squeeze(statement)) in together:
                verdicts.append(Verdict(MOST, (together.index(squeezed),)))
            elif not near:
                verdicts.append(Verdict(0.0, ()))
            else:
                waiting.append((len(verdicts), statement, near, agreement([plain[index] for index in near], statement)))
                verdicts.append(None)
        judged = [
            self.can_judge(" ".join([statement, *(plain[index] for index in near)]))
            for _, statement, near, _ in waiting
        ]
        pairs = [
            (" ".join(plain[index] for index in sorted(near)), statement)
            for (_, statement, near, _), is_judged in zip(waiting, judged, strict=True)
            if is_judged
        ]
        logits = iter(self.scorer.logits(pairs) if self.scorer and pairs else [])
        for (at, statement, near, agreed), is_judged in zip(waiting, judged, strict=True):
            exact = exact_support(agreed)
            support = self.calibration.support(next(logits), agreed) if is_judged else exact
            if not has_all(plain, statement):
                support *= CONTRADICTED
                exact *= CONTRADICTED
            verdicts[at] = Verdict(min(support, MOST), tuple(near), is_judged or self.scorer is None, exact)
        return [verdict for verdict in verdicts if verdict is not None]

    def can_judge(self, text: str) -> bool:
        """Whether the model knows the language of a text; otherwise support comes from the exact checks alone."""
        return self.scorer is not None and (not self.scorer.english_only or is_english(text))


def is_large(parameters: int | None) -> bool:
    """Whether a model that writes counts as large. So does one of unknown size, on a server: who runs one, or pays for
    it, seldom takes a tiny model."""
    return parameters is None or parameters >= LARGE


def _squeeze(text: str) -> str:
    """A text without white space, except between figures: a model that copies "( P.L. 115-246 )" often mends it."""
    return _SPACE.sub("", text)


def exact_support(agreed: Agreement) -> float:
    """The support by exact checks alone: the worst of them, less where the source has few of the words."""
    worst = min(agreed.exact, agreed.negation, agreed.modality, agreed.direction)
    return worst * (1 + agreed.words) / 2 if agreed.words else 0.0


def is_english(text: str) -> bool:
    """Whether a text is English, as far as its commonest words tell."""
    words = [word.lower() for word in _WORD.findall(text)]
    return bool(words) and sum(word in _ENGLISH for word in words) >= ENGLISH_SHARE * len(words)


@cache
def _shipped() -> Verifier:
    """Loaded once: it never changes, and several systems use it."""
    return load_file(SHIPPED)


def untrained() -> CrossEncoder:
    """The embedded encoder with a fresh head, in float32: the changes that training makes are too small for less."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from awesum.loading import loading
    from awesum.verify.cross_encoder import CrossEncoder
    from awesum.weights import minilm_folder

    with loading("the embedded encoder", minilm_folder()) as (folder, options):
        encoder = AutoModel.from_pretrained(folder, use_safetensors=True, dtype=torch.float32, **options)
        return CrossEncoder(encoder, AutoTokenizer.from_pretrained(folder, **options))


def load_file(path: Path) -> Verifier:
    """A verifier from a file: the embedded encoder with what was trained of it."""
    from safetensors import SafetensorError, safe_open

    from awesum.files import sha256
    from awesum.verify.cross_encoder import TrainedScorer
    from awesum.weights import MINILM_WHEEL

    try:
        with safe_open(path, framework="pt") as file:
            metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
            weights = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        if metadata["base_sha256"] != MINILM_WHEEL.sha256:
            raise AwesumError(f"{path} was trained for another encoder than the embedded one: train it again")
        calibration = Calibration(**{**metadata["calibration"], "checks": tuple(metadata["calibration"]["checks"])})
        if len(calibration.checks) != len(Agreement().values()):
            raise AwesumError(f"{path} was trained with other checks: train it again with this version of awesum")
        model = untrained()
        model.load_changes(weights)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AwesumError(
            f"{path} is not a verifier ({reason}): give a file written by `awesum verifier train`, or an NLI model"
        ) from error
    return Verifier(TrainedScorer(model, f"verifier {sha256(path)[:16]}"), calibration)


def save_file(path: Path, model: CrossEncoder, calibration: Calibration, rank: int = RANK) -> None:
    """Write what was trained: low-rank changes of the embedded encoder in half precision."""
    from safetensors.torch import load_file as read
    from safetensors.torch import save

    from awesum import files
    from awesum.weights import MINILM_WHEEL

    metadata = {"base_sha256": MINILM_WHEEL.sha256, "calibration": asdict(calibration)}
    changes = model.changes(read(MINILM_WHEEL.path()), rank)
    files.write(path, files.sort_metadata(save(changes, {key: json.dumps(value) for key, value in metadata.items()})))
