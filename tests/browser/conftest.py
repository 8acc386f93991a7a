"""A real browser, the system's Chromium, before a server with tiny models. A missing browser is an error."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from awesum.analysis.embedding import SentenceEncoder
from awesum.models.causal import ChatModel
from tests.web.conftest import TOKEN, Client, serving, tiny_summarizer

NAMES = ("chromium", "chromium-browser", "google-chrome")
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail("there is no Chromium: install Debian's `chromium`, or name one with CHROMIUM=...", pytrace=False)
    with sync_playwright() as playwright:
        # Without its own sandbox where it runs as root, which it refuses otherwise; the pages are ours.
        sandbox = [] if not hasattr(os, "getuid") or os.getuid() else ["--no-sandbox"]
        opened = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: SentenceEncoder, tiny_chat: ChatModel
) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("served") / "history"
    with serving(tiny_summarizer(tiny_encoder, tiny_chat), folder) as found:
        yield found


@pytest.fixture
def new_page(browser: Any, client: Client) -> Iterator[Callable[..., Any]]:
    """Opens pages at the address that the server printed; anything that a page complains about fails the test."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def make(path: str = f"/#token={TOKEN}", **options: Any) -> Any:
        options.setdefault("viewport", {"width": 1280, "height": 820})
        context = browser.new_context(accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: _is_complaint(message) and complaints.append(message.text))
        page.on("request", lambda request: _is_foreign(request.url, client) and complaints.append(request.url))
        page.set_default_timeout(60_000)
        page.goto(f"http://{client.host}{path}")
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


def _is_complaint(message: Any) -> bool:
    # A refused document is an answer of 422, which the browser reports as well.
    return message.type in ("error", "warning") and "Failed to load resource" not in message.text


def _is_foreign(address: str, client: Client) -> bool:
    return not address.startswith((f"http://{client.host}/", f"blob:http://{client.host}/"))


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    found = new_page()
    found.wait_for_selector("#start:not([hidden])")
    return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the engine takes a while, as those of a real model do."""
    from awesum.engine.engine import Engine

    step = Engine.step

    def slowly(self: Engine) -> Any:
        time.sleep(0.02)
        return step(self)

    monkeypatch.setattr(Engine, "step", slowly)


def shoot(page: Any, name: str) -> None:
    """Keep a picture of a state, to be looked at by eye."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
