"""The page in a real browser: what people see and do, and that it is what the server knows."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.seeds import SEEDS

from tests.conftest import topical_text
from tests.reading.pdf_writer import write_pdf
from tests.web.conftest import Client

from .conftest import shoot

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "build" / "axe.min.js"
DONE = ".entry[data-state=done]"


def give(page: Any, content: bytes, name: str = "report.txt") -> None:
    """Choose a file."""
    page.set_input_files("#files", {"name": name, "mimeType": "application/octet-stream", "buffer": content})


def summarize(page: Any, content: bytes, name: str = "report.txt") -> dict[str, Any]:
    """Choose a file and wait for its summary: the JSON that the server has of it."""
    give(page, content, name)
    page.wait_for_selector(DONE)
    return newest(page)


def newest(page: Any) -> dict[str, Any]:
    return dict(
        page.evaluate(
            """async () => {
                const headers = { Authorization: `Bearer ${sessionStorage.getItem('awesum-token')}` };
                const [first] = await (await fetch('/api/summaries', { headers })).json();
                return (await fetch(`/api/summaries/${first.id}`, { headers })).json();
            }"""
        )
    )


def until(page: Any, expression: str) -> None:
    """Wait until something is true. The page's policy does not allow Playwright's own way, which evaluates text."""
    deadline = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(30)


def write(page: Any) -> None:
    """Ask for the written style, on the start page."""
    page.locator("#start-settings").get_by_text("Written").click()


def sentences(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [sentence for part in summary["summary"]["parts"] for sentence in part["sentences"]]


def lit(page: Any) -> str:
    """The highlighted characters of the source."""
    return str(page.evaluate("[...document.querySelectorAll('mark.active')].map((node) => node.textContent).join('')"))


def report_pdf(pages: int = 6) -> bytes:
    lines = [re.split(r"(?<=\.) ", line) for line in topical_text(12 * pages, paragraph=12).split("\n\n")]
    return write_pdf([[each.strip() for each in page] for page in lines])


# Every format, and the passages


@pytest.mark.parametrize("name", sorted(set(SEEDS) - {"csv", "json"}))
def test_each_format_is_summarized_and_its_passages_are_lit(page: Any, name: str) -> None:
    summary = summarize(page, SEEDS[name](), f"seed.{name}")
    found = sentences(summary)
    assert page.locator(".sentence").count() == len(found)
    if page.locator("#view-text").is_visible():
        page.click("#view-text")
    page.locator(".sentence").first.click()
    assert lit(page) == found[0]["source"]["text"]


IN_SIGHT = """() => {
    const [shown, pane] = ["mark.active", "#source"].map((name) => document.querySelector(name).getBoundingClientRect())
    return pane.top <= shown.top && shown.top <= pane.bottom
}"""


@pytest.mark.parametrize("text", [topical_text(60), "😀 " + topical_text(40).replace("cost", "𝄞 costs")])
def test_every_sentence_lights_exactly_the_characters_it_rests_on(page: Any, client: Client, text: str) -> None:
    summary = summarize(page, text.encode())
    kept = client.get(f"/api/documents/{summary['document']}/text").body.decode()
    for place, sentence in enumerate(sentences(summary)):
        page.locator(".sentence").nth(place).click()
        source = sentence["source"]
        assert lit(page) == kept[source["start"] : source["end"]] == source["text"]
        page.wait_for_function(IN_SIGHT)  # it is scrolled to, smoothly
    shoot(page, "text")


def test_markup_in_document_and_name_stays_text(page: Any) -> None:
    hostile = "The <script>document.title='broken'</script> report cost 5. <img src=x onerror=alert(1)> came. " * 9
    summarize(page, hostile.encode(), "<img src=x onerror=alert(2)>.txt")
    assert page.locator("main img, main script").count() == 0
    assert "<script>" in page.locator("#source").inner_text()
    assert "<img src=x onerror=alert(2)>.txt" in page.locator("#bar-title").inner_text()
    assert "broken" not in page.title()


# PDF


def test_passages_have_boxes_on_the_page_of_the_pdf(page: Any) -> None:
    """Lines stand 14 points apart from 800 downwards, from 50 to the right, on pages of 595 x 842."""
    summary = summarize(page, report_pdf(), "report.pdf")
    found = sentences(summary)
    place = len(found) - 1
    page.locator(".sentence").nth(place).click()
    page.wait_for_selector(".box.active")
    box = page.locator(".box.active").first
    figure = page.locator(".page", has=page.locator(".box.active")).first
    number = int(figure.get_attribute("data-page"))
    assert number in summary["summary"]["parts"][-1]["pages"]
    edges, sheet = box.bounding_box(), figure.bounding_box()
    lines = [line for line in report_lines()[number - 1] if line]
    row = next(at for at, line in enumerate(lines) if line.startswith(found[place]["source"]["text"][:30]))
    baseline = (842 - 800 + 14 * row) / 842
    top, bottom = ((edges["y"] + part * edges["height"] - sheet["y"]) / sheet["height"] for part in (0, 1))
    assert top < baseline < bottom + 0.002
    assert bottom - top < 2 * 14 / 842
    assert (edges["x"] - sheet["x"]) / sheet["width"] == pytest.approx(50 / 595, abs=0.005)
    until(page, "document.querySelector('.page:has(.box.active)').classList.contains('drawn')")
    shoot(page, "pdf")
    assert "page" in page.locator("#where").inner_text()


def report_lines() -> list[list[str]]:
    lines = [re.split(r"(?<=\.) ", line) for line in topical_text(72, paragraph=12).split("\n\n")]
    return [[each.strip() for each in page] for page in lines]


def test_passage_that_cannot_be_located_is_said_to_be_so(page: Any) -> None:
    page.route("**/boxes", lambda route: route.fulfill(json={"spans": [{"located": False, "pages": []}] * 50}))
    summary = summarize(page, report_pdf(), "report.pdf")
    page.locator(".sentence").first.click()
    assert "cannot be located on the page" in page.locator("#where").inner_text()
    assert lit(page) == sentences(summary)[0]["source"]["text"], "the text shows it instead"


def test_hovering_a_passage_shows_the_sentences_that_use_it(page: Any) -> None:
    summary = summarize(page, topical_text(60).encode())
    first = sentences(summary)[0]
    page.locator("mark").first.hover()
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert first["text"] in tip.inner_text()
    assert page.locator(".sentence.linked").count() >= 1
    shoot(page, "hover")
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_coverage_strip_shows_where_the_summary_draws_on(page: Any, client: Client) -> None:
    summary = summarize(page, topical_text(60).encode())
    total = summary["summary"]["document"]["characters"]
    starts = sorted({sentence["source"]["start"] for sentence in sentences(summary)})
    shown = page.evaluate("[...document.querySelectorAll('#strip i')].map((node) => parseFloat(node.style.left))")
    assert sorted(shown) == pytest.approx([100 * start / total for start in starts], abs=0.01)
    assert f"{len(starts)} passages" in page.locator("#strip").get_attribute("aria-label")
    page.locator("#strip i").last.click()
    assert page.locator("mark.active").count() >= 1


# Streaming


def test_parts_arrive_one_by_one_without_moving_what_is_there(page: Any, slow: None) -> None:
    page.evaluate(
        """() => { window.shifts = 0; new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
        }).observe({ type: 'layout-shift', buffered: true }); }"""
    )
    write(page)
    give(page, topical_text(200).encode())
    page.wait_for_selector(".entry .prose p")
    assert page.locator(".entry").first.get_attribute("data-state") == "writing"
    assert re.search(r"Writing \d+ of \d+ parts", page.locator(".status").inner_text())
    first = page.locator(".prose p").first.bounding_box()
    before = page.locator(".prose p").count()
    shoot(page, "writing")
    until(page, f"document.querySelectorAll('.prose p').length > {before}")
    page.wait_for_selector(DONE)
    assert page.locator(".prose p").first.bounding_box() == first
    assert page.evaluate("window.shifts") < 0.02


def test_stop_keeps_what_is_there_and_continue_goes_on(page: Any, slow: None) -> None:
    write(page)
    give(page, topical_text(300).encode())
    page.wait_for_selector(".entry .prose p")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector(".entry[data-state=stopped]")
    kept = page.locator(".prose p").count()
    assert kept >= 1
    assert "Stopped after" in page.locator(".status").inner_text()
    shoot(page, "stopped")
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector(DONE)
    assert page.locator(".prose p").count() > kept


def test_closing_the_page_stops_the_work(new_page: Callable[..., Any], client: Client, slow: None) -> None:
    page = new_page()
    page.wait_for_selector("#start:not([hidden])")
    write(page)
    give(page, topical_text(400).encode())
    page.wait_for_selector(".entry .prose p")
    page.close()
    client.wait("/api/status", lambda status: status["running"] == 0, seconds=2)
    assert client.get("/api/summaries").json[0]["state"] == "stopped"


# Questions, history, export


def test_follow_up_question_is_answered_below(page: Any) -> None:
    summarize(page, topical_text(60).encode())
    page.fill("#query", "What did the budget cost?")
    page.click("#go")
    until(page, "document.querySelectorAll('.entry[data-state=done]').length === 2")
    assert page.locator(".entry h2").all_inner_texts() == ["Summary", "What did the budget cost?"]
    assert newest(page)["query"] == "What did the budget cost?"
    shoot(page, "follow-up")


def test_length_and_style_are_what_was_set(page: Any) -> None:
    page.locator("#start-settings").get_by_text("Percent").click()
    page.locator("#amount").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.locator("#amount-shown").inner_text() == "1%"
    assert page.locator("#strict").is_disabled()
    write(page)
    page.locator("#strict").check()
    summary = summarize(page, topical_text(60).encode())
    assert (summary["length"], summary["style"], summary["strict"]) == ("1%", "abstract", True)


def test_several_files_are_summarized_and_listed(page: Any) -> None:
    files = [
        {"name": f"part {number}.txt", "mimeType": "text/plain", "buffer": topical_text(20, seed=number).encode()}
        for number in range(4)
    ]
    page.set_input_files("#files", [*files, {"name": "empty.txt", "mimeType": "text/plain", "buffer": b""}])
    until(page, "document.querySelectorAll('.upload.done').length === 4")
    assert "empty" in page.locator(".upload.failed").inner_text()
    shoot(page, "several")
    page.locator(".upload.done a").nth(2).click()
    page.wait_for_selector(DONE)
    assert "part 2.txt" in page.locator("#bar-title").inner_text()


def test_pasted_text_is_summarized(page: Any) -> None:
    page.click("#paste")
    page.fill("#paste-text", topical_text(30))
    page.get_by_role("button", name="Summarize text").click()
    page.wait_for_selector(DONE)


def test_dropped_file_is_summarized(page: Any) -> None:
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'dropped.txt', { type: 'text/plain' }));
            for (const name of ['dragenter', 'dragover', 'drop']) {
                const event = new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true });
                document.getElementById('drop').dispatchEvent(event);
            }
        }""",
        topical_text(30),
    )
    page.wait_for_selector(DONE)
    assert "dropped.txt" in page.locator("#bar-title").inner_text()


