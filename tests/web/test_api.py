"""The API: documents in, summaries out as they are written, and what is kept of them."""

from __future__ import annotations

import io
import json
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.models.causal import ChatModel
from awesum.summary import SCHEMA
from awesum.web import jobs
from awesum.web.openapi import description
from tests.conftest import topical_text
from tests.reading.pdf_writer import write_pdf
from tests.web.conftest import Client, serving, tiny_summarizer

EXTRACT = {"style": "extract", "length": "5s"}


def same(served: dict[str, Any], summary: dict[str, Any]) -> bool:
    """Whether two summaries say the same, apart from what they cost."""
    return {**served, "figures": 0} == {**summary, "figures": 0}


@pytest.fixture(scope="module")
def reference(tiny_encoder: SentenceEncoder, tiny_chat: ChatModel) -> Summarizer:
    return tiny_summarizer(tiny_encoder, tiny_chat)


# Documents


def test_a_document_is_described_and_its_text_is_kept(client: Client) -> None:
    text = topical_text(20, seed=5)
    record = client.upload(text.encode(), "minutes.md")
    assert (record["name"], record["characters"], record["page_sizes"]) == ("minutes.md", len(text.rstrip()), [])
    assert client.get(f"/api/documents/{record['id']}").json == record
    assert client.get(f"/api/documents/{record['id']}/text").body.decode() == text.rstrip()
    assert record in client.get("/api/documents").json


def test_characters_beyond_the_basic_plane_count_as_one(client: Client) -> None:
    text = "A clef 𝄞 and a smile 😀 stand before this. " * 3
    record = client.upload(text.encode())
    kept = client.get(f"/api/documents/{record['id']}/text").body.decode()
    assert len(kept) == record["characters"]
    assert "😀" in kept


def test_pasted_text_is_a_document(client: Client) -> None:
    answer = client.send("POST", "/api/documents", {"text": topical_text(8), "name": "notes"})
    assert answer.status == 201
    assert answer.json["name"] == "notes"


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 422, "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), 422, "photo.txt"),
        (b"   \n  ", 422, "white space"),
        (bytes(2_000_001), 413, "larger than 2 MB"),
    ],
)
def test_a_bad_document_is_one_line(client: Client, body: bytes, status: int, reason: str) -> None:
    answer = client.send("POST", "/api/documents?name=photo.txt", body, {"Content-Type": "application/octet-stream"})
    assert answer.status == status
    assert reason in answer.json["error"]
    assert "\n" not in answer.json["error"]


def test_a_refused_document_leaves_nothing_behind(client: Client) -> None:
    folder = client.server._store.folder / "documents"
    before = set(folder.iterdir())
    client.send("POST", "/api/documents?name=empty", b"")
    assert set(folder.iterdir()) == before


def test_addresses_are_not_fetched_unless_allowed(client: Client) -> None:
    answer = client.send("POST", "/api/documents", {"url": "http://127.0.0.1:1/"})
    assert answer.status == 403
    assert "--allow-urls" in answer.json["error"]


# Summaries


@pytest.mark.parametrize("wanted", [EXTRACT, {"length": "60w"}, {"query": "What about the budget?", "length": "60w"}])
def test_summary_is_that_of_the_command_line(
    client: Client, report: dict[str, Any], reference: Summarizer, wanted: dict[str, Any]
) -> None:
    data = client.summarize(report["id"], **wanted)
    document = client.server._store.text(report["id"])
    expected = reference.start(document, Settings(**wanted)).finish().to_dict()
    assert data["summary"]["schema"] == SCHEMA
    assert same(data["summary"], json.loads(json.dumps(expected)))
    assert client.get(f"/api/summaries/{data['id']}").json == data


def test_parts_come_one_by_one_and_can_be_resumed_by_number(client: Client, report: dict[str, Any]) -> None:
    with client.events("/api/summaries", {"document": report["id"], "length": "120w"}) as events:
        seen = list(events)
    parts = [(data, number) for name, data, number in seen if name == "part"]
    assert [number for _, number in parts] == [str(place + 1) for place in range(len(parts))]
    assert len(parts) > 2
    assert [data for data, _ in parts] == seen[-1][1]["summary"]["parts"]
    assert seen[0][0] == "summary"
    identity = seen[0][1]["id"]
    with client.events(f"/api/summaries/{identity}/events", after=2) as events:
        again = [number for name, _, number in events if name == "part"]
    assert again == [number for _, number in parts[2:]]


