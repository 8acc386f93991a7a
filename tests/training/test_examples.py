"""From a text to tokens: nothing is lost, and nothing is longer than the model's window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.text import CURRENT, NEXT, PREVIOUS
from awesum.errors import AwesumError
from awesum.prepared.shards import PreparedDocument
from awesum.scoring.targets import assign
from tests.conftest import TOPICS, topical_text
from tests.training.preparing import Counting, InputsInSteps, Make, bart_inputs, decoded, example, squeezed

HEADINGS = (PREVIOUS, CURRENT, NEXT)


@pytest.fixture
def make(tiny_bart_tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Make:
    return bart_inputs(tiny_bart_tokenizer, tiny_encoder)


# -------------------------------------------------------------------------------------------------- segments, queries


@pytest.mark.parametrize("salient", ["none", "key-value"])
def test_segments_are_the_text(make: Make, salient: str) -> None:
    prepare = make(salient=salient)
    text = topical_text(70)
    inputs = prepare.lay_out(prepare.steps(text))
    assert len(inputs.segments) > 5
    for tokens in inputs.segments:
        assert (tokens[0], tokens[-1]) == (0, 2)
        assert len(tokens) <= 256
    assert squeezed("".join(decoded(prepare, tokens) for tokens in inputs.segments)) == squeezed(text)
    assert inputs.targets == ()


@given(st.text(st.sampled_from("ab .\n。é😀</s>"), min_size=1, max_size=400).filter(str.strip))
def test_no_character_is_lost_in_any_text(make: Make, text: str) -> None:
    prepare = make(window=32)
    inputs = prepare.lay_out(prepare.steps(text))
    found = "".join(prepare.tokenizer.decode(tokens[1:-1]) for tokens in inputs.segments)
    assert squeezed(found) == squeezed(text)
    assert all(len(tokens) <= 32 for tokens in inputs.segments)


def test_marks_in_a_document_are_text(make: Make) -> None:
    prepare = make()
    inputs = prepare(example("The word </s> ends nothing here, and <pad> hides nothing.", "It says </s> twice."))
    for tokens in (*inputs.segments, *inputs.targets):
        assert [token for token in tokens if token < 4] == [0, 2]


def test_prepared_document_brings_its_vectors(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = make(salient="text")
    text, summary = topical_text(40), "The rocket report. The harbour."
    expected = prepare.steps(text, summary=summary)
    spans = [(one.start, one.end) for one in expected.sentences]
    missing = (3, 17, 30)  # as where another tokenizer splits a long sentence elsewhere
    asked: list[list[str]] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(
        SentenceEncoder, "encode", lambda self, texts, *more: (asked.append(list(texts)), encode(self, texts, *more))[1]
    )
    known = PreparedDocument(
        id="a",
        document=text,
        summary=summary,
        query=None,
        sentences=[span for place, span in enumerate(spans) if place not in missing],
        tokens=[],
        segments=[],
        targets=[],
        coverage=None,
        oracle=[],
        embeddings=np.delete(expected.analysis.vectors, missing, axis=0),
    )
    found = make(salient="text")(known)
    assert asked == [[text[slice(*spans[place])] for place in missing]]
    assert found == prepare.lay_out(expected, assign(summary, text, expected.segments))


def test_query_stands_before_every_segment(make: Make) -> None:
    prepare = make()
    plain = prepare(example())
    asked = prepare(example(query=" What did the orchard cost? "))
    assert len(plain.segments) == len(asked.segments)
    for without, with_query in zip(plain.segments, asked.segments, strict=True):
        assert decoded(prepare, with_query) == f"What did the orchard cost? {decoded(prepare, without)}"
    assert plain.targets == asked.targets


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
def test_query_that_does_not_fit_is_refused_in_one_line(make: Make, salient: str) -> None:
    with pytest.raises(AwesumError, match=r"report 7: .* shorten the query") as error:
        make(salient=salient)(example(query="budget audit " * 60))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "   ", "\n \t\n"])
def test_document_without_a_sentence_is_refused_in_one_line(make: Make, text: str) -> None:
    with pytest.raises(AwesumError, match="report 7 has no sentence") as error:
        make()(example(text))
    assert "\n" not in str(error.value)


def test_max_tokens_cuts_at_a_segment_and_says_so(make: Make) -> None:
    notes: list[str] = []
    whole = make(salient="key-value")(example())
    prepare = make(salient="key-value", max_tokens=500, report=notes.append)
    cut = prepare(example())
    segments = prepare.steps(example().document).segments
    assert cut.segments == whole.segments[: len(cut.segments)]
    kept = sum(segment.tokens for segment in segments[: len(cut.segments)])
    assert kept <= 500 < kept + segments[len(cut.segments)].tokens
    assert notes == [f"report 7: trained on {kept:,} of {sum(s.tokens for s in segments):,} tokens (max_tokens=500)"]
    assert len(cut.targets) == len(cut.segments) == len(cut.salient)
    assert all(segment < len(cut.segments) for segment, _, _ in cut.spans)
    assert squeezed("".join(decoded(prepare, target) for target in cut.targets)) == squeezed(example().summary)


def test_max_tokens_that_suffice_say_nothing(make: Make) -> None:
    notes: list[str] = []
    assert make(max_tokens=100_000, report=notes.append)(example()) == make()(example())
    assert not notes


def test_first_segment_stays_however_little_is_asked_for(make: Make) -> None:
    assert len(make(max_tokens=1)(example()).segments) == 1


# ------------------------------------------------------------------------------------------------------------ targets


def test_targets_are_the_summary(make: Make) -> None:
    prepare = make()
    summary = "The budget report cost dollars. Rocket and capsule in orbit. The harbour has a crane and a quay."
    inputs = prepare(example(summary=summary))
    texts = [decoded(prepare, target) for target in inputs.targets]
    assert sorted(squeezed("".join(texts))) == sorted(squeezed(summary))
    assert all((target[0], target[-1]) == (0, 2) for target in inputs.targets)
    assert any(list(target) == [0, 2] for target in inputs.targets)
    rocket = next(number for number, text in enumerate(texts) if "Rocket" in text)
    assert "capsule" in decoded(prepare, inputs.segments[rocket])


def test_target_longer_than_the_window_is_split_and_reported(make: Make) -> None:
    notes: list[str] = []
    prepare = make(window=96, report=notes.append, salient="key-value")
    document = topical_text(12)
    summary = " ".join(topical_text(40, seed=5).split())
    inputs = prepare(example(document, summary))
    assert all(len(target) <= 96 for target in inputs.targets)
    assert len(inputs.targets) == len(inputs.segments) == len(inputs.salient)
    found = [decoded(prepare, target) for target in inputs.targets]
    # Sentence by sentence, because they go to segments in an order of their own.
    sentences = [part for part in summary.split("dollars.") if part.strip()]
    assert sum(map(len, map(squeezed, found))) == len(squeezed(summary))
    for part in sentences:
        assert sum(squeezed(part + "dollars.") in squeezed(text) for text in found) == 1
    assert notes
    assert all("report 7: a target of" in note and "of at most 96 tokens each" in note for note in notes)
    split = sum(int(note.split("split into ")[1].split()[0]) - 1 for note in notes)
    assert len(inputs.segments) == len(prepare.steps(document).segments) + split


def test_target_of_one_endless_sentence_is_split_inside_it(make: Make) -> None:
    prepare = make(window=64)
    summary = " ".join(word for topic in TOPICS.values() for word in topic.split()) + "."
    inputs = prepare(example("The rocket launch. Nothing more is said.", summary))
    assert len(inputs.targets) > 1
    assert all(len(target) <= 64 for target in inputs.targets)
    assert squeezed("".join(decoded(prepare, target) for target in inputs.targets)) == squeezed(summary)
    assert len({tuple(tokens) for tokens in inputs.segments}) == 1


@given(st.text(st.sampled_from("abc .\n。é😀"), max_size=300))
def test_no_character_of_any_target_is_lost(make: Make, summary: str) -> None:
    prepare = make(window=32)
    pieces = prepare.layout._target("a", summary)
    assert all(len(piece) <= 32 for piece in pieces)
    assert squeezed("".join(prepare.tokenizer.decode(piece[1:-1]) for piece in pieces)) == squeezed(summary)


# ---------------------------------------------------------------------------------------------------- salient content


@pytest.mark.parametrize("query", [None, "What did it cost?"])
@pytest.mark.parametrize("window", [256, 400])
def test_salient_text_stands_around_the_segment(make: Make, query: str | None, window: int) -> None:
    prepare = make(window=window, salient="text")
    text = topical_text(200)
    analysed = prepare.steps(text, query)
    inputs = prepare.lay_out(analysed)
    shown = 0
    for tokens, segment in zip(inputs.segments, analysed.segments, strict=True):
        assert len(tokens) <= window
        content = decoded(prepare, tokens)
        if query:
            assert content.startswith(f"{query} ")
            content = content.removeprefix(f"{query} ")
        blocks = {heading: content.split(heading)[1].strip() for heading in HEADINGS if heading in content}
        assert list(blocks) == sorted(blocks, key=content.index)
        current = content.split(CURRENT)[1].split(NEXT)[0].strip()
        assert current == text[segment.start : segment.end].strip()
        before = content.split(CURRENT)[0].removeprefix(PREVIOUS).strip()
        after = content.split(NEXT)[1].strip() if NEXT in content else ""
        past = [" ".join(analysed.sentence(index).split()) for index in analysed.selected if index < segment.first]
        future = [" ".join(analysed.sentence(index).split()) for index in analysed.selected if index >= segment.last]
        took_past = next(n for n in range(len(past) + 1) if " ".join(past[:n]) == before)  # the earliest
        took_future = next(n for n in range(len(future) + 1) if " ".join(future[len(future) - n :]) == after)
        # In turn, the past first, until one side has no more.
        if took_past < len(past) and took_future < len(future):
            assert took_past - took_future in (0, 1)
        shown += took_past + took_future
        # And no more would have fitted, unless there is no more.
        if took_past < len(past) or took_future < len(future):
            from_past = took_past < len(past) and (took_past <= took_future or took_future == len(future))
            following = past[took_past] if from_past else future[-took_future - 1]
            # Counted sentence by sentence with the space after each, and with both headings: that is a little more.
            slack = segment.last - segment.first + 24
            assert len(tokens) + len(prepare.layout._target_ids(following)) > window - slack
    assert shown >= len(analysed.segments)


def test_key_value_spans_are_the_chosen_sentences(make: Make) -> None:
    prepare = make(salient="key-value", salient_size=60)
    _check_spans(prepare, None)


def test_key_value_spans_after_a_query(make: Make) -> None:
    _check_spans(make(salient="key-value", salient_size=100), "What did the orchard cost?")


def test_key_value_spans_with_bart_s_own_offsets(make: Make, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> None:
    """BART's tokenizer leaves the space before a word out of its offsets."""
    backend = Tokenizer.from_str(tiny_bart_tokenizer.backend_tokenizer.to_str())
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    trimmed = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    _check_spans(make(tokenizer=trimmed, salient="key-value", salient_size=100), "What did it cost?")