def test_history_is_there_after_a_reload_searched_and_deleted(page: Any) -> None:
    summary = summarize(page, topical_text(40, seed=3).encode(), "minutes of the zoo.txt")
    page.reload()
    page.wait_for_selector(DONE)
    assert page.locator(".sentence").count() == len(sentences(summary))
    page.click("#home")
    page.fill("#search", "zoo")
    until(page, "document.querySelectorAll('#history-list li').length === 1")
    shoot(page, "history")
    page.get_by_role("button", name="Delete minutes of the zoo.txt").click()
    until(page, "document.querySelectorAll('#history-list li').length === 0")
    assert page.locator("#history-note").inner_text() == "Nothing found."


@pytest.mark.parametrize("format", ["Text", "Markdown", "HTML page", "JSON", "Word (DOCX)"])
def test_export_is_a_file_with_the_summary(page: Any, format: str) -> None:
    summary = summarize(page, topical_text(40).encode())
    page.locator(".menu summary").click()
    with page.expect_download() as waiting:
        page.locator(".menu-items").get_by_role("button", name=format, exact=True).click()
    content = Path(waiting.value.path()).read_bytes()
    first = sentences(summary)[0]["text"]
    if format == "JSON":
        exported = json.loads(content)
        assert exported["parts"] == summary["summary"]["parts"]
    elif format.startswith("Word"):
        import docx

        assert first in "\n".join(paragraph.text for paragraph in docx.Document(io.BytesIO(content)).paragraphs)
    else:
        assert first in content.decode()
    assert waiting.value.suggested_filename.startswith("report - summary.")


