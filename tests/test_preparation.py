"""From a text to tokens: nothing is lost, nothing is longer than the model's window, and it is computed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import Calibration
from awesum.analysis.salience.text import CURRENT, NEXT, PREVIOUS
from awesum.datasets import Example
from awesum.errors import AwesumError
from awesum.models.bart import AwesomeConfig
from awesum.preparation import Divided, Preparation, Prepared
from awesum.scoring.targets import assign
from tests.conftest import TOPICS, topical_text

Prepare = Callable[..., Preparation]
HEADINGS = (PREVIOUS, CURRENT, NEXT)


@pytest.fixture
def prepare(tiny_bart_tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Prepare:
    """A preparation for a model that has other equipment; 256 positions make segments of 128 to 192 tokens."""

    def make(window: int = 256, tokenizer: Any = None, **options: Any) -> Preparation:
        own = {name: options.pop(name) for name in ("max_tokens", "say") if name in options}
        config = AwesomeConfig(
            vocab_size=500, d_model=8, encoder_attention_heads=2, decoder_attention_heads=2,
            max_position_embeddings=window, memory="none", **options,
        )  # fmt: skip
        return Preparation(tokenizer or tiny_bart_tokenizer, config, tiny_encoder, Centrality(), **own)

    return make


def squeezed(text: str) -> str:
    return "".join(text.split())


def decoded(preparation: Preparation, tokens: Any) -> str:
    return preparation.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def sentence(divided: Divided, index: int) -> str:
    found = divided.sentences[index]
    return divided.text[found.start : found.end].strip()


def example(text: str | None = None, summary: str = "The rocket report. The harbour.", **changes: Any) -> Example:
    return Example("report 7", text if text is not None else topical_text(70), summary, **changes)


# -------------------------------------------------------------------------------------------------- segments, queries


@pytest.mark.parametrize("salient", ["none", "key-value"])
def test_segments_are_the_text(prepare: Prepare, salient: str) -> None:
    preparation = prepare(salient=salient)
    text = topical_text(70)
    inputs = preparation.inputs("a", preparation.divide(text))
    assert len(inputs.segments) > 5
    for tokens in inputs.segments:
        assert (tokens[0], tokens[-1]) == (0, 2)
        assert len(tokens) <= 256
    assert squeezed("".join(decoded(preparation, tokens) for tokens in inputs.segments)) == squeezed(text)
    assert inputs.targets == ()


@given(st.text(st.sampled_from("ab .\n。é😀</s>"), min_size=1, max_size=400).filter(str.strip))
def test_no_character_is_lost_in_any_text(prepare: Prepare, text: str) -> None:
    preparation = prepare(window=32)
    inputs = preparation.inputs("a", preparation.divide(text))
    found = "".join(preparation.tokenizer.decode(tokens[1:-1]) for tokens in inputs.segments)
    assert squeezed(found) == squeezed(text)
    assert all(len(tokens) <= 32 for tokens in inputs.segments)


def test_marks_in_a_document_are_text(prepare: Prepare) -> None:
    preparation = prepare()
    inputs = preparation(example("The word </s> ends nothing here, and <pad> hides nothing.", "It says </s> twice."))
    for tokens in (*inputs.segments, *inputs.targets):
        assert [token for token in tokens if token < 4] == [0, 2]


def test_known_vectors_are_taken_and_only_the_others_made(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    preparation = prepare(salient="text")
    text = topical_text(40)
    expected = preparation.divide(text)
    texts = [text[one.start : one.end] for one in expected.sentences]
    known = dict(zip(texts, preparation.encoder.encode(texts), strict=True))
    left = [known.pop(texts[place]) is None or texts[place] for place in (3, 17, 30)]
    asked: list[list[str]] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(
        SentenceEncoder, "encode", lambda self, those: (asked.append(list(those)), encode(self, those))[1]
    )
    found = preparation.divide(text, known=known)
    assert asked == [left]
    assert found == expected


def test_query_stands_before_every_segment(prepare: Prepare) -> None:
    preparation = prepare()
    plain = preparation(example())
    asked = preparation(example(query=" What did the orchard cost? "))
    assert len(plain.segments) == len(asked.segments)
    for without, with_query in zip(plain.segments, asked.segments, strict=True):
        assert decoded(preparation, with_query) == f"What did the orchard cost? {decoded(preparation, without)}"
    assert plain.targets == asked.targets


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
def test_query_that_does_not_fit_is_told_in_one_line(prepare: Prepare, salient: str) -> None:
    with pytest.raises(AwesumError, match=r"report 7: .* shorten the query") as told:
        prepare(salient=salient)(example(query="budget audit " * 60))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", ["", "   ", "\n \t\n"])
def test_document_without_a_sentence_is_told_in_one_line(prepare: Prepare, text: str) -> None:
    with pytest.raises(AwesumError, match="report 7 has no sentence") as told:
        prepare()(example(text))
    assert "\n" not in str(told.value)


def test_max_tokens_cuts_at_a_segment_and_says_so(prepare: Prepare) -> None:
    said: list[str] = []
    whole = prepare(salient="key-value")(example())
    preparation = prepare(salient="key-value", max_tokens=500, say=said.append)
    cut = preparation(example())
    segments = preparation.divide(example().document).segments
    assert cut.segments == whole.segments[: len(cut.segments)]
    kept = sum(segment.tokens for segment in segments[: len(cut.segments)])
    assert kept <= 500 < kept + segments[len(cut.segments)].tokens
    assert said == [
        f"report 7: {kept:,} of {sum(s.tokens for s in segments):,} tokens are trained on, for max_tokens=500"
    ]
    assert len(cut.targets) == len(cut.segments) == len(cut.salient)
    assert all(segment < len(cut.segments) for segment, _, _ in cut.spans)
    assert squeezed("".join(decoded(preparation, target) for target in cut.targets)) == squeezed(example().summary)


def test_max_tokens_that_suffice_say_nothing(prepare: Prepare) -> None:
    said: list[str] = []
    assert prepare(max_tokens=100_000, say=said.append)(example()) == prepare()(example())
    assert not said


def test_first_segment_stays_however_little_is_asked_for(prepare: Prepare) -> None:
    assert len(prepare(max_tokens=1)(example()).segments) == 1


# ------------------------------------------------------------------------------------------------------------ targets


def test_targets_are_the_summary(prepare: Prepare) -> None:
    preparation = prepare()
    summary = "The budget report cost dollars. Rocket and capsule in orbit. The harbour has a crane and a quay."
    inputs = preparation(example(summary=summary))
    texts = [decoded(preparation, target) for target in inputs.targets]
    assert sorted(squeezed("".join(texts))) == sorted(squeezed(summary))
    assert all((target[0], target[-1]) == (0, 2) for target in inputs.targets)
    assert any(list(target) == [0, 2] for target in inputs.targets)
    rocket = next(number for number, text in enumerate(texts) if "Rocket" in text)
    assert "capsule" in decoded(preparation, inputs.segments[rocket])


def test_target_longer_than_the_window_is_split_and_said(prepare: Prepare) -> None:
    said: list[str] = []
    preparation = prepare(window=96, say=said.append, salient="key-value")
    document = topical_text(12)
    summary = " ".join(topical_text(40, seed=5).split())
    inputs = preparation(example(document, summary))
    assert all(len(target) <= 96 for target in inputs.targets)
    assert len(inputs.targets) == len(inputs.segments) == len(inputs.salient)
    found = [decoded(preparation, target) for target in inputs.targets]
    # Sentence by sentence, because they go to segments in an order of their own.
    sentences = [part for part in summary.split("dollars.") if part.strip()]
    assert sum(map(len, map(squeezed, found))) == len(squeezed(summary))
    for part in sentences:
        assert sum(squeezed(part + "dollars.") in squeezed(text) for text in found) == 1
    assert said
    assert all("report 7: a target of" in note and "of at most 96 tokens each" in note for note in said)
    split = sum(int(note.split("split into ")[1].split(",")[0]) - 1 for note in said)
    assert len(inputs.segments) == len(preparation.divide(document).segments) + split


def test_target_of_one_endless_sentence_is_split_inside_it(prepare: Prepare) -> None:
    preparation = prepare(window=64)
    summary = " ".join(word for topic in TOPICS.values() for word in topic.split()) + "."
    inputs = preparation(example("The rocket launch. Nothing more is said.", summary))
    assert len(inputs.targets) > 1
    assert all(len(target) <= 64 for target in inputs.targets)
    assert squeezed("".join(decoded(preparation, target) for target in inputs.targets)) == squeezed(summary)
    assert len({tuple(tokens) for tokens in inputs.segments}) == 1


@given(st.text(st.sampled_from("abc .\n。é😀"), max_size=300))
def test_no_character_of_any_target_is_lost(prepare: Prepare, summary: str) -> None:
    preparation = prepare(window=32)
    pieces = preparation._target("a", summary)
    assert all(len(piece) <= 32 for piece in pieces)
    assert squeezed("".join(preparation.tokenizer.decode(piece[1:-1]) for piece in pieces)) == squeezed(summary)


# ---------------------------------------------------------------------------------------------------- salient content


@pytest.mark.parametrize("query", [None, "What did it cost?"])
@pytest.mark.parametrize("window", [256, 400])
def test_salient_text_stands_around_the_segment(prepare: Prepare, query: str | None, window: int) -> None:
    preparation = prepare(window=window, salient="text")
    text = topical_text(200)
    divided = preparation.divide(text)
    inputs = preparation.inputs("a", divided, query)
    shown = 0
    for tokens, segment in zip(inputs.segments, divided.segments, strict=True):
        assert len(tokens) <= window
        content = decoded(preparation, tokens)
        if query:
            assert content.startswith(f"{query} ")
            content = content.removeprefix(f"{query} ")
        blocks = {heading: content.split(heading)[1].strip() for heading in HEADINGS if heading in content}
        assert list(blocks) == sorted(blocks, key=content.index)
        current = content.split(CURRENT)[1].split(NEXT)[0].strip()
        assert current == text[segment.start : segment.end].strip()
        before = content.split(CURRENT)[0].removeprefix(PREVIOUS).strip()
        behind = content.split(NEXT)[1].strip() if NEXT in content else ""
        past = [" ".join(sentence(divided, index).split()) for index in divided.chosen if index < segment.first]
        future = [" ".join(sentence(divided, index).split()) for index in divided.chosen if index >= segment.last]
        took_past = next(n for n in range(len(past) + 1) if " ".join(past[:n]) == before)  # the earliest
        took_future = next(n for n in range(len(future) + 1) if " ".join(future[len(future) - n :]) == behind)
        # In turn, the past first, until one side has no more.
        if took_past < len(past) and took_future < len(future):
            assert took_past - took_future in (0, 1)
        shown += took_past + took_future
        # And no more would have fitted, unless there is no more.
        if took_past < len(past) or took_future < len(future):
            from_past = took_past < len(past) and (took_past <= took_future or took_future == len(future))
            following = past[took_past] if from_past else future[-took_future - 1]
            # Counted sentence by sentence with the space behind each, and with both headings: that is a little more.
            slack = segment.last - segment.first + 24
            assert len(tokens) + len(preparation._ids(following)) > window - slack
    assert shown >= len(divided.segments)


def test_key_value_spans_are_the_chosen_sentences(prepare: Prepare) -> None:
    preparation = prepare(salient="key-value", salient_size=60)
    _check_spans(preparation, None)


def test_key_value_spans_behind_a_query(prepare: Prepare) -> None:
    _check_spans(prepare(salient="key-value", salient_size=100), "What did the orchard cost?")


def test_key_value_spans_with_bart_s_own_offsets(
    prepare: Prepare, tiny_bart_tokenizer: PreTrainedTokenizerFast
) -> None:
    """BART's tokenizer leaves the space before a word out of its offsets."""
    backend = Tokenizer.from_str(tiny_bart_tokenizer.backend_tokenizer.to_str())
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    trimmed = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    _check_spans(prepare(tokenizer=trimmed, salient="key-value", salient_size=100), "What did it cost?")


