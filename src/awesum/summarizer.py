"""From Python: documents in, summaries out, with the models loaded once.

`Summarizer` ties a system to the documents that it is given; what a system does is `systems`' to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.footprint import peak_memory
from awesum.settings import AWESUM, EXTRACT, SMOLLM2, Settings, Style
from awesum.summary import Figures, Part, Summary
from awesum.systems import registry
from awesum.systems.system import System, no_progress, open_session, write_documents

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analyst, Progress
    from awesum.analysis.embedding import SentenceEncoder
    from awesum.analysis.salience import Salience
    from awesum.compose.session import Session
    from awesum.reading.limits import ReadLimits
    from awesum.verify import Verifier

Source = str | Path | Document | IO[bytes]
"""A path, an http(s) address, `-` for standard input, a `Document`, or a binary file that is open for reading."""


class Summarizer:
    """A system with its models, loaded once, each when it is first needed, and used for many documents.

    `model` names weights: `awesum`, `smollm2`, a folder, or a name on the hub. `system` names a system instead (`lead`,
    `extract`, ...), or is one; without either it is `extract`. `encoder` and `extractor` take the place of the shipped
    ones. `verifier` judges what a model writes: see `awesum.verify.Verifier.load` for the names that it may have.
    `read_limits` are the memory and the time that reading one document may take.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        system: str | System | None = None,
        encoder: SentenceEncoder | None = None,
        extractor: Salience | None = None,
        verifier: str | Verifier | None = None,
        read_limits: ReadLimits | None = None,
    ) -> None:
        self.read_limits = read_limits
        if isinstance(system, System):
            if model or encoder or extractor or verifier:
                raise AwesumError("give a System alone, or the name of one with model, encoder, extractor and verifier")
            self.system = system
            return
        from awesum.analysis.analysis import Analyst

        # Without either, a trained model has those that it was trained with.
        analyst = None if encoder is None and extractor is None else Analyst(encoder, extractor)
        self.system = load_system(system, model, analyst)
        if verifier is not None:
            from awesum.verify import Verifier

            self.system.verifier = verifier if isinstance(verifier, Verifier) else Verifier.load(verifier)

    @classmethod
    def load(cls, model: str | None = None, *, system: str | None = None) -> Summarizer:
        """Load everything now: see `Summarizer` for what `model` and `system` may be."""
        summarizer = cls(model, system=system)
        summarizer.system.prepare()
        summarizer.system.load()
        return summarizer

    @property
    def model(self) -> str:
        """The name of the weights."""
        return self.system.model

    def system_for(self, settings: Settings) -> System:
        """The system that summarizes with these settings: `style="extract"` is short for the system `extract`, and
        `style="abstract"` for the default writer where no other model was named."""
        if settings.style is None or settings.style == self.system.style:
            return self.system
        if settings.style == "extract":
            return self._extract
        if self.system.name != EXTRACT:
            raise AwesumError(f"the system {self.system.name} writes nothing: leave out the style, or the system")
        return self._writer

    @cached_property
    def _extract(self) -> System:
        from awesum.systems.extract import Extract

        measured = type(self.system).tokenizer is not System.tokenizer
        model = self.system.model if measured else None
        return Extract(model, analyst=self.system.analyst, like=self.system if measured else None)

    @cached_property
    def _writer(self) -> System:
        writer = load_system(None, self.system.model, self.system.analyst)
        if "verifier" in vars(self.system):
            writer.verifier = self.system.verifier
        return writer

    def start(
        self,
        document: Document,
        settings: Settings | None = None,
        progress: Progress = no_progress,
        done: Sequence[Part] = (),
    ) -> Run:
        """A run over one document: iterate over it for the parts, ask it for the summary.

        `done` are the parts of an interrupted run over the same document with the same settings: they come first and
        are not written again.
        """
        settings = settings or Settings()
        return Run(self.system_for(settings), document, settings, progress, done)

    def stream(
        self,
        source: Source | None = None,
        *,
        text: str | None = None,
        length: str | int | None = None,
        query: str | None = None,
        style: Style | None = None,
        strict: bool = False,
        max_memory: str | None = None,
    ) -> Iterator[Part]:
        """The parts of the summary, each as soon as it is written."""
        settings = Settings(length=length, query=query, style=style, strict=strict, max_memory=max_memory)
        return iter(self.start(as_document(source, text, self.read_limits), settings))

    def summarize(
        self,
        source: Source | None = None,
        *,
        text: str | None = None,
        length: str | int | None = None,
        query: str | None = None,
        style: Style | None = None,
        strict: bool = False,
        max_memory: str | None = None,
    ) -> Summary:
        """The summary of a source, or of a `text`; see `Settings` for the rest."""
        settings = Settings(length=length, query=query, style=style, strict=strict, max_memory=max_memory)
        return self.start(as_document(source, text, self.read_limits), settings).finish()

    def summarize_all(
        self,
        sources: Iterable[Source],
        *,
        length: str | int | None = None,
        query: str | None = None,
        style: Style | None = None,
        strict: bool = False,
        max_memory: str | None = None,
    ) -> Iterator[Summary | AwesumError]:
        """The summaries of many documents, in their order, written side by side where that is faster.

        A document that cannot be summarized has its error in the place of a summary; the others go on. Each document is
        read when there is room for it.
        """
        settings = Settings(length=length, query=query, style=style, strict=strict, max_memory=max_memory)
        system = self.system_for(settings)
        outcomes: deque[Session | AwesumError] = deque()

        def opening() -> Iterator[Session]:
            for source in sources:
                try:
                    session = open_session(system, as_document(source, limits=self.read_limits), settings)
                except Exception as error:
                    outcomes.append(as_error(error, source))
                    continue
                outcomes.append(session)
                yield session

        for _ in write_documents(system, settings, opening()):
            yield from _ended(outcomes)
        yield from _ended(outcomes)