def test_copy_has_citations(new_page: Callable[..., Any]) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.wait_for_selector("#start:not([hidden])")
    summary = summarize(page, topical_text(40).encode())
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    for number, sentence in enumerate(sentences(summary), 1):
        assert f"{' '.join(sentence['text'].split())} [{number}]" in copied
        assert f"[{number}] report.txt: “{' '.join(sentence['source']['text'].split())}”" in copied


def test_error_is_shown_where_the_document_was_given(page: Any) -> None:
    give(page, b"\x89PNG\r\n\x1a\n" + bytes(300), "photo.png")
    page.wait_for_selector(".upload.failed")
    assert "photo.png" in page.locator(".upload.failed").inner_text()
    shoot(page, "error")


def test_page_without_its_token_asks_for_it(new_page: Callable[..., Any], client: Client) -> None:
    page = new_page("/")
    page.wait_for_selector("#locked:not([hidden])")
    shoot(page, "locked")
    page.fill("#key", f"http://{client.host}/#token=a-token-for-tests-only")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector("#start:not([hidden])")
    assert "token" not in page.url


# For everybody


def test_keyboard_alone_is_enough(page: Any) -> None:
    page.locator("#paste").focus()
    page.keyboard.press("Enter")
    page.keyboard.insert_text(topical_text(60))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(DONE)
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('sentence')"):
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".sentence").nth(1).get_attribute("aria-pressed") == "true"
    assert lit(page) == sentences(newest(page))[1]["source"]["text"]
    page.keyboard.press("Escape")
    assert lit(page) == ""
    address = page.url
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.wait_for_timeout(300)
    assert page.url == address, "skipping to the content does not leave the document"
    assert page.locator(".sentence").count() > 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_button(new_page: Callable[..., Any], scheme: str) -> None:
    page = new_page(color_scheme=scheme)
    page.wait_for_selector("#start:not([hidden])")
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background)
    assert (sum(map(int, re.findall(r"\d+", before)[:3])) < 150) == (scheme == "dark")
    page.click("#theme")
    if scheme == "light":
        page.click("#theme")
    assert page.evaluate(background) != before
    shoot(page, f"start-{scheme}")