def _check_spans(preparation: Preparation, query: str | None) -> None:
    divided = preparation.divide("  \n" + topical_text(120))
    inputs = preparation.inputs("a", divided, query)
    assert len(divided.chosen) > 3
    found = [decoded(preparation, inputs.segments[of][start:end]).strip() for of, start, end in inputs.spans]
    assert found == [sentence(divided, index) for index in divided.chosen]
    assert all(start > 0 and end < len(inputs.segments[of]) for of, start, end in inputs.spans)  # no mark
    seen = 0
    for number, (segment, ats) in enumerate(zip(divided.segments, inputs.salient, strict=True)):
        assert list(ats) == sorted(set(ats))
        tokens = 0
        for at in ats:
            of, start, end = inputs.spans[at]
            assert of != number
            assert not segment.first <= divided.chosen[at] < segment.last
            tokens += end - start
        assert tokens <= preparation.config.salient_size
        seen += len(ats)
    assert seen >= len(divided.segments)


def test_key_value_spans_of_a_segment_with_several_targets_are_in_its_first_pass(prepare: Prepare) -> None:
    preparation = prepare(window=96, salient="key-value")
    divided = preparation.divide(topical_text(40))
    long = " ".join(topical_text(12, seed=5).split())
    inputs = preparation.inputs("a", divided, None, [long for _ in divided.segments])
    assert len(inputs.segments) > len(divided.segments)
    for of, start, end in inputs.spans:
        assert decoded(preparation, inputs.segments[of][start:end]).strip() in {
            sentence(divided, index) for index in divided.chosen
        }
    own = [tuple(tokens) for tokens in inputs.segments]
    assert len(inputs.spans) == len(divided.chosen)
    assert all(own.index(own[of]) == of for of, _, _ in inputs.spans)
    for number, ats in enumerate(inputs.salient):
        assert all(own[inputs.spans[at][0]] != own[number] for at in ats)  # nor those of another pass over itself


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_salient_sentences_are_those_that_a_summary_could_hold(prepare: Prepare, salient: str) -> None:
    heading, list_of_words = "The rocket report", "The rocket report " + "capsule launch orbit " * 40 + "."
    text = f"{heading}\n\n{topical_text(30)}\n\n{list_of_words}\n\nIt cost money.\n"
    divided = prepare(salient=salient).divide(text)
    chosen = [sentence(divided, index) for index in divided.chosen]
    assert chosen
    assert all(found.endswith("dollars.") for found in chosen)


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_text_of_headings_alone_has_salient_ones_all_the_same(prepare: Prepare, salient: str) -> None:
    preparation = prepare(salient=salient)
    divided = preparation.divide("One. Two. Three words here.")
    assert len(divided.chosen) == 1
    inputs = preparation.inputs("a", divided)
    assert len(inputs.segments) == 1
    assert not any(inputs.salient), "they are in the only segment, which need not be told"


