"""The same tests of a session on every engine: a fake one, the built-in, GGUF by llama.cpp, and a server.

What the model writes is its own affair. What becomes of it is not: order, sources, budget, resuming, errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.tiny_models import tiny_llama
from transformers import PreTrainedTokenizerFast

from awesum import Document, Settings
from awesum.analysis.analysis import Analyst
from awesum.compose.plan import Paraphrase
from awesum.engine.engine import Engine, write_all
from awesum.engine.text import Take, TextEngine, TextWriter
from awesum.errors import AwesumError
from awesum.models.causal import ChatModel
from awesum.models.prompt import Prompt
from awesum.settings import Settings as Wanted
from awesum.summary import Part
from awesum.systems.chat import Chat
from awesum.systems.endpoint import Endpoint
from awesum.systems.gguf import GGUF
from awesum.systems.system import System, open_session
from awesum.systems.text_chat import TextChat
from tests.conftest import topical_text
from tests.engine.chat_server import echo, serving
from tests.engine.tiny_gguf import write_gguf

ENGINES = ["fake", "built-in", "gguf", "endpoint"]
LENGTH = Settings(length="120w")


class Fake(TextWriter):
    """Writes what it was to paraphrase, a word at a time."""

    rows = 3

    def write(self, prompt: Prompt, candidate: int, row: int, take: Take) -> bool:
        return not any(take(f"{word} ") for word in echo(prompt.text).split())


class FakeSystem(TextChat):
    name = "fake"
    window = 2048  # type: ignore[assignment]
    parameters = None  # type: ignore[assignment]
    writer = Fake()  # type: ignore[assignment]

    def _weights(self) -> list[str]:
        return ["fake"]


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_llama(tiny_tokenizer), tiny_tokenizer)


@pytest.fixture(scope="module")
def gguf_system(tiny_gguf: Path) -> GGUF:
    """Loaded once; each test gives it its own encoder."""
    return GGUF(str(tiny_gguf))


@pytest.fixture(params=ENGINES)
def system(request: pytest.FixtureRequest, analyst: Analyst) -> Iterator[System]:
    if request.param == "fake":
        yield FakeSystem(analyst=analyst)
    elif request.param == "built-in":
        yield Chat(writer=request.getfixturevalue("tiny_chat"), analyst=analyst)
    elif request.param == "gguf":
        found: GGUF = request.getfixturevalue("gguf_system")
        found.analyst = analyst
        yield found
    else:
        with serving() as server:
            yield Endpoint(f"{server.address}#tiny", analyst=analyst)


def finish(system: System, document: Document, settings: Wanted = LENGTH, done: list[Part] | None = None) -> list[Part]:
    return list(system.engine(settings).run(open_session(system, document, settings, done=done or [])))


def test_parts_come_in_order_each_sentence_with_its_source(system: System, short_document: Document) -> None:
    session = open_session(system, short_document, LENGTH)
    parts = list(system.engine(LENGTH).run(session))
    assert len(parts) > 1
    assert [part.segment for part in parts] == sorted({part.segment for part in parts})
    for part in parts:
        for sentence in part.sentences:
            source = sentence.source
            assert part.start <= source.start < source.end <= part.end
            assert short_document.text[source.start : source.end] == source.text
    summary = session.summary()
    assert summary.complete
    assert summary.parts == parts
    assert summary.settings["verifier"]


def test_verifier_is_told_whether_a_large_model_writes(system: System, short_document: Document) -> None:
    plan = open_session(system, short_document, LENGTH).plan
    assert isinstance(plan, Paraphrase)
    assert plan.by_large is isinstance(system, FakeSystem | Endpoint), "the others are known to be tiny"


def test_summary_keeps_to_its_length(system: System, short_document: Document) -> None:
    """Copies of the selected sentences stand in for whatever a model writes that is not supported."""
    words = sum(len(part.text.split()) for part in finish(system, short_document))
    assert 60 <= words <= 180


def test_resumed_run_ends_as_an_uninterrupted_one(system: System, short_document: Document) -> None:
    whole = finish(system, short_document)
    for kept in range(1, len(whole)):
        assert finish(system, short_document, done=whole[:kept]) == whole


def test_run_that_is_left_early_can_be_resumed(system: System, short_document: Document) -> None:
    running = system.engine(LENGTH).run(open_session(system, short_document, LENGTH))
    first = next(running)
    running.close()  # type: ignore[attr-defined]
    assert finish(system, short_document, done=[first])[0] == first


def test_documents_side_by_side_are_written_as_one_by_one(system: System) -> None:
    documents = [Document(topical_text(size, seed=size), path=str(size)) for size in (40, 3, 70)]
    alone = [finish(system, document) for document in documents]
    sessions = [open_session(system, document, LENGTH) for document in documents]
    for _ in write_all(system.engine(LENGTH), sessions):
        pass
    assert [session.parts for session in sessions] == alone
    assert all(session.complete for session in sessions)


def test_session_with_an_error_ends_alone(system: System, short_document: Document) -> None:
    good, bad = (open_session(system, short_document, LENGTH) for _ in range(2))

    def fail(*args: object) -> list[Part]:
        raise RuntimeError("in the middle")

    bad.accept = fail  # type: ignore[method-assign]
    for _ in write_all(system.engine(LENGTH), [bad, good]):
        pass
    assert str(bad.error) == "in the middle"
    assert good.complete
    assert good.error is None


def test_dropped_session_leaves_the_engine_idle(system: System, short_document: Document) -> None:
    engine: Engine = system.engine(LENGTH)
    session = open_session(system, short_document, LENGTH)
    engine.add(session)
    engine.step()
    engine.drop(session)
    assert not engine.is_busy
    assert finish(system, short_document), "a new session is written all the same"


def test_query_is_asked(system: System, short_document: Document) -> None:
    settings = Settings(length="60w", query="What did the harbour cost?")
    assert finish(system, short_document, settings)


def test_memory_limit_that_is_too_low_is_refused_before_reading(system: System, short_document: Document) -> None:
    with pytest.raises(AwesumError, match=r"--max-memory 10 MB is too little: this model needs at least"):
        open_session(system, short_document, Settings(max_memory="10MB"))
    assert finish(system, short_document, Settings(length="60w", max_memory="20GB"))


def test_llama_cpp_writes_what_the_built_in_engine_writes(
    tiny_gguf: Path, gguf_system: GGUF, tiny_chat: ChatModel
) -> None:
    """The same weights, the same message, the likeliest token each time: as long as no rule of ours interferes."""
    message = "Rewrite the following sentences as one short paragraph: The rocket report crew launch cost 1000 dollars."
    limit = 5  # the built-in engine lets no answer end before its eighth token, nor repeat itself
    prompt = Prompt([], lambda text: False, limit, text=message)
    take = Take(prompt)
    gguf_system.writer.write(prompt, 0, 0, take)
    from awesum.engine.causal import write_answers

    [answer] = write_answers(tiny_chat, [Prompt(tiny_chat.prompt(message), lambda text: False, limit)])
    assert take.text
    assert take.text == answer.text


def test_marks_of_the_chat_template_in_a_document_are_text(gguf_system: GGUF) -> None:
    assert gguf_system.writer.plain("a <|im_end|> b <|im_start|>") == "a < |im_end|> b < |im_start|>"


def test_engine_with_more_sessions_than_rows_answers_all(short_document: Document, analyst: Analyst) -> None:
    system = FakeSystem(analyst=analyst)
    sessions = [open_session(system, short_document, LENGTH) for _ in range(7)]
    engine = TextEngine(Fake())
    for session in sessions:
        engine.add(session)
    while engine.is_busy:
        engine.step()
        assert len(engine._requests) <= Fake.rows
    assert len({tuple(part.text for part in session.parts) for session in sessions}) == 1
