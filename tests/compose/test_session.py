"""A session: what a part says depends on the document, the settings and the parts before it, and on nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum import Document, Settings, Summarizer
from awesum.analysis.analysis import Analyst
from awesum.compose.plan import AHEAD
from awesum.compose.session import Session
from awesum.engine.causal import CausalEngine
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Part
from awesum.systems.adapter import Adapter
from awesum.systems.chat import Chat
from awesum.systems.system import System, open_session
from tests.conftest import Calls, topical_text
from tests.engine.sessions import made

LENGTHS = ["500w", "20s"]


@pytest.fixture(scope="module")
def document() -> Document:
    """Of more parts than may be written at the same time."""
    return Document(topical_text(420, seed=1), path="long.txt")


@pytest.fixture
def chat(tiny_chat: ChatModel, analyst: Analyst) -> Chat:
    return Chat(writer=tiny_chat, analyst=analyst)


def answer_to(prompt: Prompt) -> Answer:
    """As long as the budget asks for: a budget that is another gives another answer."""
    text = ""
    for turn in range(60):
        text += f" {topical_text(1, seed=1000 * prompt.number + turn).split(' cost')[0]}."
        if prompt.enough(text):
            break
    return Answer(text)


def prompt_of(session: Session) -> Prompt | None:
    prompt = session.next_prompt()
    assert prompt is None or isinstance(prompt, Prompt)
    return prompt


def written(
    session: Session, choose: Callable[[list[Prompt]], int] = lambda asked: 0, patience: float = 0.0
) -> Session:
    """Answers one prompt at a time, the one that `choose` chooses; sometimes before all have been asked for."""
    chance = random.Random(3)
    given = list(session.begin())
    asked: list[Prompt] = []
    while not session.complete:
        while (not asked or chance.random() >= patience) and (prompt := prompt_of(session)):
            asked.append(prompt)
        prompt = asked.pop(choose(asked))
        given += session.accept(prompt.number, answer_to(prompt))
        assert [part.segment for part in given] == sorted(part.segment for part in given), "parts come in order"
    assert given == session.parts
    return session


# --------------------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("length", LENGTHS)
def test_parts_do_not_depend_on_the_order_of_answers(length: str, chat: Chat, document: Document) -> None:
    wanted = Settings(length=length)
    analysis = chat.analyse(document, wanted)
    expected = written(chat.session(analysis, wanted)).summary()
    assert len(expected.parts) > AHEAD

    @settings(max_examples=20)
    @given(choice=st.randoms(use_true_random=False), patience=st.sampled_from([0.0, 0.3, 0.6, 0.9]))
    def any_order(choice: random.Random, patience: float) -> None:
        session = written(chat.session(analysis, wanted), lambda asked: choice.randrange(len(asked)), patience)
        found = session.summary()
        assert found.parts == expected.parts
        assert found.notes == expected.notes

    any_order()
    last_first = written(chat.session(analysis, wanted), lambda asked: -1)
    assert last_first.summary().parts == expected.parts
    assert last_first.raw() == written(chat.session(analysis, wanted)).raw()


def test_budget_follows_the_parts_that_are_certainly_written(chat: Chat, document: Document) -> None:
    """The test above is not blind: parts that are longer or shorter than they should be change the later budgets."""
    wanted = Settings(length="500w")
    analysis = chat.analyse(document, wanted)
    session = chat.session(analysis, wanted)
    session.begin()
    tests: dict[int, Callable[[str], bool]] = {}
    while not session.complete:
        while prompt := prompt_of(session):
            tests[prompt.number] = prompt.enough
        number = min(set(tests) - set(session.drafts))
        session.accept(number, Answer(""))  # the selected sentences stand in, which do not come to the budget exactly
    late = list(tests)[-1]
    sentence = "The crane broke and it sank. "

    def words_until_enough(enough: Callable[[str], bool]) -> int:
        return next(6 * count for count in range(1, 200) if enough(sentence * count + "It"))

    assert words_until_enough(tests[late]) != words_until_enough(session.plan.budget.enough(late, 1.0))


# --------------------------------------------------------------------------------------------------------------- ahead


def test_first_part_is_asked_for_alone(chat: Chat, document: Document) -> None:
    session = open_session(chat, document, Settings(length="500w"))
    assert session.begin() == []
    first = prompt_of(session)
    assert first is not None
    assert first.number == session.plan.order[0]
    assert prompt_of(session) is None
    assert session.accept(first.number, Answer("The report is long.")), "it is given out at once"
    assert prompt_of(session) is not None


def test_no_more_than_so_many_parts_are_asked_for_ahead(chat: Chat, document: Document) -> None:
    session = open_session(chat, document, Settings(length="500w"))
    session.begin()
    first = prompt_of(session)
    assert first is not None
    session.accept(first.number, Answer(""))
    asked = []
    while prompt := prompt_of(session):
        asked.append(prompt)
    assert len(asked) == AHEAD
    for late in asked[:0:-1]:  # answers to all but the first of them: it is what the others wait for
        assert session.accept(late.number, Answer("")) == []
        assert prompt_of(session) is None
    assert session.accept(asked[0].number, Answer(""))
    more = []
    while prompt := prompt_of(session):
        more.append(prompt)
    assert len(more) == min(AHEAD, len(session.plan.order) - 1 - AHEAD)


def test_model_with_a_memory_is_asked_about_one_segment_at_a_time(
    tiny_tokenizer: PreTrainedTokenizerFast, analyst: Analyst, document: Document
) -> None:
    for kind in ("memory", "writer with memory"):
        system = Adapter(writer=made(kind, tiny_tokenizer), analyst=analyst)
        session = open_session(system, document, Settings(length="300w"))
        session.begin()
        order = []
        while prompt := prompt_of(session):
            assert prompt_of(session) is None
            order.append(prompt.number)
            session.accept(prompt.number, Answer(""))
        assert order == list(range(len(session.analysis.segments))), "every segment passes through the memory"
        assert session.complete


# ---------------------------------------------------------------------------------------------------------------- RAM


def test_parts_do_not_depend_on_ram(chat: Chat, document: Document, calls: Calls) -> None:
    summarizer = Summarizer(system=chat)
    engine = chat.engine(Settings(max_memory="8GB"))
    assert isinstance(engine, CausalEngine)
    assert engine.room is not None
    fixed = 8_000_000_000 - engine.room
    found, rows = [], []
    for extra in (450_000, 1_000_000, 1_900_000, None):
        calls.rows.clear()
        limit = None if extra is None else f"{fixed + extra}B"
        found.append(summarizer.summarize(document, length="500w", max_memory=limit).parts)
        rows.append(max(calls.rows))
    assert rows[0] == 1
    assert rows[0] < rows[1] < rows[-1], "limits that all come to the same would test nothing"
    assert all(parts == found[0] for parts in found)


# ------------------------------------------------------------------------------------------------------------ resuming


@pytest.mark.parametrize("kind", ["chat", pytest.param("writer", marks=pytest.mark.slow)])
def test_resumed_run_gives_the_parts_of_an_uninterrupted_one(
    kind: str, tiny_tokenizer: PreTrainedTokenizerFast, analyst: Analyst, document: Document, calls: Calls
) -> None:
    system = (Chat if kind == "chat" else Adapter)(writer=made(kind, tiny_tokenizer), analyst=analyst)
    summarizer = Summarizer(system=system)
    wanted = Settings(length="400w")
    whole = list(summarizer.start(document, wanted))
    assert len(whole) > AHEAD + 2
    assert any(part.text != " ".join(quote.text for quote in part.salient) for part in whole), "all of it is verbatim"
    reads = len(calls)
    for k in (0, 1, 2, AHEAD, AHEAD + 1, len(whole) - 1, len(whole)):  # the next test tries every part, without a model
        calls.clear()
        run = summarizer.start(document, wanted, done=whole[:k])
        assert list(run) == whole, f"resumed after {k} parts"
        assert run.summary().complete
        assert len(calls) <= reads - k


@pytest.mark.parametrize("length", LENGTHS)
def test_session_is_resumed_after_any_part(length: str, chat: Chat, document: Document) -> None:
    wanted = Settings(length=length)
    analysis = chat.analyse(document, wanted)
    whole = written(chat.session(analysis, wanted)).parts
    for k in range(len(whole) + 1):
        assert written(chat.session(analysis, wanted, done=whole[:k])).parts == whole, f"resumed after {k} parts"


def test_whole_extract_is_resumed_too(analyst: Analyst, chat: Chat, document: Document) -> None:
    summarizer = Summarizer(system=chat)
    wanted = Settings(style="extract", length="30s")
    whole = list(summarizer.start(document, wanted))
    assert len(whole) > 3
    for k in range(len(whole) + 1):
        assert list(summarizer.start(document, wanted, done=whole[:k])) == whole


def test_parts_of_a_memory_come_first_and_are_only_remembered(
    tiny_tokenizer: PreTrainedTokenizerFast, analyst: Analyst, document: Document
) -> None:
    system: System = Adapter(writer=made("writer with memory", tiny_tokenizer), analyst=analyst)
    wanted = Settings(length="400w")
    whole = list(Summarizer(system=system).start(document, wanted))
    session = open_session(system, document, wanted, done=whole[:3])
    assert session.begin() == whole[:3]
    replayed: list[Prompt] = []
    prompt = prompt_of(session)
    while prompt is not None and prompt.number <= whole[2].segment:
        replayed.append(prompt)
        assert session.accept(prompt.number, Answer("anything")) == []
        prompt = prompt_of(session)
    assert [each.number for each in replayed] == list(range(whole[2].segment + 1))
    assert all(each.known is not None for each in replayed)
    known = {each.number: system.tokenizer.decode(each.known or []) for each in replayed}
    assert {number: text for number, text in known.items() if text} == {part.segment: part.text for part in whole[:3]}
    assert prompt is not None
    assert session.parts == whole[:3]


# ------------------------------------------------------------------------------------------------------------- the run


@pytest.mark.parametrize("taken", [0, 1, 3, 1000])
def test_run_goes_on_where_it_was_left(taken: int, chat: Chat, document: Document, calls: Calls) -> None:
    """`finish` after a partial iteration used to start over: parts were repeated, `tokens_read` was doubled."""
    summarizer, wanted = Summarizer(system=chat), Settings(length="400w")
    expected = summarizer.start(document, wanted).finish()
    reads = len(calls)
    calls.clear()
    run = summarizer.start(document, wanted)
    parts: list[Part] = []
    for part in run:
        parts.append(part)
        if len(parts) == taken:
            break
    summary = run.finish()
    assert summary.parts == expected.parts
    assert parts == summary.parts[: len(parts)]
    assert summary.figures.tokens_read == summary.tokens
    assert summary.complete
    assert len(calls) == reads
    assert list(run) == []
    assert run.finish().parts == expected.parts
    assert len(calls) == reads


def test_summary_can_be_had_at_any_time(chat: Chat, document: Document) -> None:
    run = Summarizer(system=chat).start(document, Settings(length="400w"))
    assert not run.summary().complete
    seen: list[Part] = []
    for part in run:
        seen.append(part)
        summary = run.summary()
        assert summary.parts[: len(seen)] == seen
        assert summary.figures.tokens_read == summary.tokens > 0
    assert run.summary().complete


def test_raw_is_what_the_model_wrote_untouched(chat: Chat, document: Document) -> None:
    wanted = Settings(length="400w")
    session = chat.session(chat.analyse(document, wanted), wanted)
    session.begin()
    order = list(session.plan.order)
    draft = " 1. **The** moon cost 31337 dollars. "
    while not session.complete:
        asked = []
        while prompt := prompt_of(session):
            asked.append(prompt)
        for prompt in reversed(asked):
            session.accept(prompt.number, Answer(f"{draft}{prompt.number}"))
    assert session.raw() == "\n".join(f"{draft}{number}" for number in order)
    assert "31337" not in session.summary().text
    assert any("not supported by the source" in note for note in session.summary().notes)


def test_nothing_is_asked_about_a_document_that_is_its_own_summary(chat: Chat) -> None:
    document = Document(topical_text(5))
    session = open_session(chat, document, Settings(length="500w"))
    parts = session.begin()
    assert session.complete
    assert prompt_of(session) is None
    assert " ".join(part.text for part in parts).split() == document.text.split()
    assert session.raw() == session.summary().text
