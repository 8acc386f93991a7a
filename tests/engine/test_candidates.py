"""Several candidates of one prompt: the first is what would have been written alone, the others are always the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from awesum.engine import rules
from awesum.engine.causal import CausalEngine, write_answers
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer, Prompt
from tests.conftest import Calls
from tests.engine.sessions import never, prompts_alike


def answers(chat: ChatModel, prompts: list[Prompt], rows: int = 8) -> list[Answer]:
    return [*write_answers(chat, prompts, rows)]


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_first_candidate_is_the_likeliest_and_the_others_do_not_depend_on_the_batch(
    rows: int, tiny_chat: ChatModel
) -> None:
    prompts = prompts_alike(tiny_chat)
    alone = answers(tiny_chat, prompts)
    several = answers(tiny_chat, [replace(prompt, candidates=3) for prompt in prompts], rows)
    assert [answer.text for answer in several] == [answer.text for answer in alone]
    assert [answer.tokens for answer in several] == [answer.tokens for answer in alone]
    assert all(len(answer.others) == 2 for answer in several)
    again = [answers(tiny_chat, [replace(prompt, candidates=3)])[0].others for prompt in prompts]
    assert [answer.others for answer in several] == again


def test_candidates_differ(tiny_chat: ChatModel) -> None:
    found = answers(tiny_chat, [replace(prompt, candidates=4) for prompt in prompts_alike(tiny_chat)])
    assert sum(len({*answer.candidates}) for answer in found) > 2 * len(found)
    assert all(answer.candidates == [answer.text, *answer.others] for answer in found)


def test_prompt_is_read_once_for_all_its_candidates(tiny_chat: ChatModel, calls: Calls) -> None:
    prompts = prompts_alike(tiny_chat)
    answers(tiny_chat, [replace(prompt, candidates=5) for prompt in prompts], rows=3)
    assert len(calls) == len(prompts)
    assert max(calls.rows) == 3


def test_at_no_temperature_all_candidates_are_the_likeliest(
    tiny_chat: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow reference of drawing: what is left when chance is taken out of it."""
    monkeypatch.setattr(rules, "DRAWN_FROM", 1)
    for answer in answers(tiny_chat, [replace(prompt, candidates=3) for prompt in prompts_alike(tiny_chat)]):
        assert {*answer.candidates} == {answer.text}


def test_candidates_keep_to_the_rules(tiny_chat: ChatModel) -> None:
    prompts = [replace(prompt, candidates=3, limit=9) for prompt in prompts_alike(tiny_chat)]
    for answer in answers(tiny_chat, prompts):
        for text in answer.candidates:
            assert len(text.split()) <= 9


def test_session_that_leaves_takes_its_candidates_with_it(tiny_chat: ChatModel) -> None:
    engine = CausalEngine(tiny_chat, rows=2)

    class Session:
        complete, error = False, None

        def __init__(self, prompts: list[Prompt]) -> None:
            self.prompts, self.answers = prompts, []

        def begin(self) -> list:
            return []

        def next_prompt(self) -> Prompt | None:
            return self.prompts.pop(0) if self.prompts else None

        def accept(self, number: int, answer: Answer) -> list:
            self.answers.append(answer)
            self.complete = not self.prompts
            return []

    one, *_, other = prompts_alike(tiny_chat, never, limit=30)
    leaving, staying = Session([replace(one, candidates=5)]), Session([replace(other, candidates=3)])
    engine.add(leaving)
    engine.step()
    engine.add(staying)
    engine.step()
    engine.drop(leaving)
    while engine.is_busy:
        engine.step()
    assert not leaving.answers
    assert staying.answers == answers(tiny_chat, [replace(other, candidates=3)])
