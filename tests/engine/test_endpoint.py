"""A server as a writer: what it asks, what it does about trouble, and what the user is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from awesum import Document, Settings
from awesum.analysis.analysis import Analyst
from awesum.cli import main
from awesum.engine import endpoint
from awesum.engine.endpoint import Endpoint as Server
from awesum.engine.text import Take
from awesum.errors import AwesumError
from awesum.models.address import Address
from awesum.models.prompt import Prompt
from awesum.partial import PartialSummary
from awesum.summarizer import Summarizer
from awesum.systems.endpoint import Endpoint
from awesum.systems.system import open_session
from tests.engine.chat_server import ChatServer, serving

MESSAGE = (
    "Text.\n\nRewrite the following sentences as one short, clear paragraph: The capsule is late. It costs 5 dollars."
)
ECHO = "The capsule is late. It costs 5 dollars."
LENGTH = Settings(length="120w")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.01, 0.01))
    monkeypatch.delenv("AWESUM_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("AWESUM_TIMEOUT", "5")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as found:
        yield found


def connect(server: ChatServer, model: str = "tiny") -> Server:
    return Server(Address.parse(f"{server.address}#{model}"))


def ask(writer: Server, enough: int = 10**6, candidate: int = 0, limit: int = 50) -> tuple[str, bool]:
    take = Take(Prompt([], lambda text: len(text) >= enough, limit, text=MESSAGE))
    ended = writer.write(take.prompt, candidate, 0, take)
    return take.text, ended


def test_answer_is_streamed_and_ended_by_the_model(server: ChatServer) -> None:
    assert ask(connect(server)) == (ECHO, True)
    body = server.requests[0]
    assert body["model"] == "tiny"
    assert body["stream"] is True
    assert body["temperature"] == 0
    assert body["max_tokens"] == 50


def test_answer_is_ended_when_it_is_enough(server: ChatServer) -> None:
    text, ended = ask(connect(server), enough=10)
    assert text.startswith("The capsule is late. It")
    assert len(text) < len(ECHO)
    assert not ended


def test_other_candidates_are_drawn_with_a_seed_of_their_own(server: ChatServer) -> None:
    writer = connect(server)
    for candidate in (0, 1, 2, 1):
        ask(writer, candidate=candidate)
    seeds = [body["seed"] for body in server.requests]
    assert len(set(seeds)) == 3
    assert seeds[1] == seeds[3]
    assert server.requests[1]["temperature"] > 0


def test_marks_of_chat_templates_are_broken(server: ChatServer) -> None:
    take = Take(Prompt([], lambda text: False, 9, text=f"<|im_end|><start_of_turn>[INST]{MESSAGE}"))
    connect(server).write(take.prompt, 0, 0, take)
    assert server.requests[0]["messages"][-1]["content"].startswith("< |im_end|>< start_of_turn>[ INST]")


# ------------------------------------------------------------------------------------------------------------- trouble


@pytest.mark.parametrize("trouble", ["500", "503", "busy", "hang up", "half", "strict", "thinks"])
def test_temporary_trouble_is_overcome(trouble: str, server: ChatServer) -> None:
    writer = connect(server)
    server.trouble = [trouble]
    assert ask(writer) == (ECHO, True)
    assert len(server.requests) == 2


def test_server_that_takes_no_extras_is_asked_without_them_from_then_on(server: ChatServer) -> None:
    writer = connect(server)
    server.always = "strict"
    assert ask(writer) == ask(writer) == (ECHO, True)
    assert len(server.requests) == 3


def test_model_that_thinks_gets_room_for_it_from_then_on(server: ChatServer) -> None:
    writer = connect(server)
    server.always = "thinks"
    assert ask(writer) == ask(writer) == (ECHO, True)
    assert len(server.requests) == 3


def test_thoughts_are_no_part_of_the_answer(server: ChatServer) -> None:
    server.always = "aloud"
    assert ask(connect(server)) == (ECHO, True)


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("500", "cannot be reached, or answers with errors .*500: trouble.*see whether the server is running"),
        ("hang up", "cannot be reached, or answers with errors"),
        ("half", "broke off in the middle"),
        ("busy", "is asked too much .*slow down.*resume"),
        ("context", r"context window of tiny .* is too small for a segment .*900 tokens"),
        ("nonsense", "answers with nonsense .*nonsense.*check that"),
        ("page", "something other than a stream of events.*Welcome"),
        ("elsewhere", r"sends requests on to 'http://192\.0\.2\.1.*not followed"),
        ("401", "wants a key .*set AWESUM_API_KEY"),
        ("418", "refuses the request .*418: trouble"),
    ],
)
def test_trouble_that_stays_is_one_clear_line(trouble: str, expected: str, server: ChatServer) -> None:
    writer = connect(server)
    server.always = trouble
    with pytest.raises(AwesumError, match=expected) as caught:
        ask(writer)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("trouble", ["never", "pings"])
def test_server_that_never_answers_is_given_up(
    trouble: str, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWESUM_TIMEOUT", "0.3")
    writer = connect(server)
    server.always = trouble
    started = time.monotonic()
    with pytest.raises(AwesumError, match=r"does not answer \(no word for 0.3 s\).*AWESUM_TIMEOUT=SECONDS"):
        ask(writer)
    assert time.monotonic() - started < 10


def test_server_that_is_gone_is_asked_once_more_for_each_prompt(server: ChatServer) -> None:
    writer = connect(server)
    server.always = "503"
    for _ in range(3):
        with pytest.raises(AwesumError):
            ask(writer)
    assert len(server.requests) == 3 + 1 + 1
    server.always = ""
    assert ask(writer) == (ECHO, True)


def test_nobody_there() -> None:
    with pytest.raises(AwesumError, match=r"http://127\.0\.0\.1:9/v1 cannot be reached"):
        Server(Address.parse("http://127.0.0.1:9/v1#tiny"))


# -------------------------------------------------------------------------------------------------------------- models


def test_model_that_the_server_does_not_have(server: ChatServer) -> None:
    server.models = [{"id": "qwen3:4b"}, {"id": "gemma3:4b"}]
    with pytest.raises(AwesumError, match=r"has no model 'qwen3:8b': did you mean qwen3:4b\? It has qwen3:4b, gemma3"):
        connect(server, "qwen3:8b")
    with pytest.raises(AwesumError, match=r"has qwen3:4b, gemma3:4b: name the one you mean, as http.*#qwen3:4b"):
        connect(server, "")


def test_only_model_need_not_be_named(server: ChatServer) -> None:
    assert connect(server, "").name == "tiny"


def test_server_that_lists_nothing_is_believed(server: ChatServer) -> None:
    server.models = None
    assert ask(connect(server)) == (ECHO, True)
    assert server.requests[0]["model"] == "tiny"


def test_address_without_version(server: ChatServer) -> None:
    with pytest.raises(AwesumError, match=r"is not an OpenAI-compatible server .*did you mean http.*/v1\?"):
        Server(Address.parse(f"{server.address.removesuffix('/v1')}#tiny"))


@pytest.mark.parametrize("models", [b"<html>", b"[[[", b"null", b'{"data": 7}'])
def test_list_of_models_that_is_nonsense(models: bytes, server: ChatServer) -> None:
    server.models = models
    with pytest.raises(AwesumError, match=r"nonsense|lists no model"):
        connect(server, "")


def test_window_is_what_the_server_states(server: ChatServer) -> None:
    server.models = [{"id": "tiny", "max_model_len": 777}]
    assert connect(server).window == 777
    server.models = [{"id": "tiny", "meta": {"n_ctx": 512}}]
    assert connect(server).window == 512


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen3:4b", 4_000_000_000),
        ("Qwen2.5-1.5B-Instruct-1M", 1_500_000_000),
        ("smollm2:135m", 135_000_000),
        ("qwen3-30b-a3b", 30_000_000_000),
        ("model-4bit", None),
        ("mixtral-8x7b", None),
        ("gpt-5", None),
    ],
)
def test_parameters_are_what_the_name_says(name: str, parameters: int | None, server: ChatServer) -> None:
    server.models = [{"id": name}]
    assert connect(server, name).parameters == parameters
    server.models = [{"id": name, "meta": {"n_params": 777}}]
    assert connect(server, name).parameters == 777, "llama.cpp's server knows"


# ---------------------------------------------------------------------------------------------------- keys and privacy


def test_key_comes_from_the_environment_alone(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of another")
    connect(server)
    assert "Authorization" not in server.headers[-1], "a key for one host is not sent to another"
    monkeypatch.setenv("AWESUM_API_KEY", "secret")
    connect(server)
    assert server.headers[-1]["Authorization"] == "Bearer secret"
    assert Address.parse("https://api.openai.com/v1#x").key == "secret"
    monkeypatch.delenv("AWESUM_API_KEY")
    assert Address.parse("https://api.openai.com/v1#x").key == "of another"
    for text in ("http://me:secret@127.0.0.1/v1#x", "http://127.0.0.1/v1?key=secret#x"):
        with pytest.raises(AwesumError, match="AWESUM_API_KEY") as caught:
            Address.parse(text)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8/v1", "http://127.9.9.9"]
)
def test_this_machine(text: str) -> None:
    assert Address.parse(text).warning() is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("https://api.example.com/v1#x", "it is sent to api.example.com"),
        ("http://192.0.2.7:8000/v1", "it is sent to 192.0.2.7, unencrypted"),
        ("http://localhost.example.com/v1", "it is sent to localhost.example.com, unencrypted"),
        ("http://[2001:db8::1]/v1", "it is sent to 2001:db8::1, unencrypted"),
    ],
)
def test_another_machine_is_named(text: str, line: str) -> None:
    assert str(Address.parse(text).warning()).endswith(line)


@pytest.mark.parametrize("text", ["http://", "http://[::1", "http://host:port/v1", "https:///v1"])
def test_address_that_is_none(text: str) -> None:
    with pytest.raises(AwesumError, match="is not an address"):
        Address.parse(text)


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "inf"])
def test_timeout_that_is_none(seconds: str, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWESUM_TIMEOUT", seconds)
    with pytest.raises(AwesumError, match=f"AWESUM_TIMEOUT={seconds} is not a number of seconds"):
        connect(server)


def test_one_line_says_that_text_leaves_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "__init__", _refusing)
    (tmp_path / "a.txt").write_text("The capsule is late. " * 400)
    assert main(["summarize", str(tmp_path / "a.txt"), "--model", "https://example.com/v1#x", "--quiet"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == "awesum: the text of your documents will leave this machine: it is sent to example.com"
    assert second == "awesum: error: nothing was sent"


def _refusing(self: Server, address: Address) -> None:
    raise AwesumError("nothing was sent")


# ----------------------------------------------------------------------------------------------------------- documents


def test_prompts_are_on_their_way_together(server: ChatServer, long_document: Document, analyst: Analyst) -> None:
    server.pause = 0.05
    Summarizer(system=Endpoint(f"{server.address}#tiny", analyst=analyst)).summarize(long_document, length="600w")
    assert server.most_together == endpoint.ROWS


def test_server_that_dies_in_the_middle_loses_nothing(
    server: ChatServer, short_document: Document, analyst: Analyst, tmp_path: Path
) -> None:
    system = Endpoint(f"{server.address}#tiny", analyst=analyst)
    whole = list(system.engine(LENGTH).run(open_session(system, short_document, LENGTH)))
    partial = PartialSummary(tmp_path / "out.txt", "key")
    server.trouble = ["", ""]  # both candidates of the first part
    server.always = "503"
    session = open_session(system, short_document, LENGTH)
    parts = map(partial.add, system.engine(LENGTH).run(session))
    with pytest.raises(AwesumError, match="resumes"):
        list(parts)
    kept = partial.parts()
    assert kept == whole[:1]
    server.always = ""
    resumed = open_session(system, short_document, LENGTH, done=kept)
    before = len(server.requests)
    assert list(system.engine(LENGTH).run(resumed)) == whole
    assert len(server.requests) - before == 2 * (len(whole) - 1), "the kept part was written again"


def test_window_too_small_for_a_segment_is_one_clear_line(
    server: ChatServer, short_document: Document, analyst: Analyst
) -> None:
    server.models = [{"id": "tiny", "max_model_len": 120}]
    summarizer = Summarizer(system=Endpoint(f"{server.address}#tiny", analyst=analyst))
    with pytest.raises(
        AwesumError, match=r"short\.txt: a segment of \d+ tokens leaves no room .* 120 tokens: take a model with"
    ):
        summarizer.summarize(short_document, length=100)
    with pytest.raises(AwesumError, match=r"tokens and the query leave no room .*: shorten the query, or take a model"):
        summarizer.summarize(short_document, length=100, query="What does it cost?")


@pytest.mark.slow
def test_real_llama_cpp_server_with_smollm2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of llama.cpp in a process of its own, on loopback, with the embedded weights."""
    monkeypatch.setenv("AWESUM_TIMEOUT", "600")  # other tests may be using both cores
    from awesum.weights import SMOLLM2_WHEEL

    program = f"""
import sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = {str(SMOLLM2_WHEEL.path())!r}
parameters.n_ctx, parameters.n_parallel, parameters.verbosity, parameters.warmup = 4096, 2, -1, False
parameters.endpoint_props = True
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
    text = Path("samples/commercial-crew.txt").read_text(encoding="utf-8")[:6000]
    document = tmp_path / "report.txt"
    document.write_text(text, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        model = Server(Address.parse(f"{address}/v1"))
        assert model.window == 2048
        assert model.rows == 2
        out = tmp_path / "summary.json"
        code = main(
            ["summarize", str(document), "--model", f"{address}/v1", "--length", "60w", "--json", "-o", str(out)]
        )
        process.kill()
    assert code == 0
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["settings"]["model_name"]
    assert result["parts"]
    for part in result["parts"]:
        for sentence in part["sentences"]:
            source = sentence["source"]
            assert text[source["start"] : source["end"]] == source["text"]
