"""Prompts: they hold the segment and what stands around it, and fit into the model's window whatever the text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.text import CURRENT, NEXT, PREVIOUS
from awesum.analysis.segmentation import Limits
from awesum.compose.layouts import BartLayout, CausalLayout, causal_limits
from awesum.compose.prompts import INPUT, chat_prompt, fit
from awesum.compose.requests import paraphrase_request
from awesum.document import Document, Segment, Sentence
from awesum.errors import AwesumError
from awesum.length import Length
from awesum.models.adapter_config import AdapterConfig
from awesum.models.bart_config import AwesomeConfig
from awesum.models.causal import ChatModel
from tests.conftest import topical_text

QUERY = "Who broke the crane in the harbour?"


def analysis_of(
    encoder: SentenceEncoder,
    tokenizer: PreTrainedTokenizerFast,
    limits: Limits,
    *,
    query: str | None = None,
    text: str = topical_text(60, seed=3),
    length: str = "25%",
) -> Analysis:
    return Analyst(encoder, Centrality()).analyse(
        Document(text, path="text.txt"),
        tokenizer=tokenizer,
        limits=limits,
        length=Length.parse(length),
        query=query,
    )


# ----------------------------------------------------------------------------------------------------- window fitting


SENTENCES = [Sentence(at, at + 1, tokens) for at, tokens in enumerate([5, 8, 3, 9, 4, 7, 6, 2, 5, 8])]
MIDDLE = Segment(4, 6, 4, 6, 11)


@given(
    room=st.integers(-10, 80),
    own=st.sets(st.sampled_from([4, 5])).map(sorted),
    others=st.sets(st.integers(0, 9)).map(sorted),
    most=st.one_of(st.none(), st.integers(-10, 60)),
)
def test_what_fits_is_within_the_room_and_in_order(
    room: int, own: list[int], others: list[int], most: int | None
) -> None:
    found = fit(MIDDLE, SENTENCES, room, own=own, others=others, most_for_both=most)
    taken = [*found.previous, *found.own, *found.following]
    cost = sum(SENTENCES[index].tokens for index in taken)
    around = sum(SENTENCES[index].tokens for index in (*found.previous, *found.following))
    assert taken == sorted(set(taken))
    assert cost <= max(room, 0)
    if most is not None and around:
        assert cost <= most
    assert set(found.own) <= set(own)
    assert set(found.previous) <= {index for index in others if index < MIDDLE.first}
    assert set(found.following) <= {index for index in others if index >= MIDDLE.last}
    if room >= sum(sentence.tokens for sentence in SENTENCES) and most is None:
        assert found.own == own
        assert [*found.previous, *found.following] == [index for index in others if index not in (4, 5)]


def test_own_sentences_go_before_those_of_others() -> None:
    assert fit(MIDDLE, SENTENCES, 11, own=[4, 5], others=[0, 9]) == ([4, 5], [], [])
    assert fit(MIDDLE, SENTENCES, 16, own=[4, 5], others=[0, 9]) == ([4, 5], [0], [])
    assert fit(MIDDLE, SENTENCES, 5, own=[4, 5], others=[0, 9]) == ([4], [], [])


# --------------------------------------------------------------------------------------------------- a bare chat model


@pytest.mark.parametrize("query", [None, QUERY])
@pytest.mark.parametrize("window", [512, 1024, 8192])
def test_chat_prompt_holds_the_segment_and_its_selected_sentences(
    window: int, query: str | None, tiny_encoder: SentenceEncoder, tiny_chat: ChatModel
) -> None:
    limits = causal_limits(window)
    analysis = analysis_of(tiny_encoder, tiny_chat.tokenizer, limits, query=query)
    assert len(analysis.segments) > 1
    around = 0
    for number, share in enumerate(analysis.selection.shares):
        limit = window // 5
        tokens = chat_prompt(tiny_chat.chat, window, analysis, number, limit)
        assert len(tokens) + limit <= window
        text = tiny_chat.tokenizer.decode(tokens)
        assert f"{CURRENT} {analysis.segment_text(number)}" in text
        assert (query is not None) == (QUERY in text)
        own = [analysis.quote(index).text for index in share]
        if window == 8192:
            assert paraphrase_request(query, own) in text
        others = [index for index in analysis.selection.selected if index not in share]
        around += sum(analysis.quote(index).text in text for index in others)
        assert len(tokens) <= max(INPUT, analysis.segments[number].tokens + limit) + 40
    assert around > 0, "nothing of other segments was ever there"


# --------------------------------------------------------------------------------------------- a causal model's adapter


def causal(tokenizer: PreTrainedTokenizerFast, window: int, **options: Any) -> CausalLayout:
    return CausalLayout(tokenizer, AdapterConfig(base="tiny", **options), window, end=tokenizer.eos_token_id)


@pytest.mark.parametrize("salient", ["none", "text", "rewrite"])
@pytest.mark.parametrize("query", [None, QUERY])
@pytest.mark.parametrize("window", [512, 2048])
def test_causal_prompt_and_answer_fit_into_the_window(
    window: int, query: str | None, salient: str, tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    layout = causal(tiny_tokenizer, window, salient=salient, salient_size=90)
    analysis = analysis_of(tiny_encoder, tiny_tokenizer, layout.limits, query=query)
    selected = analysis.selection.selected
    inputs = layout.inputs(analysis, selected)
    assert len(inputs.segments) == len(inputs.requests) == len(analysis.segments) > 1
    shown = 0
    for number, (segment, request) in enumerate(zip(inputs.segments, inputs.requests, strict=True)):
        assert len(segment) + len(request) + layout.longest_target <= window
        assert tiny_tokenizer.decode(segment[layout.frame :]) == analysis.segment_text(number)
        text = tiny_tokenizer.decode(request)
        assert (query is not None) == (QUERY in text)
        share = analysis.selection.shares[number]
        for index in selected:
            if analysis.plain(index) in text:
                shown += 1
                assert (index in share) == (salient == "rewrite"), "its own where it paraphrases, others' where not"
        if salient != "text":
            assert PREVIOUS not in text
            assert NEXT not in text
    assert bool(shown) == (salient != "none")


def test_query_that_leaves_no_room_is_refused_in_one_line(
    tiny_encoder: SentenceEncoder,
    tiny_tokenizer: PreTrainedTokenizerFast,
    tiny_bart_tokenizer: PreTrainedTokenizerFast,
    tiny_chat: ChatModel,
) -> None:
    query = QUERY * 40
    layout = causal(tiny_tokenizer, 256)
    analysis = analysis_of(tiny_encoder, tiny_tokenizer, layout.limits, query=query)
    with pytest.raises(AwesumError, match="shorten the query") as error:
        layout.request(analysis, 0, [])
    assert "\n" not in str(error.value)
    assert "text.txt" in str(error.value)
    with pytest.raises(AwesumError, match="shorten the query") as error:
        chat_prompt(tiny_chat.chat, 256, analysis, 0, 50)
    assert "\n" not in str(error.value)
    bart = BartLayout(tiny_bart_tokenizer, AwesomeConfig(max_position_embeddings=128))
    analysis = analysis_of(tiny_encoder, tiny_bart_tokenizer, bart.limits, query=query)
    with pytest.raises(AwesumError, match="shorten the query") as error:
        bart.inputs(analysis, [])
    assert "\n" not in str(error.value)


# --------------------------------------------------------------------------------------------------- an encoder-decoder


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
@pytest.mark.parametrize("query", [None, "crane"])
def test_encoder_s_input_fits_into_its_window(
    query: str | None, salient: str, tiny_encoder: SentenceEncoder, tiny_bart_tokenizer: PreTrainedTokenizerFast
) -> None:
    config = AwesomeConfig(max_position_embeddings=256, salient=salient, salient_size=60)
    layout = BartLayout(tiny_bart_tokenizer, config)
    assert layout.limits == Limits(128, 192)
    analysis = analysis_of(tiny_encoder, tiny_bart_tokenizer, layout.limits, query=query)
    inputs = layout.inputs(analysis, analysis.salient)
    shown = 0
    for number, ids in enumerate(inputs.segments):
        assert len(ids) <= 256
        text = tiny_bart_tokenizer.decode(ids, skip_special_tokens=True)
        assert analysis.segment_text(number) in text
        assert text.startswith(query or "")
        inside = analysis.segments[number]
        others = [index for index in analysis.salient if not inside.first <= index < inside.last]
        shown += sum(analysis.plain(index) in text for index in others)
    assert bool(shown) == (salient == "text")
    spans = [tiny_bart_tokenizer.decode(inputs.segments[step][start:end]).strip() for step, start, end in inputs.spans]
    assert spans == ([analysis.quote(index).text for index in analysis.salient] if salient == "key-value" else [])


# ----------------------------------------------------------------------------------------- how salient each token is


def marked(tokens: list[int], salience: list[float], tokenizer: PreTrainedTokenizerFast) -> dict[float, str]:
    """The text of the tokens of each salience."""
    assert len(tokens) == len(salience)
    return {
        how: tokenizer.decode([token for token, its in zip(tokens, salience, strict=True) if its == how]).strip()
        for how in sorted(set(salience))
        if how > 0
    }


def expected_marks(analysis: Analysis, number: int) -> dict[float, str]:
    inside = analysis.segments[number]
    own = {how: index for index, how in analysis.remembered.items() if inside.first <= index < inside.last}
    return {how: analysis.quote(own[how]).text for how in sorted(own)}


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
@pytest.mark.parametrize("query", [None, "crane"])
def test_encoder_s_tokens_are_as_salient_as_their_sentences(
    query: str | None, salient: str, tiny_encoder: SentenceEncoder, tiny_bart_tokenizer: PreTrainedTokenizerFast
) -> None:
    """Also behind a query and between salient sentences of other segments, which are not the segment's own."""
    options: dict[str, Any] = {"max_position_embeddings": 256, "salient": salient, "salient_size": 60}
    layout = BartLayout(tiny_bart_tokenizer, AwesomeConfig(**options, memory="salient"))
    analysis = analysis_of(tiny_encoder, tiny_bart_tokenizer, layout.limits, query=query)
    inputs = layout.inputs(analysis, analysis.salient)
    for number, (tokens, salience) in enumerate(zip(inputs.segments, inputs.salience, strict=True)):
        assert marked(list(tokens), list(salience), tiny_bart_tokenizer) == expected_marks(analysis, number)
    share = sum(how > 0 for row in inputs.salience for how in row) / analysis.tokens
    assert 0.1 < share < 0.35
    plain = BartLayout(tiny_bart_tokenizer, AwesomeConfig(**options))
    assert plain.inputs(analysis, analysis.salient).salience == []
    assert plain.key != layout.key


