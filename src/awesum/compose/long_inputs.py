"""How a model that reads a document as one long input takes it, and the plan that has it answer in one go.

The same layout serves training and writing. What does not fit is cut at the end, and always reported: tokens read of
tokens total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from awesum.analysis.segmentation import measure
from awesum.analysis.selection import salient
from awesum.analysis.sentences import sentence_spans
from awesum.compose.layouts import after_query
from awesum.compose.plan import ELSEWHERE, WholeDocument
from awesum.compose.prompts import DocumentPrompt
from awesum.errors import AwesumError
from awesum.models.long_input import decoder_window, encoder_window
from awesum.recurrence import DocumentInputs
from awesum.scoring import oracle
from awesum.summary import count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analysis
    from awesum.analysis.embedding import SentenceEncoder
    from awesum.document import Segment
    from awesum.verify.verifier import Verifier

Report = Callable[[str], object]
EMPTY_PAGE = "."
"""What a page without sentences reads, as in the original."""


class LongLayout:
    """The document from its beginning: the query if there is one, then the text, up to `max_tokens` tokens."""

    is_paged = False

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        config: Any,
        max_tokens: int | None,
        report: Report = lambda note: None,
        *,
        may_cut: bool = True,
    ) -> None:
        self.tokenizer, self.config, self.max_tokens, self.report = tokenizer, config, max_tokens, report
        self.may_cut = may_cut
        """Whether a document may be cut at the model's positions, besides at `max_tokens`."""
        self.window = decoder_window(config) or 0
        """Tokens of a target at most; 0: no limit."""
        self.tokens_read = self.tokens_total = 0
        """Of the last document."""

    @property
    def key(self) -> list[Any]:
        """Changes whenever the inputs of a document would."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return [
            type(self).__name__,
            backend.to_str() if backend is not None else repr(self.tokenizer),
            self.positions,
            self.window,
            self.max_tokens,
        ]

    @property
    def positions(self) -> int | None:
        """The tokens that the model has positions for; None if any number."""
        return encoder_window(self.config)

    @property
    def limit(self) -> int | None:
        """The tokens that are read of a document."""
        return min((each for each in (self.max_tokens, self.positions) if each is not None), default=None)

    def example(self, name: str, text: str, query: str | None, summary: str) -> DocumentInputs:
        """A document with its reference summary, for training."""
        return self._inputs(name, self._pages(name, text, query), self._target(name, summary))

    def analysed(self, analysis: Analysis) -> DocumentInputs:
        """A document to be summarized."""
        name, text = analysis.document.path, analysis.segment_text(0)
        return self._inputs(name, self._pages(name, text, analysis.query))

    def _inputs(self, name: str, pages: Sequence[Sequence[int]], target: Sequence[int] | None = None) -> DocumentInputs:
        marks = len(self._ids(""))
        targets = [] if target is None else [target]
        return DocumentInputs(name, pages, targets, special=marks, is_paged=self.is_paged)

    def _pages(self, name: str, text: str, query: str | None) -> list[list[int]]:
        """The tokens that are read; of a document that is not paged, one page."""
        ids = self._ids(after_query(text, query))
        kept = self._cut(name, after_query(text, query), ids)
        self._note(name, len(kept), len(ids))
        return [kept]

    def _cut(self, name: str, content: str, ids: list[int]) -> list[int]:
        if self.limit is None or len(ids) <= self.limit:
            return ids
        if self.limit != self.max_tokens and not self.may_cut:
            raise AwesumError(
                f"{name} has {len(ids):,} tokens, and the model has positions for {self.positions:,}: say "
                f"--max-tokens {self.positions} to train on the beginning of such documents"
            )
        return self._ids(content, self.limit)

    def _note(self, name: str, read: int, total: int, what: str = "the first ") -> None:
        self.tokens_read, self.tokens_total = read, total
        if read < total:
            self.report(f"{name}: {what}{read:,} of {total:,} tokens are read ({self._reason()})")

    def _reason(self) -> str:
        return (
            f"max_tokens={self.limit:,}" if self.limit == self.max_tokens else f"the model's {self.limit:,} positions"
        )

    def _target(self, name: str, summary: str) -> list[int]:
        ids = self._ids(summary)
        if self.window and len(ids) > self.window:
            self.report(f"{name}: the first {self.window:,} of {len(ids):,} tokens of its summary are the target")
            return self._ids(summary, self.window)
        return ids

    def _ids(self, text: str, longest: int | None = None) -> list[int]:
        options = {} if longest is None else {"truncation": True, "max_length": longest}
        return self.tokenizer(text, split_special_tokens=True, verbose=False, **options)["input_ids"]


class FirstWindow(LongLayout):
    """As many tokens as BART has positions."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.may_cut = True  # this is what it is for

    @property
    def positions(self) -> int | None:
        """BART's."""
        return int(self.config.max_position_embeddings)