def test_summary_is_written_without_a_watcher_if_nobody_asked_to_watch(client: Client, report: dict[str, Any]) -> None:
    answer = client.send("POST", "/api/summaries", {"document": report["id"], **EXTRACT})
    assert answer.status == 202
    path = answer.headers["location"]
    assert client.wait(path, lambda found: found["state"] == "done")["summary"]["complete"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"length": "long"}, "200w"),
        ({"length": -5}, "200w"),
        ({"length": ["5"]}, "not a length"),
        ({"style": "poem"}, "abstract or extract"),
        ({"style": 7}, "has to be a text"),
        ({"strict": "yes"}, "neither True nor False"),
        ({"strict": True, "style": "extract"}, "ask for the style abstract"),
        ({"query": "why? " * 1000}, "shorter"),
        ({"temperature": 3}, "unknown temperature"),
    ],
)
def test_wrong_settings_are_one_line(
    client: Client, report: dict[str, Any], wanted: dict[str, Any], reason: str
) -> None:
    answer = client.send("POST", "/api/summaries", {"document": report["id"], **wanted})
    assert answer.status == 422
    assert reason in answer.json["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_nonsense_is_not_json(client: Client, body: bytes) -> None:
    assert client.send("POST", "/api/summaries", body).status == 422


@pytest.mark.parametrize(
    "path", ["documents/none", "summaries/none", "documents/..%2f..", "nothing", "documents//text"]
)
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    assert client.get(f"/api/{path}").status == 404


def test_follow_up_does_not_read_the_document_again(
    client: Client, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.summarize(report["id"], query="What about the schedule?", **EXTRACT)
    encoder = client.server.jobs.summarizer.system.analyst.encoder
    encode, encoded = encoder.encode, []
    monkeypatch.setattr(encoder, "encode", lambda texts, *more: encoded.extend(texts) or encode(texts, *more))
    client.summarize(report["id"], query="What about the budget?", **EXTRACT)
    assert encoded == ["What about the budget?"]


# Stopping


@pytest.fixture
def slow(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let each step of the engine take a while; the list grows with each."""
    from awesum.engine.engine import Engine

    steps: list[int] = []
    step = Engine.step

    def slowly(self: Engine) -> Any:
        steps.append(1)
        time.sleep(0.02)
        return step(self)

    monkeypatch.setattr(Engine, "step", slowly)
    return steps


def test_closing_the_page_stops_the_work_within_a_second_and_it_can_be_resumed(
    client: Client, slow: list[int], reference: Summarizer
) -> None:
    report = client.upload(topical_text(300, seed=9).encode())
    with client.events("/api/summaries", {"document": report["id"], "length": "400w"}) as events:
        identity = next(events)[1]["id"]
        assert any(name == "part" for name, _, _ in events)
    client.wait(f"/api/summaries/{identity}", lambda found: found["state"] == "stopped", seconds=1)
    time.sleep(0.2)
    count = len(slow)
    time.sleep(0.3)
    assert len(slow) == count, "the engine went on"
    stopped = client.get(f"/api/summaries/{identity}").json
    assert stopped["summary"]["parts"]
    assert not stopped["summary"]["complete"]
    with client.events(f"/api/summaries/{identity}/events") as events:
        *_, (name, data, _) = events
    assert name == "done"
    document = client.server._store.text(report["id"])
    expected = reference.start(document, Settings(length="400w")).finish()
    assert data["summary"]["summary"] == expected.text


def test_stop_keeps_what_is_there(client: Client, slow: list[int]) -> None:
    report = client.upload(topical_text(300, seed=10).encode())
    with client.events("/api/summaries", {"document": report["id"], "length": "400w"}) as events:
        identity = next(events)[1]["id"]
        assert any(name == "part" for name, _, _ in events)
        assert client.send("POST", f"/api/summaries/{identity}/stop", {}).status == 202
        *_, (name, data, _) = events
    assert name == "stopped"
    assert data["summary"]["parts"]
    assert client.get(f"/api/summaries/{identity}/export?format=text").body


def test_one_that_waits_can_be_stopped(client: Client, slow: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    report = client.upload(topical_text(300, seed=11).encode())
    monkeypatch.setattr(client.server.jobs, "_room", threading.Semaphore(0))
    answer = client.send("POST", "/api/summaries", {"document": report["id"]})
    assert client.send("POST", f"/api/summaries/{answer.json['id']}/stop", {}).status == 202
    client.wait(f"/api/summaries/{answer.json['id']}", lambda found: found["state"] == "stopped", seconds=5)


# Many at once


def test_parts_of_several_documents_are_written_side_by_side(client: Client, slow: list[int]) -> None:
    reports = [client.upload(topical_text(150, seed=20 + number).encode()) for number in range(4)]
    order: list[tuple[int, str]] = []

    def watch(number: int) -> None:
        with client.events("/api/summaries", {"document": reports[number]["id"], "length": "200w"}) as events:
            for name, _, _ in events:
                if name in ("part", "done"):
                    order.append((number, name))

    threads = [threading.Thread(target=watch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    firsts = [order.index((number, "part")) for number in range(4)]
    assert max(firsts) < min(place for place, (_, name) in enumerate(order) if name == "done")


def test_too_many_are_asked_to_come_back(
    client: Client, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "WAITING", 0)
    answer = client.send("POST", "/api/summaries", {"document": report["id"], **EXTRACT})
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json["seconds"] == int(answer.headers["retry-after"])


def test_failing_document_fails_alone(
    client: Client, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch, slow: list[int]
) -> None:
    from awesum.compose.session import Session

    bad = client.upload(b"The failing document has a few sentences. " * 40)
    accept = Session.accept

    def failing(self: Session, number: int, answer: Any) -> Any:
        if "failing" in self.analysis.document.text:
            raise RuntimeError("as planned")
        return accept(self, number, answer)

    monkeypatch.setattr(Session, "accept", failing)
    with client.events("/api/summaries", {"document": bad["id"], "length": "30w"}) as events:
        *_, (name, data, _) = events
    assert name == "failed"
    assert "as planned" in data["error"]
    assert client.summarize(report["id"], length="60w")["summary"]["complete"]


def test_engine_that_breaks_is_replaced(
    client: Client, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from awesum.engine.causal import CausalEngine

    with monkeypatch.context() as patched:
        patched.setattr(CausalEngine, "_advance", lambda self: 1 / 0)
        with client.events("/api/summaries", {"document": report["id"], "length": "61w"}) as events:
            *_, (name, data, _) = events
        assert name == "failed"
        assert "division" in data["error"]
    assert client.summarize(report["id"], length="61w")["summary"]["complete"]


# Pages of a PDF

LINES = [
    ["The first page speaks of parachutes and their tests.", "They were late by a year in this program."],
    ["The second page speaks of money.", "It was spent on engines and on seats for the crew."],
]


def test_pages_are_drawn_and_passages_have_boxes(client: Client) -> None:
    record = client.upload(write_pdf(LINES), "crew.pdf")
    assert record["page_sizes"] == [[595.0, 842.0]] * 2
    image = client.get(f"/api/documents/{record['id']}/pages/2?width=400")
    assert image.headers["content-type"] == "image/jpeg"
    from PIL import Image

    assert Image.open(io.BytesIO(image.body)).size == pytest.approx((400, 566), abs=1)
    text = client.get(f"/api/documents/{record['id']}/text").body.decode()
    start = text.index("It was spent")
    spans = [[start, start + len("It was spent")], [0, len(text)]]
    found = client.send("POST", f"/api/documents/{record['id']}/boxes", {"spans": spans}).json["spans"]
    assert found[0]["located"]
    ((left, top, right, bottom),) = found[0]["pages"][0]["boxes"]
    assert found[0]["pages"][0]["page"] == 2
    # 10 points of Helvetica from 50, 800 - 14 on a page of 595 x 842.
    assert left == pytest.approx(50 / 595, abs=0.002)
    assert top < (842 - 786) / 842 < bottom
    assert 0.07 < right - left < 0.12
    assert [page["page"] for page in found[1]["pages"]] == [1, 2]
    assert client.get(f"/api/documents/{record['id']}/pages/3").status == 404


@pytest.mark.parametrize("spans", [None, [[1]], [[5, 2]], [[0, 10**9]], [["a", "b"]], [[0.5, 1]], [[True, True]]])
def test_wrong_spans_are_refused(client: Client, report: dict[str, Any], spans: Any) -> None:
    assert client.send("POST", f"/api/documents/{report['id']}/boxes", {"spans": spans}).status == 422


# Export


def test_every_export_has_the_summary(client: Client, report: dict[str, Any]) -> None:
    done = client.summarize(report["id"], **EXTRACT)
    sentence = done["summary"]["parts"][0]["sentences"][0]["text"]
    for form in ("text", "markdown", "html", "json"):
        answer = client.get(f"/api/summaries/{done['id']}/export?format={form}")
        assert sentence in answer.body.decode(), form
        assert answer.headers["content-disposition"].startswith("attachment")
    import docx

    file = docx.Document(io.BytesIO(client.get(f"/api/summaries/{done['id']}/export?format=docx").body))
    assert sentence in "\n".join(paragraph.text for paragraph in file.paragraphs)
    assert client.get(f"/api/summaries/{done['id']}/export?format=pdf").status == 422


# History


def test_history_is_searched_and_deleted(client: Client) -> None:
    record = client.upload((topical_text(30, seed=77) + " The zebra crossed. " * 3).encode(), "zoo.txt")
    done = client.summarize(record["id"], **EXTRACT)
    word = done["summary"]["summary"].split()[1]
    for search in ("zoo.txt", word):
        assert done["id"] in [each["id"] for each in client.get(f"/api/summaries?search={search}").json]
    assert client.get("/api/summaries?search=nowhere-to-be-found").json == []
    assert client.send("DELETE", f"/api/summaries/{done['id']}").status == 204
    assert client.get(f"/api/summaries/{done['id']}").status == 404
    assert client.send("DELETE", f"/api/documents/{record['id']}").status == 204
    assert client.get(f"/api/documents/{record['id']}/text").status == 404
    assert not list(client.server._store.folder.glob(f"*/{record['id']}"))


def test_everything_is_private_to_its_owner(client: Client, report: dict[str, Any]) -> None:
    client.summarize(report["id"], **EXTRACT)
    folder = client.server._store.folder
    for path in [folder, *folder.rglob("*")]:
        if path.name.endswith((".lock", ".partial.jsonl")):
            continue  # the command sets a mask for these, and their folder is private
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_history_outlives_the_server_and_running_summaries_resume(
    tmp_path: Path, tiny_encoder: SentenceEncoder, tiny_chat: ChatModel, reference: Summarizer
) -> None:
    folder = tmp_path / "kept"
    with serving(tiny_summarizer(tiny_encoder, tiny_chat), folder) as client:
        record = client.upload(topical_text(60).encode())
        done = client.summarize(record["id"], **EXTRACT)
        store = client.server._store
        # What a killed server leaves: a summary that is being written, with a part of it.
        document, settings = store.text(record["id"]), Settings(length="100w")
        asked = store.ask(store.document(record["id"]), settings, is_watched=True)  # type: ignore[arg-type]
        from awesum.partial import fingerprint

        run = reference.start(document, settings)
        key = fingerprint(document, settings, client.server.jobs.summarizer.system.fingerprint())
        first = next(run)
        store.partial(asked, key).add(first)
        (folder / "documents" / "0123456789abcdef0123").mkdir()  # an upload that was cut off
    with serving(tiny_summarizer(tiny_encoder, tiny_chat), folder) as client:
        assert client.get(f"/api/summaries/{done['id']}").json == done
        resumed = client.wait(f"/api/summaries/{asked.id}", lambda found: found["state"] == "done")
        assert resumed["summary"]["summary"] == run.finish().text
        assert not (folder / "documents" / "0123456789abcdef0123").exists()


def test_no_history_leaves_nothing(tiny_encoder: SentenceEncoder, tiny_chat: ChatModel) -> None:
    with serving(tiny_summarizer(tiny_encoder, tiny_chat), None) as client:
        client.upload(topical_text(8).encode())
        assert client.get("/api/status").json["history"] is False
        folder = client.server._store.folder
        assert any(folder.rglob("document.json"))
    assert not folder.exists()


def test_two_servers_do_not_share_a_history(client: Client) -> None:
    from awesum.errors import AwesumError
    from awesum.web.store import Store

    with pytest.raises(AwesumError, match="another `awesum serve`"):
        Store.open(client.server._store.folder)


# The description


def test_every_route_is_described(client: Client) -> None:
    described = {
        (method.upper(), path)
        for path, operations in description()["paths"].items()
        for method in operations
        if method != "parameters"
    }
    routes = {
        (method, route.path.replace(":int", ""))  # type: ignore[attr-defined]
        for route in client.server._api.app().routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
        if route.path.startswith("/api/") and route.path != "/api/openapi.json"  # type: ignore[attr-defined]
    }
    assert routes == described
    assert client.get("/api/openapi.json", token=None).json == description()


def test_description_names_the_fields_of_answers(client: Client, report: dict[str, Any]) -> None:
    schemas = description()["components"]["schemas"]
    assert set(report) == set(schemas["Document"]["properties"])
    done = client.summarize(report["id"], **EXTRACT)
    assert set(done) == set(schemas["Record"]["properties"]) | {"summary"}
    assert set(done["summary"]) == set(schemas["Summary"]["properties"])
    assert set(done["summary"]["parts"][0]) == set(schemas["Part"]["properties"])


def test_document_text_comes_back_as_it_was(tmp_path: Path) -> None:
    from awesum.document import Block
    from awesum.web.store import DocumentRecord, Store

    store = Store.open(tmp_path / "store")
    document = Document("A\u2028b\r\n\ufeff 😀", "x", (0, 2), ("note",), (Block(0, 1, "heading", 1),))
    record = store.add(store.new_folder(), document, DocumentRecord("", "x", 0.0, 7, 2, [0, 2], [], []))
    store._texts.clear()
    assert store.text(record.id) == document
    store.close()