def test_a_prompt_s_tokens_are_as_salient_as_their_sentences(
    tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    layout = causal(tiny_tokenizer, 512, memory="salient")
    analysis = analysis_of(tiny_encoder, tiny_tokenizer, layout.limits)
    inputs = layout.inputs(analysis, [])
    for number, (tokens, salience) in enumerate(zip(inputs.segments, inputs.salience, strict=True)):
        assert not any(salience[: layout.frame])
        assert marked(list(tokens), list(salience), tiny_tokenizer) == expected_marks(analysis, number)
    ranked = sorted(analysis.remembered, key=lambda index: analysis.remembered[index])
    assert ranked == sorted(analysis.remembered, key=lambda index: float(analysis.ratings.scores[index]))
    assert max(analysis.remembered.values()) == 1
    assert not causal(tiny_tokenizer, 512).inputs(analysis, []).salience


# --------------------------------------------------------------------------------------------------------------- keys


def test_key_changes_with_everything_that_inputs_depend_on(
    tiny_tokenizer: PreTrainedTokenizerFast, tiny_bart_tokenizer: PreTrainedTokenizerFast
) -> None:
    keys = [
        causal(tiny_tokenizer, 2048).key,
        causal(tiny_tokenizer, 1024).key,
        causal(tiny_bart_tokenizer, 2048).key,
        causal(tiny_tokenizer, 2048, salient="text").key,
        causal(tiny_tokenizer, 2048, salient="text", salient_size=9).key,
        BartLayout(tiny_bart_tokenizer, AwesomeConfig(max_position_embeddings=2048, salient_size=256)).key,
    ]
    assert len({repr(key) for key in keys}) == len(keys)
    assert keys[0] == causal(tiny_tokenizer, 2048).key
