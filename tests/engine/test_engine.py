"""The engine answers prompts of many sessions as if each were alone, whoever joins, fails or leaves."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum import Document, Settings
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.compose.session import Session
from awesum.engine import slots
from awesum.engine.causal import CausalEngine
from awesum.engine.engine import Engine, NoEngine, write_all
from awesum.engine.slots import Slots
from awesum.models.causal import ChatModel
from awesum.models.memory_slots import MemorySlots
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Part
from awesum.systems.awesome import Awesome
from awesum.systems.chat import Chat
from awesum.systems.lead import Lead
from awesum.systems.system import open_session
from tests.conftest import Calls, topical_text
from tests.engine.sessions import Listed, alone, documents, finish, made, never, prompts_of
from tests.golden.flows import bart_folder


@pytest.fixture(scope="module")
def remembering(tiny_tokenizer: PreTrainedTokenizerFast) -> ChatModel:
    """With a memory that matters."""
    return made("memory", tiny_tokenizer)


# ------------------------------------------------------------------------------------------------------------- joining


def test_add_does_nothing_but_let_a_session_join(tiny_chat: ChatModel, calls: Calls) -> None:
    engine = CausalEngine(tiny_chat)
    assert not engine.is_busy
    sessions = [Listed(prompts_of(seed, 4)) for seed in range(30)]
    for session in sessions:
        engine.add(session)
    assert engine.is_busy
    assert not any(session.has_begun for session in sessions)
    assert not calls
    finish(engine)
    assert all(session.complete for session in sessions)


def test_session_joins_while_others_are_being_written(tiny_chat: ChatModel, calls: Calls) -> None:
    first, second = Listed(prompts_of(1, 5, limit=40)), Listed(prompts_of(2, 3))
    engine = CausalEngine(tiny_chat, 8)
    engine.add(first)
    for _ in range(3):
        engine.step()
    assert first.asked
    assert not first.complete
    engine.add(second)
    engine.step()
    assert second.asked, "it is read at the next step"
    assert not first.complete
    finish(engine)
    assert first.answers == alone(tiny_chat, first)
    assert second.answers == alone(tiny_chat, second)
    assert max(calls.rows) > 3


def test_session_without_a_prompt_is_complete_at_once(tiny_chat: ChatModel) -> None:
    empty = Listed([])
    engine = CausalEngine(tiny_chat)
    engine.add(empty)
    assert engine.step() == [(empty, ())]
    assert not engine.is_busy


# -------------------------------------------------------------------------------------------------------- side by side


@settings(max_examples=12)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=5),
    rows=st.integers(1, 5),
    seed=st.integers(0, 50),
)
def test_prompts_of_many_sessions_are_answered_as_alone(
    tiny_chat: ChatModel, sizes: list[tuple[int, int]], rows: int, seed: int
) -> None:
    sessions = [Listed(prompts_of(seed + at, count), ahead) for at, (count, ahead) in enumerate(sizes)]
    engine = CausalEngine(tiny_chat, rows)
    chance = random.Random(seed)
    waiting = list(sessions)
    while waiting or engine.is_busy:
        if waiting and chance.random() < 0.4:
            engine.add(waiting.pop())
        engine.step()
        assert len(engine._rows) <= rows
    for session in sessions:
        assert session.complete
        assert session.answers == alone(tiny_chat, session)


@settings(max_examples=10)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=5),
    rows=st.integers(1, 4),
    seed=st.integers(0, 50),
)
def test_memories_of_many_sessions_are_their_own(
    remembering: ChatModel, sizes: list[tuple[int, bool]], rows: int, seed: int
) -> None:
    """One that fails, and one that is dropped, take nothing of the others' with them."""
    sessions = [
        Listed(prompts_of(seed + at, count), 1, fails="answer 1" if fails else None)
        for at, (count, fails) in enumerate(sizes)
    ]
    engine = CausalEngine(remembering, rows)
    for session in sessions:
        engine.add(session)
    chance = random.Random(seed)
    dropped = sessions[0]
    while engine.is_busy:
        engine.step()
        if chance.random() < 0.1:
            engine.drop(dropped)
    assert not engine._states
    for session in sessions[1:]:
        if session.fails is None or len(session.prompts) < 2:
            assert session.answers == alone(remembering, session)
        else:
            assert str(session.error) == "answer 1"


