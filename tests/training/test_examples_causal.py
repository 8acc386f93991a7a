"""A document as a causal model takes it: the segment, the request after it, and the answer."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.text import NEXT, PREVIOUS
from awesum.compose.requests import paraphrase_request
from awesum.datasets import Example
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.scoring.targets import assign
from tests.conftest import topical_text
from tests.training.preparing import END, InputsInSteps, Make, causal_inputs, squeezed


@pytest.fixture
def make(tiny_tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Make:
    return causal_inputs(tiny_tokenizer, tiny_encoder)


def text_of(prepare: InputsInSteps, tokens: Any) -> str:
    return prepare.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


def test_segments_are_the_text_after_one_frame(make: Make) -> None:
    prepare = make()
    text = topical_text(70)
    inputs = prepare.lay_out(prepare.steps(text))
    frame = inputs.segments[0][: inputs.frame]
    assert len(inputs.segments) > 3
    assert all(tokens[: inputs.frame] == frame == prepare.layout.chat.before for tokens in inputs.segments)
    joined = "".join(text_of(prepare, tokens[inputs.frame :]) for tokens in inputs.segments)
    assert squeezed(joined) == squeezed(text)
    assert inputs.targets == ()


def test_query_stands_after_every_segment_and_changes_none(make: Make) -> None:
    prepare = make()
    plain, asked = (prepare.lay_out(prepare.steps(topical_text(40), query)) for query in (None, "What of the rocket?"))
    assert asked.segments == plain.segments
    assert all("What of the rocket?" in text_of(prepare, tokens) for tokens in asked.requests)
    assert not any("rocket" in text_of(prepare, tokens) for tokens in plain.requests)


def test_targets_end_and_are_the_summary(make: Make) -> None:
    prepare = make()
    example = Example("a", topical_text(70), " ".join(topical_text(4).split()))
    inputs = prepare(example)
    assert all(target[-1] == END and END not in target[:-1] for target in inputs.targets)
    analysed = prepare.steps(example.document)
    expected = assign(example.summary, example.document, analysed.segments)
    assert [text_of(prepare, target[:-1]) for target in inputs.targets] == expected
    assert inputs.special == 1


def test_salient_text_is_of_other_segments_and_within_its_size(make: Make) -> None:
    bare, shown = make(window=1280), make(window=1280, salient="text", salient_size=30)
    text = topical_text(160)
    inputs = shown.lay_out(shown.steps(text))
    plain = bare.lay_out(bare.steps(text))
    assert inputs.segments == plain.segments
    assert any(len(tokens) > len(plain.requests[0]) for tokens in inputs.requests)
    for number, tokens in enumerate(inputs.requests):
        words = text_of(shown, tokens)
        segment = text_of(shown, inputs.segments[number][inputs.frame :])
        for heading in (PREVIOUS, NEXT):
            if heading in words:
                sentence = words.split(heading)[1].split("\n\n")[0].strip()
                assert squeezed(sentence) not in squeezed(segment)
        assert len(tokens) <= len(plain.requests[number]) + 30 + 24


def test_segment_is_asked_to_paraphrase_its_own_selected_sentences(make: Make) -> None:
    prepare = make(salient="rewrite")
    text = topical_text(120)
    analysed = prepare.steps(text, summary="word " * 60)
    assert analysed.selected
    chosen = [" ".join(analysed.sentence(index).split()) for index in analysed.selected]
    assert 40 <= sum(map(count_words, chosen)) <= 80
    inputs = prepare.lay_out(analysed)
    assert inputs.segments == make().lay_out(analysed).segments
    asked = 0
    for segment, request in zip(analysed.segments, inputs.requests, strict=True):
        own = [
            sentence
            for sentence, index in zip(chosen, analysed.selected, strict=True)
            if segment.first <= index < segment.last
        ]
        words = text_of(prepare, request)
        assert (
            squeezed(paraphrase_request(None, own)) in squeezed(words) if own else "Summarize the text above." in words
        )
        asked += len(own)
    assert asked == len(chosen)


def test_longer_summary_selects_more_sentences(make: Make) -> None:
    prepare = make(salient="rewrite")
    counts = [len(prepare.steps(topical_text(120), summary="word " * words).selected) for words in (20, 80, 200)]
    assert counts == sorted(set(counts))
    assert len(prepare.steps(topical_text(120), summary="").selected) > 1  # the usual length


def test_segment_without_selected_sentences_has_no_target(make: Make) -> None:
    prepare = make(salient="rewrite")
    text = topical_text(120)
    whole = prepare.steps(text)
    summary = " ".join(whole.sentence(segment.last - 1) for segment in whole.segments)
    example = Example("a", text, summary)
    inputs = prepare(example)
    analysed = prepare.steps(example.document, summary=summary)
    targets = assign(example.summary, example.document, analysed.segments)
    silent = 0
    for segment, target, learned in zip(analysed.segments, targets, inputs.targets, strict=True):
        is_asked = any(segment.first <= index < segment.last for index in analysed.selected)
        assert text_of(prepare, learned[:-1]) == (target if is_asked else "")
        silent += bool(target) and not is_asked
    assert any(len(target) > 1 for target in inputs.targets)
    assert silent, "the case is not there"


def test_target_too_long_is_split_and_reported(make: Make) -> None:
    notes: list[str] = []
    prepare = make(window=400, report=notes.append)
    summary = " ".join(topical_text(14).split())
    inputs = prepare(Example("report 7", topical_text(20), summary))
    assert all(len(target) <= prepare.layout.longest_target for target in inputs.targets)
    assert notes
    assert all("report 7: a target of" in note for note in notes)
    joined = "".join(text_of(prepare, target[:-1]) for target in inputs.targets)
    assert sorted(squeezed(joined)) == sorted(squeezed(summary))


def test_query_that_leaves_no_room_is_refused_in_one_line(make: Make) -> None:
    prepare = make()
    with pytest.raises(AwesumError, match="shorten the query") as raised:
        prepare.lay_out(prepare.steps(topical_text(40), "rocket " * 400))
    assert "\n" not in str(raised.value)


def test_key_says_all_that_inputs_depend_on(make: Make) -> None:
    keys = [
        str(make(**options).key)
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