@pytest.mark.parametrize("salient", ["text", "key-value"])
def test_salient_sentences_are_salient_for_the_query(prepare: Prepare, salient: str) -> None:
    preparation = prepare(salient=salient)
    text, query = topical_text(70), "The orchard report apple blossom pruning harvest."
    plain, asked = preparation.divide(text), preparation.divide(text, query=query)
    of_the_orchard = [
        sum("orchard" in sentence(divided, index) for index in divided.chosen) / len(divided.chosen)
        for divided in (plain, asked)
    ]
    assert of_the_orchard[1] > of_the_orchard[0]
    assert asked.segments == plain.segments
    assert preparation(example(text, query=query)) == preparation.inputs(
        "report 7", asked, query, assign(example().summary, text, asked.segments)
    )


def test_without_salient_content_the_query_is_not_encoded(prepare: Prepare) -> None:
    preparation = prepare(salient="none")
    encoder = counted(preparation)
    preparation(example(query="What did it cost?"))
    assert encoder.calls == 1


# -------------------------------------------------------------------------------------------------------------- cache


class Counting:
    """The sentence encoder, and how often it was asked."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.model, self.calls = encoder, encoder.model, 0

    def encode(self, texts: list[str]) -> np.ndarray:
        self.calls += 1
        return self.encoder.encode(texts)


def counted(preparation: Preparation) -> Counting:
    counting = Counting(preparation.encoder)
    preparation.encoder = counting  # type: ignore[assignment]
    return counting


def plain(inputs: Any) -> str:
    return json.dumps([inputs.name, inputs.segments, inputs.targets, inputs.spans, inputs.salient])


@pytest.mark.parametrize("salient", ["none", "text", "key-value"])
def test_prepared_once(prepare: Prepare, tmp_path: Path, salient: str) -> None:
    preparation = prepare(salient=salient)
    encoder = counted(preparation)
    prepared = Prepared([example(), example("Another text. It is short.")], preparation, tmp_path / "kept")
    assert len(prepared) == 2
    assert encoder.calls == 0  # not before it is asked for
    first = prepared[0]
    assert encoder.calls == 1
    assert plain(prepared[0]) == plain(first) == plain(preparation(example()))
    encoder.calls = 0
    again = Prepared([example(), example("Another text. It is short.")], preparation, tmp_path / "kept")
    assert plain(again[0]) == plain(first)
    assert encoder.calls == 0
    assert again[1].segments != first.segments
    assert encoder.calls == 1
    assert len(list((tmp_path / "kept").iterdir())) == 2  # nothing half-written beside them


@pytest.mark.parametrize(
    "other",
    [
        {"salient": "none"},
        {"salient_size": 50},
        {"window": 200},
        {"max_tokens": 300},
    ],
    ids=str,
)
def test_other_settings_are_prepared_anew(prepare: Prepare, tmp_path: Path, other: dict[str, Any]) -> None:
    options = {"salient": "key-value", "salient_size": 100}
    Prepared([example()], prepare(**options), tmp_path)[0]
    preparation = prepare(**options | other)
    expected = plain(preparation(example()))
    encoder = counted(preparation)
    assert plain(Prepared([example()], preparation, tmp_path)[0]) == expected
    assert encoder.calls == 1


def test_other_tokenizer_encoder_salience_or_example_is_prepared_anew(
    prepare: Prepare, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    Prepared([example()], prepare(salient="key-value"), tmp_path)[0]
    others = [prepare(salient="key-value") for _ in range(6)]
    others[0].tokenizer = tiny_tokenizer
    others[1].salience = Centrality(opening=0.9)
    changed = [example(), example(), *(replace(example(), **change) for change in (
        {"id": "8"}, {"document": example().document + " More."}, {"summary": "Other."}, {"query": "Why?"}
    ))]  # fmt: skip
    for preparation, one in zip(others, changed, strict=True):
        encoder = counted(preparation)
        Prepared([one], preparation, tmp_path)[0]
        assert encoder.calls == (2 if one.query else 1)  # the query is read as well
    assert len(list(tmp_path.iterdir())) == 7


def test_name_of_the_salience_says_whether_it_is_another(prepare: Prepare, tmp_path: Path) -> None:
    class Named:
        calibration = Calibration()

        def __init__(self, name: str) -> None:
            self.name = name

        def score(self, texts: list[str], embeddings: np.ndarray, query: np.ndarray | None = None) -> np.ndarray:
            return np.arange(len(embeddings), dtype=np.float32)

    calls = []
    for name in ("one", "other", "one"):
        preparation = prepare(salient="key-value")
        preparation.salience = Named(name)
        encoder = counted(preparation)
        Prepared([example()], preparation, tmp_path)[0]
        calls.append(encoder.calls)
    assert calls == [1, 1, 0]


@pytest.mark.parametrize("damage", [b"", b"{", b"[1, 2]", b'{"name": "x"}', b'{"other": 1}', b"\xff\xfe", b"null"])
def test_damaged_entry_is_made_anew(prepare: Prepare, tmp_path: Path, damage: bytes) -> None:
    preparation = prepare()
    prepared = Prepared([example()], preparation, tmp_path)
    expected = plain(prepared[0])
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    encoder = counted(preparation)
    assert plain(prepared[0]) == expected
    assert encoder.calls == 1
    assert plain(prepared[0]) == expected
    assert encoder.calls == 1


def test_cache_that_cannot_be_written_is_told_in_one_line(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    with pytest.raises(AwesumError, match="AWESUM_CACHE") as told:
        Prepared([example()], prepare(), tmp_path / "kept")[0]
    assert "\n" not in str(told.value)


def test_no_such_example(prepare: Prepare, tmp_path: Path) -> None:
    with pytest.raises(IndexError):
        Prepared([example()], prepare(), tmp_path)[1]