def test_narrow_screen_shows_one_pane_at_a_time(new_page: Callable[..., Any]) -> None:
    page = new_page(viewport={"width": 390, "height": 844}, device_scale_factor=2, has_touch=True, is_mobile=True)
    page.wait_for_selector("#start:not([hidden])")
    summary = summarize(page, report_pdf(), "report.pdf")
    assert page.locator("#source-pane").is_hidden()
    shoot(page, "narrow-summary")
    page.locator(".sentence").first.tap()
    assert page.locator("#summary-pane").is_hidden()
    page.locator(".box.active").first.wait_for()
    pane, box = page.locator("#source").bounding_box(), page.locator(".box.active").first.bounding_box()
    assert pane["y"] - 1 <= box["y"] <= pane["y"] + pane["height"]
    shoot(page, "narrow-source")
    page.click("#view-text")
    assert lit(page) == sentences(summary)[0]["source"]["text"]
    page.click("#tab-summary")
    assert page.locator("#summary-pane").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(new_page: Callable[..., Any], scheme: str) -> None:
    page = new_page(color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector("#start:not([hidden])")
    page.evaluate(AXE.read_text(encoding="utf-8"))

    def check(where: str) -> None:
        found = page.evaluate("axe.run(document)")
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        shown = [(each["id"], [node["html"][:200] for node in each["nodes"]][:5]) for each in serious]
        assert shown == [], where
        assert len(found["passes"]) > 10

    check("start")
    summarize(page, report_pdf(), "report.pdf")
    page.locator(".sentence").first.click()
    page.wait_for_selector(".box.active")
    page.click("#fold")
    page.wait_for_timeout(400)
    check("pages")
    page.click("#view-text")
    page.locator(".menu summary").click()
    check("text")
    page.click("#home")
    page.wait_for_selector("#history-list li")
    page.click("#paste")
    check("history")
    shoot(page, f"axe-{scheme}")


def test_page_of_the_api_describes_every_operation(new_page: Callable[..., Any]) -> None:
    from awesum.web.openapi import description

    page = new_page("/api")
    page.wait_for_selector(".reference h2")
    shown = " ".join(page.locator(".reference h2").all_inner_texts())
    assert all(path in shown for path in description()["paths"])
    shoot(page, "api")