# -------------------------------------------------------------------------------------------------- errors and dropping


FAILURES = ["begin", *(f"{event} {number}" for event in ("prompt", "answer") for number in range(4))]


@pytest.mark.parametrize("rows", [1, 2, 4, 6])
@pytest.mark.parametrize("fails", FAILURES)
def test_session_with_an_error_ends_alone(fails: str, rows: int, tiny_chat: ChatModel) -> None:
    bad = Listed(prompts_of(1, 6), ahead=4, fails=fails)
    others = [Listed(prompts_of(seed, 4), ahead=seed % 3 + 1) for seed in (2, 3, 4)]
    engine = CausalEngine(tiny_chat, rows)
    for session in (others[0], bad, *others[1:]):
        engine.add(session)
    news = []
    while engine.is_busy:
        news += engine.step()
    assert str(bad.error) == fails
    assert not bad.complete
    assert (bad, ()) in news, "whoever listens must hear of it"
    for session in others:
        assert session.error is None
        assert session.complete
        assert session.answers == alone(tiny_chat, session)


@settings(max_examples=25)
@given(
    plan=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 5), st.one_of(st.none(), st.sampled_from(FAILURES))),
        min_size=2,
        max_size=5,
    ),
    rows=st.integers(1, 6),
    seed=st.integers(0, 10),
)
def test_sessions_that_fail_anywhere_end_alone(
    tiny_chat: ChatModel, plan: list[tuple[int, int, str | None]], rows: int, seed: int
) -> None:
    sessions = [Listed(six_prompts(seed + at)[:count], ahead, fails) for at, (count, ahead, fails) in enumerate(plan)]
    finish(CausalEngine(tiny_chat, rows), *sessions)
    for at, session in enumerate(sessions):
        answers = six_answers(tiny_chat, seed + at)
        expected = {number: answers[number] for number in range(len(session.prompts))}
        if session.error is None:
            assert session.complete
            assert session.answers == expected
        else:
            assert str(session.error) == session.fails
            assert session.answers.items() <= expected.items()


def six_prompts(seed: int) -> list[Prompt]:
    return prompts_of(seed, 6, 8)


@cache
def six_answers(chat: ChatModel, seed: int) -> dict[int, list[int]]:
    """The answers to the same prompts with nobody else there."""
    return alone(chat, Listed(six_prompts(seed)))


@pytest.mark.parametrize("steps", range(0, 14, 2))
def test_session_that_is_dropped_leaves_the_others_as_they_are(steps: int, tiny_chat: ChatModel) -> None:
    sessions = [Listed(prompts_of(seed, 5), ahead=3) for seed in range(4)]
    engine = CausalEngine(tiny_chat, 5)
    for session in sessions:
        engine.add(session)
    for _ in range(steps):
        engine.step()
    dropped = sessions[1]
    known = dict(dropped.answers)
    engine.drop(dropped)
    finish(engine)
    assert dropped.answers == known, "it gets no more answers"
    assert dropped.error is None
    for session in (sessions[0], *sessions[2:]):
        assert session.answers == alone(tiny_chat, session)


def test_dropping_a_stranger_is_harmless(tiny_chat: ChatModel) -> None:
    engine, session = CausalEngine(tiny_chat), Listed(prompts_of(1, 2))
    engine.add(session)
    engine.step()
    engine.drop(Listed([]))
    finish(engine)
    assert session.complete