def _ended(outcomes: deque[Session | AwesumError]) -> Iterator[Summary | AwesumError]:
    """The outcomes of the first documents, as far as they have one."""
    while outcomes:
        first = outcomes[0]
        if isinstance(first, AwesumError):
            yield first
        elif first.error is not None:
            yield as_error(first.error, first.analysis.document.path)
        elif first.complete:
            yield first.summary()
        else:
            return
        outcomes.popleft()


def load_system(system: str | None = None, model: str | None = None, analyst: Analyst | None = None) -> System:
    """A system by its name, or the one that a model belongs to; the default if neither is named."""
    if system is not None or model is None:
        return registry.load(system or EXTRACT, model, analyst=analyst)
    if model in (AWESUM, SMOLLM2):
        return registry.load(model, analyst=analyst)
    return registry.of_model(model, analyst)


def as_error(error: Exception, source: object) -> AwesumError:
    """What went wrong with one document, as one line; what is not the user's to mend is named by its type."""
    if isinstance(error, AwesumError):
        return error
    reason = " ".join(str(error).split())[:200]
    return AwesumError(
        f"{source} cannot be summarized ({type(error).__name__}{': ' if reason else ''}{reason}): please report this"
    )


def as_document(source: Source | None, text: str | None = None, limits: ReadLimits | None = None) -> Document:
    """The document that was meant."""
    if (source is None) == (text is None):
        raise AwesumError("give one thing to summarize: a source (path, address, Document or file), or text=...")
    if text is not None:
        if not isinstance(text, str):
            raise AwesumError(f"text={type(text).__name__} is not a text: give a str")
        if text.strip():
            from awesum.reading.structure import recognize_blocks

            return recognize_blocks(Document(text))
        source = Document(text)
    if isinstance(source, Document):
        if not source.text.strip():
            raise AwesumError(f"{source.path} contains no text: there is nothing to summarize")
        return source
    if isinstance(source, str) and "\n" in source:
        raise AwesumError("the source is a text, not a path: give it as text=...")
    if source is None or not (isinstance(source, str | Path) or hasattr(source, "read")):
        raise AwesumError(
            f"cannot summarize a {type(source).__name__}: "
            "give a path, an address, a Document, a binary file, or text=..."
        )
    from awesum.reading import read

    return read(source, limits)


class Run(Iterator[Part]):
    """One document on its way to a summary. It is read when the first part is asked for.

    Iterating again goes on where the last iteration stopped; whatever is there can be had at any time.
    """

    def __init__(
        self, system: System, document: Document, settings: Settings, progress: Progress, done: Sequence[Part]
    ) -> None:
        self.system, self.document, self.settings = system, document, settings
        self._progress, self._done = progress, done
        self._parts: Iterator[Part] | None = None
        self.session: Session | None = None
        """None until the document is read."""

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        if self._parts is None:
            self.session = open_session(
                self.system, self.document, self.settings, done=self._done, progress=self._progress
            )
            self._parts = self.system.engine(self.settings).run(self.session)
        return next(self._parts)

    def finish(self) -> Summary:
        """Write what is left to write, and return the summary."""
        for _ in self:
            pass
        return self.summary()

    def summary(self) -> Summary:
        """The summary as far as it has come."""
        if self.session is None:
            settings = asdict(self.settings) | {"model": self.system.model}
            notes = list(self.document.notes)
            return Summary([], self.document, 0, [], Figures(0, 0.0, peak_memory()), settings, notes, complete=False)
        return self.session.summary()
