"""Documents side by side are written as one by one, with every kind of model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from awesum import Settings
from awesum.analysis.analysis import Analyst
from awesum.compose.session import Session
from awesum.engine.causal import CausalEngine
from awesum.engine.engine import write_all
from awesum.models.prompt import Answer
from awesum.summary import Part
from awesum.systems.adapter import Adapter
from awesum.systems.awesome import Awesome
from awesum.systems.chat import Chat
from awesum.systems.system import System, open_session
from tests.engine.sessions import documents, made
from tests.golden.flows import bart_folder

KINDS = ["chat", "writer", "memory", "writer with memory"]
BARTS = ["bart", "bart-attentive-text"]


def recorded(session: Session) -> dict[int, list[int]]:
    """The tokens of its answers, as they come."""
    found: dict[int, list[int]] = {}
    accept = session.accept

    def noting(number: int, answer: Answer) -> list[Part]:
        found[number] = list(answer.tokens)
        return accept(number, answer)

    session.accept = noting  # type: ignore[method-assign]
    return found


def assert_side_by_side_is_one_by_one(system: System, length: str | None, *sizes: int) -> None:
    """Token for token, and everything that becomes of the tokens. `sizes`: the sentences of each document."""
    wanted = Settings(length=length)
    expected = []
    for document in documents(*sizes):
        session = open_session(system, document, wanted)
        tokens = recorded(session)
        list(system.engine(wanted).run(session))
        expected.append((tokens, session.summary().parts, session.summary().notes, session.raw()))
    sessions = [open_session(system, document, wanted) for document in documents(*sizes)]
    all_tokens = [recorded(session) for session in sessions]
    for _ in write_all(system.engine(wanted), sessions):
        pass
    for session, found, (answers, parts, notes, raw) in zip(sessions, all_tokens, expected, strict=True):
        assert session.complete
        assert found == answers
        assert session.summary().parts == parts
        assert session.summary().notes == notes
        assert session.raw() == raw
    written = {tuple(tokens) for answers, _, _, _ in expected for tokens in answers.values()}
    assert len(written) > 5, "answers that are all alike would test nothing"


@pytest.mark.parametrize("length", ["90w", None])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_side_by_side_are_written_as_one_by_one(
    kind: str,
    length: str | None,
    tiny_tokenizer: PreTrainedTokenizerFast,
    analyst: Analyst,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = made(kind, tiny_tokenizer)
    system = (Chat if kind == "chat" else Adapter)(writer=writer, analyst=analyst)
    together: list[int] = []
    step = CausalEngine._write_a_step

    def stepping(self: CausalEngine) -> None:
        together.append(len({id(row.session) for row in self._rows}))
        step(self)

    monkeypatch.setattr(CausalEngine, "_write_a_step", stepping)
    assert_side_by_side_is_one_by_one(system, length, 50, 25, 80, 3, 40)
    assert max(together) > 2, "documents were never written together"


@pytest.mark.parametrize("kind", BARTS)
def test_documents_of_an_encoder_decoder_side_by_side_are_written_as_one_by_one(
    kind: str, tiny_bart_folder: Path, tmp_path: Path, analyst: Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    from awesum.engine import seq2seq

    sizes: list[int] = []
    generate = seq2seq.generate  # type: ignore[attr-defined]

    def noting(model: Any, batch: Sequence[Any], **options: Any) -> Iterator[tuple[int, int, list[int]]]:
        sizes.append(len(batch))
        return generate(model, batch, **options)

    monkeypatch.setattr(seq2seq, "generate", noting)
    system = Awesome(str(bart_folder(kind, tiny_bart_folder, tmp_path / "bart")), analyst=analyst)
    assert_side_by_side_is_one_by_one(system, None, 9, 4, 12, 7)
    assert max(sizes) > 1, "documents were never written together"
