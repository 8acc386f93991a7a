"""A document as a causal model takes it: the segment, what stands behind it, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.text import NEXT, PREVIOUS
from awesum.datasets import Example
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.models.adapter import AdapterConfig
from awesum.preparation import CausalPreparation, Divided
from awesum.prompting import ask
from awesum.scoring.targets import assign
from tests.conftest import topical_text

Prepare = Callable[..., CausalPreparation]
END = 1


@pytest.fixture
def prepare(tiny_tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Prepare:
    """A window of 480 makes segments of 192 to 288 tokens, and targets of at most 96."""

    def make(window: int = 480, **options: Any) -> CausalPreparation:
        own = {name: options.pop(name) for name in ("max_tokens", "say") if name in options}
        config = AdapterConfig(base="tiny", **options)
        return CausalPreparation(tiny_tokenizer, config, tiny_encoder, Centrality(), window=window, end=END, **own)

    return make


def text_of(preparation: CausalPreparation, tokens: Any) -> str:
    return preparation.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_segments_are_the_text_behind_one_frame(prepare: Prepare) -> None:
    preparation = prepare()
    text = topical_text(70)
    inputs = preparation.inputs("a", preparation.divide(text))
    frame = inputs.segments[0][: inputs.frame]
    assert len(inputs.segments) > 3
    assert all(tokens[: inputs.frame] == frame == preparation.chat.before for tokens in inputs.segments)
    joined = "".join(text_of(preparation, tokens[inputs.frame :]) for tokens in inputs.segments)
    assert squeezed(joined) == squeezed(text)
    assert inputs.targets == ()


def test_query_stands_behind_every_segment_and_changes_none(prepare: Prepare) -> None:
    preparation = prepare()
    divided = preparation.divide(topical_text(40))
    plain, asked = preparation.inputs("a", divided), preparation.inputs("a", divided, "What of the rocket?")
    assert asked.segments == plain.segments
    assert all("What of the rocket?" in text_of(preparation, tokens) for tokens in asked.requests)
    assert not any("rocket" in text_of(preparation, tokens) for tokens in plain.requests)


def test_targets_end_and_are_the_summary(prepare: Prepare) -> None:
    preparation = prepare()
    example = Example("a", topical_text(70), " ".join(topical_text(4).split()))
    inputs = preparation(example)
    assert all(target[-1] == END and END not in target[:-1] for target in inputs.targets)
    divided = preparation.divide(example.document)
    expected = assign(example.summary, example.document, divided.segments)
    assert [text_of(preparation, target[:-1]) for target in inputs.targets] == expected
    assert inputs.special == 1


def test_salient_text_is_of_other_segments_and_within_its_size(prepare: Prepare) -> None:
    bare, told = prepare(window=1280), prepare(window=1280, salient="text", salient_size=30)
    text = topical_text(160)
    inputs = told.inputs("a", told.divide(text))
    plain = bare.inputs("a", bare.divide(text))
    assert inputs.segments == plain.segments
    assert any(len(tokens) > len(plain.requests[0]) for tokens in inputs.requests)
    for number, tokens in enumerate(inputs.requests):
        words = text_of(told, tokens)
        segment = text_of(told, inputs.segments[number][inputs.frame :])
        for heading in (PREVIOUS, NEXT):
            if heading in words:
                sentence = words.split(heading)[1].split("\n\n")[0].strip()
                assert squeezed(sentence) not in squeezed(segment)
        assert len(tokens) <= len(plain.requests[number]) + 30 + 24


def test_points_are_a_segment_s_own_salient_sentences(prepare: Prepare) -> None:
    preparation = prepare(salient="rewrite")
    text = topical_text(120)
    divided = preparation.divide(text, words=60)
    assert divided.chosen
    chosen = [" ".join(sentence_of(divided, index).split()) for index in divided.chosen]
    assert 40 <= sum(map(count_words, chosen)) <= 80
    inputs = preparation.inputs("a", divided)
    assert inputs.segments == prepare().inputs("a", divided).segments
    asked = 0
    for segment, request in zip(divided.segments, inputs.requests, strict=True):
        own = [
            sentence
            for sentence, index in zip(chosen, divided.chosen, strict=True)
            if segment.first <= index < segment.last
        ]
        words = text_of(preparation, request)
        assert squeezed(ask(None, own)) in squeezed(words) if own else "Summarize the text above." in words
        asked += len(own)
    assert asked == len(chosen)


def test_more_words_of_a_summary_are_more_points(prepare: Prepare) -> None:
    preparation = prepare(salient="rewrite")
    counts = [len(preparation.divide(topical_text(120), words=words).chosen) for words in (20, 80, 200)]
    assert counts == sorted(set(counts))
    assert len(preparation.divide(topical_text(120)).chosen) > 1  # without a length, what the calibration says


def test_segment_without_points_has_no_target(prepare: Prepare) -> None:
    preparation = prepare(salient="rewrite")
    text = topical_text(120)
    whole = preparation.divide(text)
    summary = " ".join(sentence_of(whole, segment.last - 1).strip() for segment in whole.segments)
    example = Example("a", text, summary)
    inputs = preparation(example)
    divided = preparation.divide(example.document, words=count_words(example.summary))
    targets = assign(example.summary, example.document, divided.segments)
    silent = 0
    for segment, target, learned in zip(divided.segments, targets, inputs.targets, strict=True):
        has_points = any(segment.first <= index < segment.last for index in divided.chosen)
        assert text_of(preparation, learned[:-1]) == (target if has_points else "")
        silent += bool(target) and not has_points
    assert any(len(target) > 1 for target in inputs.targets)
    assert silent, "the case is not there"


def sentence_of(divided: Divided, index: int) -> str:
    return divided.text[divided.sentences[index].start : divided.sentences[index].end]


def test_target_too_long_is_split_and_said(prepare: Prepare) -> None:
    said: list[str] = []
    preparation = prepare(window=400, say=said.append)
    summary = " ".join(topical_text(14).split())
    inputs = preparation(Example("report 7", topical_text(20), summary))
    assert all(len(target) <= preparation.longest_target for target in inputs.targets)
    assert said
    assert all("report 7: a target of" in note for note in said)
    joined = "".join(text_of(preparation, target[:-1]) for target in inputs.targets)
    assert sorted(squeezed(joined)) == sorted(squeezed(summary))


def test_query_that_leaves_no_room_is_told_in_one_line(prepare: Prepare) -> None:
    preparation = prepare()
    with pytest.raises(AwesumError, match="shorten the query") as raised:
        preparation.inputs("report 7", preparation.divide(topical_text(40)), "rocket " * 400)
    assert "\n" not in str(raised.value)


def test_key_says_all_that_inputs_depend_on(prepare: Prepare) -> None:
    keys = [
        str(prepare(**options).key)
        for options in (
            {},
            {"window": 640},
            {"salient": "text"},
            {"salient": "rewrite"},
            {"salient_size": 9},
            {"max_tokens": 100},
        )
    ]
    assert len(set(keys)) == len(keys)