def _check_spans(prepare: InputsInSteps, query: str | None) -> None:
    analysed = prepare.steps("  \n" + topical_text(120), query)
    inputs = prepare.lay_out(analysed)
    assert len(analysed.selected) > 3
    found = [decoded(prepare, inputs.segments[of][start:end]).strip() for of, start, end in inputs.spans]
    assert found == [analysed.sentence(index) for index in analysed.selected]
    assert all(start > 0 and end < len(inputs.segments[of]) for of, start, end in inputs.spans)  # no mark
    seen = 0
    for number, (segment, ats) in enumerate(zip(analysed.segments, inputs.salient, strict=True)):
        assert list(ats) == sorted(set(ats))
        tokens = 0
        for at in ats:
            of, start, end = inputs.spans[at]
            assert of != number
            assert not segment.first <= analysed.selected[at] < segment.last
            tokens += end - start
        assert tokens <= prepare.layout.config.salient_size
        seen += len(ats)
    assert seen >= len(analysed.segments)


def test_key_value_spans_of_a_segment_with_several_targets_are_in_its_first_pass(make: Make) -> None:
    prepare = make(window=96, salient="key-value")
    analysed = prepare.steps(topical_text(40))
    long = " ".join(topical_text(12, seed=5).split())
    inputs = prepare.lay_out(analysed, [long for _ in analysed.segments])
    assert len(inputs.segments) > len(analysed.segments)
    for of, start, end in inputs.spans:
        assert decoded(prepare, inputs.segments[of][start:end]).strip() in {
            analysed.sentence(index) for index in analysed.selected
        }
    own = [tuple(tokens) for tokens in inputs.segments]
    assert len(inputs.spans) == len(analysed.selected)
    assert all(own.index(own[of]) == of for of, _, _ in inputs.spans)
    for number, ats in enumerate(inputs.salient):
        assert all(own[inputs.spans[at][0]] != own[number] for at in ats)  # nor those of another pass over itself


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_salient_sentences_are_those_that_a_summary_could_hold(make: Make, salient: str) -> None:
    heading, list_of_words = "The rocket report", "The rocket report " + "capsule launch orbit " * 40 + "."
    text = f"{heading}\n\n{topical_text(30)}\n\n{list_of_words}\n\nIt cost money.\n"
    analysed = make(salient=salient).steps(text)
    chosen = [analysed.sentence(index) for index in analysed.selected]
    assert chosen
    assert all(found.endswith("dollars.") for found in chosen)


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_text_of_headings_alone_has_salient_ones_all_the_same(make: Make, salient: str) -> None:
    prepare = make(salient=salient)
    analysed = prepare.steps("One. Two. Three words here.")
    assert len(analysed.selected) == 1
    inputs = prepare.lay_out(analysed)
    assert len(inputs.segments) == 1
    assert not any(inputs.salient), "they are in the only segment, which need not be told"


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_salient_sentences_are_salient_for_the_query(make: Make, salient: str) -> None:
    prepare = make(salient=salient)
    text, query = topical_text(70), "The orchard report apple blossom pruning harvest."
    plain, asked = prepare.steps(text), prepare.steps(text, query=query)
    of_the_orchard = [
        sum("orchard" in analysed.sentence(index) for index in analysed.selected) / len(analysed.selected)
        for analysed in (plain, asked)
    ]
    assert of_the_orchard[1] > of_the_orchard[0]
    assert asked.segments == plain.segments
    whole = prepare(example(text, query=query))
    assert replace(whole, name="a") == prepare.lay_out(asked, assign(example().summary, text, asked.segments))


def test_without_salient_content_the_query_is_not_encoded(make: Make, tiny_encoder: SentenceEncoder) -> None:
    encoder = Counting(tiny_encoder)
    make(salient="none", encoder=encoder)(example(query="What did it cost?"))
    assert encoder.calls == 1
