"""What the tests of training's inputs have in common: inputs for tiny models, and a document step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.compose.layouts import BartLayout, CausalLayout
from awesum.datasets import Example
from awesum.models.adapter_config import AdapterConfig
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs
from awesum.training.examples import SegmentInputs
from tests.conftest import topical_text

END = 1
"""The token that ends an answer."""


class Counting(SentenceEncoder):
    """A sentence encoder that counts how often it is asked."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__(encoder.model, encoder.tokenizer)
        self.calls = 0

    def encode(self, texts: Sequence[str], progress: Callable[[int], object] = lambda done: None) -> np.ndarray:
        self.calls += 1
        return super().encode(texts, progress)


class Analysed:
    """A document with the sentences that a model is shown of it."""

    def __init__(self, analysis: Analysis, selected: Sequence[int]) -> None:
        self.analysis, self.selected = analysis, list(selected)
        self.text, self.sentences, self.segments = analysis.document.text, analysis.sentences, analysis.segments

    def sentence(self, index: int) -> str:
        return self.analysis.quote(index).text


class InputsInSteps(SegmentInputs):
    """The inputs of a model, one step at a time."""

    @property
    def tokenizer(self) -> Any:
        return self.layout.tokenizer

    def steps(self, text: str, query: str | None = None, summary: str = "The rocket report.") -> Analysed:
        """Sentences, segments and selected sentences."""
        analysis = self.analyse(Example("a", text, summary, query))
        return Analysed(analysis, self.selected(analysis))

    def lay_out(self, analysed: Analysed, targets: Sequence[str] | None = None) -> DocumentInputs:
        """The tokens."""
        return self.layout.inputs(analysed.analysis, analysed.selected, targets)


Make = Callable[..., InputsInSteps]


def bart_inputs(tokenizer: PreTrainedTokenizerFast, encoder: SentenceEncoder) -> Make:
    """Makes the inputs of a BART; 256 positions make segments of 128 to 192 tokens."""

    def make(
        window: int = 256,
        tokenizer: Any = tokenizer,
        encoder: SentenceEncoder = encoder,
        extractor: Any = None,
        max_tokens: int | None = None,
        report: Callable[[str], object] = lambda note: None,
        **options: Any,
    ) -> InputsInSteps:
        config = AwesomeConfig(
            vocab_size=500, d_model=8, encoder_attention_heads=2, decoder_attention_heads=2,
            max_position_embeddings=window, memory="none", **options,
        )  # fmt: skip
        layout = BartLayout(tokenizer, config, report)
        analyst = Analyst(encoder, extractor or Centrality())
        return InputsInSteps(layout, analyst, max_tokens=max_tokens, report=report)

    return make


def causal_inputs(tokenizer: PreTrainedTokenizerFast, encoder: SentenceEncoder) -> Make:
    """Makes the inputs of a causal model; a window of 480 makes segments of 192 to 288 tokens, and targets of at most
    96."""

    def make(
        window: int = 480,
        max_tokens: int | None = None,
        report: Callable[[str], object] = lambda note: None,
        **options: Any,
    ) -> InputsInSteps:
        layout = CausalLayout(tokenizer, AdapterConfig(base="tiny", **options), window, report, end=END)
        return InputsInSteps(layout, Analyst(encoder, Centrality()), max_tokens=max_tokens, report=report)

    return make


def squeezed(text: str) -> str:
    return "".join(text.split())


def decoded(inputs: SegmentInputs, tokens: Any) -> str:
    return inputs.layout.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def example(text: str | None = None, summary: str = "The rocket report. The harbour.", **changes: Any) -> Example:
    return Example("report 7", text if text is not None else topical_text(70), summary, **changes)
