"""The protocol of a system: something that turns a document into a summary.

Modules of this package are imported by the command line: what takes time to import (torch, the library of models) is
imported by the methods that need it.
"""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from awesum.errors import AwesumError
from awesum.length import Length
from awesum.settings import EXACT, EXTRACT, Settings, Style

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analysis, Analyst, Progress
    from awesum.analysis.segmentation import Limits
    from awesum.analysis.tokens import PlainTokenizer
    from awesum.compose.plan import Plan
    from awesum.compose.session import Session
    from awesum.document import Document
    from awesum.engine.engine import Engine
    from awesum.summary import Part
    from awesum.verify.verifier import Verifier


ENGLISH = frozenset({"en"})
"""What the embedded models were trained on."""


class Taxonomy(NamedTuple):
    """A row of the paper's first table: what a system reads and writes, and how much of it each half has in view.

    `x` is the document, `x_e` extracted sentences, `x_1` its beginning and `x_i` a segment; `y` is the summary and
    `y_i` the part of a segment.
    """

    in_out: str
    """In -> Out: longer ones take more memory."""
    enc: str
    """Enc: what each token is encoded with: the full document, or a part of it."""
    enc_dec: str
    """Enc <- Dec: what of the encoded document the decoder sees."""
    dec: str
    """Dec: what of the summary the decoder sees: all that was written before, or the current part."""

    def __str__(self) -> str:
        return f"{self.in_out}; Enc: {self.enc}; Enc <- Dec: {self.enc_dec}; Dec: {self.dec}"


def no_progress(stage: str, done: int, total: int) -> None:
    """Nobody is watching."""


class System(ABC):
    """Something that turns a document into a summary, with everything it needs loaded once and used for many."""

    name: ClassVar[str]
    description: ClassVar[str]
    """One line for `awesum systems`."""
    paper: ClassVar[str] = ""
    """Where the method was published."""
    settings_class: ClassVar[type | None] = None
    """The dataclass of what can be set when it is trained; none for a system that does not learn."""
    training: ClassVar[str] = ""
    """`module:class` of the `Trainable` that trains it, imported by training alone."""
    model_types: ClassVar[tuple[str, ...]] = ()
    """The `model_type` of the pretrained models that it runs on."""
    bases: ClassVar[tuple[str, ...]] = ()
    """The `model_type` of the pretrained models that it can be trained from."""
    taxonomy: ClassVar[Taxonomy | None] = None
    """Its row in the paper's first table, if it reads and writes with an encoder-decoder."""
    style: ClassVar[Style] = "extract"
    """Whether it copies sentences or writes them."""
    default_model: ClassVar[str] = ""
    default_length: ClassVar[str] = "200w"
    spreads: ClassVar[bool] = True
    """Whether the selection is spread over the segments, so that no part is much longer than the others."""
    encodes: ClassVar[bool] = True
    """Whether it needs the encoder's vectors of sentences, even without a query."""
    languages: ClassVar[frozenset[str] | None] = None
    """The languages that its writer was trained on, as ISO 639 codes; none if that is not known."""
    needs_reference: ClassVar[bool] = False
    """Whether it looks at the reference summary, as an upper bound does."""

    def __init__(self, model: str | None = None, *, analyst: Analyst | None = None) -> None:
        from awesum.analysis.analysis import Analyst

        self.model = model or self.default_model
        """The weights: a name that awesum knows, a folder, or a name on the hub."""
        self.analyst = analyst or Analyst()

    @cached_property
    def verifier(self) -> Verifier:
        """Judges what was written; another can be set.

        The shipped one needs the weights of the embedded encoder, which need not be there if another one is given: then
        the exact checks decide alone, and the summary records it.
        """
        from awesum.verify.verifier import Verifier

        return Verifier.load() if self.analyst.has_shipped_encoder else Verifier()

    def verifier_name(self) -> str:
        """Changes whenever the verdicts would, without loading a model."""
        from awesum.files import sha256
        from awesum.verify.verifier import SHIPPED

        if "verifier" in vars(self):
            return self.verifier.name
        return f"verifier {sha256(SHIPPED)[:16]}" if self.analyst.has_shipped_encoder else EXACT

    @classmethod
    def check_base(cls, name: str, model_type: str) -> None:
        """Refuse a pretrained model of another family, and say which systems take it."""
        if model_type not in cls.bases:
            raise AwesumError(
                f"{name} is a {model_type!r} model, and {cls.name} takes {' or '.join(cls.bases)}: "
                f"{_takers(model_type) or 'no system takes it'}; or give another --base"
            )

    @classmethod
    def trains(cls) -> bool:
        """Whether it learns."""
        return cls.settings_class is not None

    def prepare(self) -> None:  # noqa: B027
        """Load what reading needs."""

    def load(self) -> None:  # noqa: B027
        """Load what writing needs."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the summary of the same document with the same settings might: a hash of the weights."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | PlainTokenizer:
        """What measures sentences and segments, without the model that writes."""
        raise NotImplementedError

    @property
    def limits(self) -> Limits:
        """The limits of a segment."""
        raise NotImplementedError

    def analyse(
        self, document: Document, settings: Settings, progress: Progress = no_progress, reference: str | None = None
    ) -> Analysis:
        """Everything that is known about a document before anything is written."""
        return self.analyst.analyse(
            document,
            tokenizer=self.tokenizer,
            limits=self.limits,
            length=self.length(settings),
            spread=self.spreads,
            query=settings.query,
            encode=self.encodes,
            progress=progress,
        )

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """How a document is written; verbatim, unless the system says otherwise. `notes` are the user's to read."""
        from awesum.compose.plan import Verbatim

        return Verbatim(analysis)

    def session(
        self,
        analysis: Analysis,
        settings: Settings,
        *,
        done: Sequence[Part] = (),
        progress: Progress = no_progress,
        started: float | None = None,
    ) -> Session:
        """One document on its way; `done` are the parts of an interrupted run."""
        from awesum.compose.plan import Verbatim
        from awesum.compose.session import Session

        notes: list[str] = []
        is_written = not analysis.selection.is_whole and self._may_write(analysis, settings, notes)
        plan = self.plan(analysis, settings, notes) if is_written else Verbatim(analysis)
        recorded = self.recorded(settings)
        if isinstance(plan, Verbatim):
            recorded["style"] = "extract"
        return Session(plan, recorded, done=done, notes=notes, progress=progress, started=started)

    def _may_write(self, analysis: Analysis, settings: Settings, notes: list[str]) -> bool:
        """Whether the writer knows the language of a document, or has to write all the same; `notes` say so."""
        from awesum.analysis.language import detect, name

        if self.style == "extract" and self.name != EXTRACT:
            return True
        language = detect(analysis.document.text)
        if language is None or language in (self.languages or {language}):
            return True
        if self.name == EXTRACT:
            notes.append(
                f"the document is in {name(language)}, which the model that selects sentences cannot read: they are "
                "selected by how much they have in common with the rest; compare the summary with the document"
                if analysis.ratings.coverage is None
                else f"the document is in {name(language)}, and the model that selects sentences was trained on "
                "English: compare the summary with the document"
            )
            return True
        if settings.style == "abstract":
            notes.append(
                f"the document is in {name(language)}, which the model was not trained on: what it writes will often "
                "be wrong; use --style extract"
            )
            return True
        notes.append(
            f"the document is in {name(language)}, which the model was not trained on: sentences are copied; "
            "--style abstract has it write all the same"
        )
        return False

    def engine(self, settings: Settings) -> Engine:
        """What writes, within the memory limit of the settings; nothing, unless the system says otherwise."""
        from awesum.engine.engine import NoEngine

        return NoEngine()

    def length(self, settings: Settings) -> Length:
        """The length that was asked for, or this system's own."""
        return Length.parse(str(settings.length or self.default_length))

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """The settings as a summary records them."""
        return asdict(settings) | {"model": self.model, "style": self.style}