class Extracted(FirstWindow):
    """Selected sentences in their order: in training the oracle's, later the extractor's most salient ones. A document
    that there is room for is read whole, in training too: else the model would never see one."""

    @property
    def key(self) -> list[Any]:
        """With its version: before, training read the oracle's sentences of short documents as well."""
        return [*super().key, 2]

    def example(self, name: str, text: str, query: str | None, summary: str) -> DocumentInputs:
        """The oracle's sentences; a document without any has only its beginning."""
        assert self.limit is not None
        if len(self._ids(after_query(text, query))) <= self.limit:
            return super().example(name, text, query, summary)
        texts = [text[start:end] for start, end in sentence_spans(text)]
        chosen = sorted(oracle.greedy(texts, summary)) or range(len(texts))
        shown = "".join(texts[index] for index in chosen).strip()
        return self._inputs(name, self._pages(name, shown, query), self._target(name, summary))

    def analysed(self, analysis: Analysis) -> DocumentInputs:
        """The most salient sentences that there is room for."""
        name, query = analysis.document.path, analysis.query
        assert self.limit is not None
        room = self.limit - len(self._ids(after_query("", query)))
        chosen: Sequence[int] = range(len(analysis.sentences))
        if analysis.tokens > room:
            share = max(room, 1) / analysis.tokens
            chosen = salient(analysis.selectable, analysis.sentences, analysis.vectors, analysis.ratings, share)
        shown = "".join(analysis.texts[index] for index in chosen).strip()
        pages = self._pages(name, shown or analysis.segment_text(0), query)
        if len(chosen) < len(analysis.sentences):
            read = len(pages[0])
            self._note(name, read, max(analysis.tokens, read), f"{count(len(chosen), 'selected sentence')}, ")
        return self._inputs(name, pages)

    def _reason(self) -> str:
        return f"the abstractor's {self.limit:,}"


class Pages(LongLayout):
    """The sentences, split evenly over the pages by their number. What is too long for its page is cut."""

    is_paged = True

    @property
    def key(self) -> list[Any]:
        """With the pages."""
        return [*super().key, self.config.pages, self.page_size]

    @property
    def page_size(self) -> int:
        """Tokens of a page at most."""
        return int(min(self.config.page_size, self.config.max_position_embeddings))

    @property
    def positions(self) -> int | None:
        """Those of a page are the page's."""
        return None

    def _pages(self, name: str, text: str, query: str | None) -> list[list[int]]:
        spans = list(sentence_spans(text))
        total = len(self._ids(after_query(text, query)))
        if self.max_tokens is not None:
            sentences = measure(text, spans, self.tokenizer, self.max_tokens)
            spans = [(each.start, each.end) for each in sentences]
            used = 0
            for number, sentence in enumerate(sentences):
                used += sentence.tokens
                if used > self.max_tokens and number:
                    spans = spans[:number]
                    break
        count, pages = self.config.pages, []
        for page in range(count):
            first, last = (len(spans) * end // count for end in (page, page + 1))
            shown = text[spans[first][0] : spans[last - 1][1]].strip() if first < last else ""
            pages.append(self._ids(after_query(shown or EMPTY_PAGE, query), self.page_size))
        marks = len(self._ids(after_query("", query)))
        read = sum(len(page) - marks for page in pages) + marks
        self._note(name, min(read, total), total, "")
        return pages

    def _reason(self) -> str:
        limit = "" if self.max_tokens is None else f"max_tokens={self.max_tokens:,}, "
        return f"{limit}{self.config.pages} pages of at most {self.page_size:,}"


class OneAnswer(WholeDocument):
    """`WholeDocument` with a model that reads the document as one input and writes the summary in one go."""

    layout: LongLayout  # type: ignore[assignment]

    def __init__(
        self,
        analysis: Analysis,
        encoder: SentenceEncoder,
        layout: LongLayout,
        *,
        verifier: Verifier,
        has_length: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(
            analysis,
            encoder,
            layout,  # type: ignore[arg-type]
            (),
            verifier=verifier,
            has_length=has_length,
            strict=strict,
        )
        self._inputs = layout.analysed(analysis)
        self._share = min(1.0, layout.tokens_read / max(layout.tokens_total, 1))

    @property
    def tokens_read(self) -> int:
        """The tokens that the model read."""
        return round(self._share * self.analysis.tokens)

    def document_prompt(self, known: Sequence[str]) -> DocumentPrompt:
        """The document; there is never a part before the only one."""
        return DocumentPrompt(self._inputs)

    def _possible_sources(self, segment: Segment, cosines: NDArray[np.float32]) -> list[int]:
        """Those most like it: the segment is the document, too long to be judged whole."""
        return sorted(int(index) for index in cosines.argsort()[-ELSEWHERE:])
