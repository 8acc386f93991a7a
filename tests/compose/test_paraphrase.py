"""A paraphrased part: supported sentences of any candidate, each once; copies where there are too few."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from awesum import Document, Settings
from awesum.analysis.analysis import Analysis, Analyst
from awesum.compose.plan import Paraphrase
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer
from awesum.systems.chat import Chat, _ChatPrompts
from awesum.verify import Verdict, Verifier
from tests.conftest import topical_text


class Table(Verifier):
    """Supports what a table says, by the first word; what is not in the table is not supported."""

    def __init__(self, support: dict[str, float]) -> None:
        super().__init__()
        self.table = support

    def judge(self, sources: Sequence[str], statements: Sequence[str]) -> list[Verdict]:
        return [
            Verdict(1.0, (sources.index(each),))
            if each in sources
            else Verdict(self.table.get(each.split()[0], 0.0), (1,))
            for each in statements
        ]


@pytest.fixture
def analysis(tiny_chat: ChatModel, analyst: Analyst) -> Analysis:
    chat = Chat(writer=tiny_chat, analyst=analyst)
    return chat.analyse(Document(topical_text(60), path="text"), Settings(length="120w"))


def plan(
    analysis: Analysis,
    tiny_chat: ChatModel,
    analyst: Analyst,
    strict: bool = False,
    by_large: bool = False,
    **table: float,
) -> Paraphrase:
    prompts = _ChatPrompts(tiny_chat, analysis)
    table_of = Table(table)
    return Paraphrase(
        analysis, analyst.encoder, prompts, 1000, table_of, strict=strict, by_large=by_large, candidates=2
    )


def first(analysis: Analysis) -> int:
    return next(number for number, share in enumerate(analysis.selection.shares) if share)


def sentence(word: str, seed: int) -> str:
    """Like the segment, but no copy."""
    return f"{word} {topical_text(1, seed=seed).split(' cost')[0].removeprefix('The ')}."


def test_unsupported_sentence_is_replaced_by_the_selected_one(
    analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst
) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.8, Bad=0.2)
    number = first(analysis)
    found = made.compose(number, Answer(sentence("Bad", 1)), [])
    assert [each.text for each in found] == [analysis.plain(index) for index in analysis.selection.shares[number]]
    assert all(each.support == 1.0 for each in found)
    notes = [*made.notes([], True)]
    assert any(note.startswith("1 of 1 sentence that the model wrote left out: not supported") for note in notes)


def test_best_supported_candidate_is_kept_with_its_support_and_source(
    analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst
) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.8, Better=0.9, Bad=0.2)
    number = first(analysis)
    answer = Answer(sentence("Bad", 1), others=(sentence("Good", 2), sentence("Better", 1)))
    found = made.compose(number, answer, [])
    texts = {each.text.split()[0]: each for each in found}
    assert "Bad" not in texts
    assert texts["Better"].support == 0.9
    segment = analysis.segments[number]
    assert texts["Better"].source == analysis.quote(segment.first + 1)
    assert [each.source.start for each in found] == sorted(each.source.start for each in found)


def test_copy_gives_way_to_what_was_written(analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.8)
    number = first(analysis)
    index = analysis.selection.shares[number][0]
    long = " ".join([sentence("Good", 2)[:-1]] * 4) + "."
    found = made.compose(number, Answer(analysis.plain(index), others=(long,)), [])
    assert found[0].text == long


def test_likeliest_answer_of_a_large_model_goes_first_as_it_is(
    analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst
) -> None:
    number = first(analysis)
    copy = analysis.plain(analysis.selection.shares[number][0])
    written, other = (" ".join([sentence(word, seed)[:-1]] * 9) + "." for word, seed in (("Good", 2), ("Better", 1)))
    answer = Answer(f"{copy} {written}", others=(other,))
    texts = []
    for by_large in (False, True):
        made = plan(analysis, tiny_chat, analyst, by_large=by_large, Good=0.8, Better=0.9)
        texts.append({each.text for each in made.compose(number, answer, [])})
    small, large = texts
    assert other in small, "the best supported"
    assert copy not in small, "what the reader gets anyway"
    assert copy in large
    assert other not in large, "there was enough"


def test_strict_keeps_only_what_is_fully_supported(analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst) -> None:
    number = first(analysis)
    answer = Answer(sentence("Good", 2))
    kept = plan(analysis, tiny_chat, analyst, Good=0.8).compose(number, answer, [])
    strict = plan(analysis, tiny_chat, analyst, strict=True, Good=0.8).compose(number, answer, [])
    assert any(each.support == 0.8 for each in kept)
    assert all(each.support == 1.0 for each in strict)


def test_announcement_without_what_it_announces_is_left_out(
    analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst
) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.9)
    number = first(analysis)
    text = sentence("Good", 2)
    found = made.compose(number, Answer(f"{text[:-1]}:\n\n{text}"), [])
    assert [each.text for each in found if not each.is_copy] == [text]


@pytest.mark.parametrize("end", ["", " \ufffd."])
def test_sentence_that_was_cut_off_is_left_out(
    analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst, end: str
) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.9)
    number = first(analysis)
    found = made.compose(number, Answer(sentence("Good", 2)[:-1] + end), [])
    assert found
    assert all(each.is_copy for each in found)


def test_nothing_is_said_twice(analysis: Analysis, tiny_chat: ChatModel, analyst: Analyst) -> None:
    made = plan(analysis, tiny_chat, analyst, Good=0.8)
    number = first(analysis)
    text = sentence("Good", 2)
    found = made.compose(number, Answer(text, others=(text, text)), [])
    assert sum(each.text == text for each in found) == 1
    again = made.compose(number, Answer(text), [])
    assert all(each.text != text for each in again)
    assert any("repeated" in note for note in made.notes([], True))