def digest(*known: object) -> str:
    """A fingerprint of some values."""
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def open_session(
    system: System,
    document: Document,
    settings: Settings,
    *,
    done: Sequence[Part] = (),
    progress: Progress = no_progress,
    reference: str | None = None,
) -> Session:
    """Read a document, loading the model that will write meanwhile: that is a second less to wait for."""
    from concurrent.futures import ThreadPoolExecutor

    if settings.max_memory:
        system.engine(settings)  # a limit that is too low is reported before minutes of work, not after
    with ThreadPoolExecutor(1) as aside:
        # What reading needs is loaded first: models are loaded one at a time, and while one is, torch's default number
        # format may be that one's.
        system.prepare()
        started = time.perf_counter()  # the time of a summary does not include loading the models it needs first
        loading = aside.submit(system.load)
        analysis = system.analyse(document, settings, progress, reference=reference)
        loading.result()
    return system.session(analysis, settings, done=done, progress=progress, started=started)


def write_documents(
    system: System, settings: Settings, sessions: Iterable[Session]
) -> Iterator[tuple[Session, Sequence[Part]]]:
    """Write many sessions side by side: each that moved on, with its new parts; look at its `complete` and `error`.

    The first session is opened before there is an engine, because opening it loads the models meanwhile.
    """
    from awesum.engine.engine import write_all

    coming = iter(sessions)
    for first in coming:
        yield from write_all(system.engine(settings), chain([first], coming))


def _takers(model_type: str) -> str:
    """Which systems can be trained from a type of model, for an error message."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    from awesum.systems import registry

    known = [name for name in registry.names() if model_type in registry.find(name).bases]
    if not known and model_type in CAUSAL:
        known = ["adapter"]
    return f"it is for --system {' or '.join(known)}" if known else ""