def test_encoder_decoder_s_sessions_end_and_join_alone(
    tiny_bart_folder: Path, tmp_path: Path, analyst: Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = Awesome(str(bart_folder("bart-attentive-text", tiny_bart_folder, tmp_path / "bart")), analyst=analyst)
    wanted = Settings()
    expected = []
    some = documents(14, 9, 12)
    for document in some:
        session = open_session(system, document, wanted)
        expected.append(list(system.engine(wanted).run(session)))
    first, failing, dropped, late = (open_session(system, some[at], wanted) for at in (0, 1, 2, 2))
    engine = system.engine(wanted)
    accept = failing.accept

    def fail(number: int, answer: Answer) -> list[Part]:
        if number == 1:
            raise RuntimeError("no")
        return accept(number, answer)

    monkeypatch.setattr(failing, "accept", fail)
    for session in (first, failing, dropped):
        engine.add(session)
    for _ in range(5):
        engine.step()
    engine.drop(dropped)
    engine.add(late)
    assert not first.complete
    finish(engine)
    assert str(failing.error) == "no"
    assert not dropped.complete
    assert first.parts == expected[0]
    assert late.parts == expected[2]
    assert not engine.is_busy


# --------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_never_exceed_their_count(count: int, tiny_chat: ChatModel, calls: Calls) -> None:
    sessions = [Listed(prompts_of(seed, 6), ahead=8) for seed in range(4)]
    finish(CausalEngine(tiny_chat, count), *sessions)
    assert max(calls.rows) == count
    assert all(session.complete for session in sessions)


def of_length(length: int, count: int = 8) -> Listed:
    prompt = Prompt([20 + number for number in range(length)], never, 10)
    return Listed([prompt] * count, ahead=8)


def test_room_limits_rows(tiny_chat: ChatModel, calls: Calls) -> None:
    row = tiny_chat.bytes_per_token() * slots.GRAIN
    for room, rows in ((row, 1), (3 * row, 3), (4 * row - 1, 3), (100 * row, 8), (row // 2, 1)):
        calls.rows.clear()
        session = of_length(slots.GRAIN - 10)
        finish(CausalEngine(tiny_chat, 8, room), session)
        assert session.complete
        assert max(calls.rows) == rows


def test_longer_prompts_leave_room_for_fewer(tiny_chat: ChatModel, calls: Calls) -> None:
    """Also where shorter ones were being written already: as they end, fewer take their place."""
    row = tiny_chat.bytes_per_token() * slots.GRAIN
    short, long = of_length(slots.GRAIN - 10, 4), of_length(4 * slots.GRAIN - 10, 6)
    engine = CausalEngine(tiny_chat, 8, 8 * row)
    engine.add(short)
    engine.step()
    assert calls.rows == [4]
    engine.add(long)
    finish(engine)
    assert short.complete
    assert long.complete
    assert calls.rows[-1] <= 2, "a long row takes four times the room, and there was room for eight short ones"
    assert long.answers == alone(tiny_chat, long)


def test_room_counts_memories_too(remembering: ChatModel, calls: Calls) -> None:
    row = remembering.bytes_per_token() * slots.GRAIN + remembering.bytes_of_memory()
    sessions = [of_length(slots.GRAIN - 10, 2) for _ in range(6)]
    finish(CausalEngine(remembering, 8, 2 * row), *sessions)
    assert max(calls.rows) == 2


def test_has_room_says_whether_another_prompt_would_be_written(tiny_chat: ChatModel) -> None:
    engine = CausalEngine(tiny_chat, 2)
    assert engine.has_room
    engine.add(of_length(30, 2))
    engine.step()
    assert not engine.has_room
    finish(engine)
    assert engine.has_room


# ----------------------------------------------------------------------------------------------------------- when idle


@pytest.mark.usefixtures("nothing_older")
def test_idle_engine_holds_no_cache(remembering: ChatModel) -> None:
    engine = CausalEngine(remembering)
    sessions = [Listed(prompts_of(seed, 3), ahead=1) for seed in range(3)]
    for session in sessions:
        engine.add(session)
    engine.step()
    assert held() == {Slots, MemorySlots}
    finish(engine)
    assert all(session.complete for session in sessions)
    assert held() == set()
    assert not engine._states


@pytest.mark.usefixtures("nothing_older")
def test_engine_whose_last_session_was_dropped_holds_no_cache(remembering: ChatModel) -> None:
    engine, session = CausalEngine(remembering), Listed(prompts_of(1, 3, limit=40), ahead=1)
    engine.add(session)
    engine.step()
    assert held() == {Slots, MemorySlots}
    engine.drop(session)
    assert held() == set()
    assert not engine.is_busy


def held() -> set[type]:
    gc.collect()
    return {type(each) for each in gc.get_objects() if isinstance(each, Slots | MemorySlots)}


# ------------------------------------------------------------------------------------------------------------- in turn


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_sessions_get_prompts_in_turn(rows: int, tiny_chat: ChatModel, calls: Calls) -> None:
    sessions = [Listed(prompts_of(seed, 12), ahead=8) for seed in range(4)]
    engine = CausalEngine(tiny_chat, rows)
    for session in sessions:
        engine.add(session)
    has_begun: list[bool] = []
    while engine.is_busy:
        engine.step()
        if any(len(session.answers) == 12 for session in sessions):
            has_begun.append(all(session.answers for session in sessions))
    assert has_begun
    assert all(has_begun), "a session had its last answer before another had its first"
    order = [tuple(prompt.tokens) for prompt in calls]
    firsts = [order.index(tuple(session.prompts[0].tokens)) for session in sessions]
    assert max(firsts) < min(order.index(tuple(session.prompts[-1].tokens)) for session in sessions)


def test_documents_get_their_first_parts_before_any_gets_its_last(tiny_chat: ChatModel, analyst: Analyst) -> None:
    system = Chat(writer=tiny_chat, analyst=analyst)
    texts = [Document(topical_text(200, seed=seed), path=f"{seed}") for seed in range(3)]
    wanted = Settings(length="500w")
    sessions = [open_session(system, document, wanted) for document in texts]
    engine = system.engine(wanted)
    for session in sessions:
        engine.add(session)
    while not any(session.complete for session in sessions):
        engine.step()
    assert all(session.parts for session in sessions)
    assert all(len(session.plan.order) > 5 for session in sessions)


# -------------------------------------------------------------------------------------------------------- many sessions


def test_session_is_opened_when_there_is_room_for_it(tiny_chat: ChatModel) -> None:
    opened: list[Listed] = []

    def coming() -> Iterator[Listed]:
        for seed in range(9):
            opened.append(Listed(prompts_of(seed, 3), ahead=1))
            yield opened[-1]

    for _ in write_all(CausalEngine(tiny_chat, 3), coming()):
        assert sum(not session.complete for session in opened) <= 4
    assert len(opened) == 9
    assert all(session.complete for session in opened)


def test_without_a_model_sessions_are_complete_when_they_begin(analyst: Analyst) -> None:
    system = Lead(analyst=analyst)
    sessions = [open_session(system, document, Settings(length="3s")) for document in documents()]
    bad = Listed([], fails="begin")
    order: list[Session | Listed] = []
    engine = NoEngine()
    coming: list[Session | Listed] = [*sessions[:2], bad, *sessions[2:]]
    for session, parts in write_all(engine, coming):
        order.append(session)
        assert isinstance(session, Listed) or (session.complete and list(parts) == session.parts)
    assert order == coming
    assert str(bad.error) == "begin"
    assert not engine.is_busy


@pytest.mark.parametrize("make", [lambda chat: CausalEngine(chat), lambda chat: NoEngine()])
def test_run_raises_what_ended_its_session(make: Callable[[ChatModel], Engine], tiny_chat: ChatModel) -> None:
    engine = make(tiny_chat)
    with pytest.raises(RuntimeError, match="begin"):
        list(engine.run(Listed(prompts_of(1, 2), fails="begin")))
    assert not engine.is_busy


def test_run_that_is_left_early_leaves_the_engine_idle(tiny_chat: ChatModel, analyst: Analyst) -> None:
    system = Chat(writer=tiny_chat, analyst=analyst)
    engine = system.engine(Settings())
    parts = engine.run(open_session(system, documents()[2], Settings()))
    next(parts)
    assert engine.is_busy
    parts.close()  # type: ignore[attr-defined]
    assert not engine.is_busy


def test_engine_of_a_fresh_encoder(tiny_encoder: SentenceEncoder, tiny_chat: ChatModel) -> None:
    """The same session in an engine of its own and in one that has worked before."""
    system = Chat(writer=tiny_chat, analyst=Analyst(tiny_encoder, Centrality()))
    engine = system.engine(Settings())
    found = [list(engine.run(open_session(system, documents()[0], Settings(length="90w")))) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0]
