"""The page is parsed: as HTML for its structure, and each plot as XML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import lxml.html
import numpy as np
import pytest

from awesum.errors import AwesumError
from awesum.evaluation import plot, report
from awesum.evaluation.result import Evaluation, System
from awesum.metrics import coverage
from awesum.metrics.metric import Sample, Score

NAN, INF = float("nan"), float("inf")
R1 = Score("rouge-1", "R-1", "higher", 0, 1, 100, 2, "F1, with <stemmer>")
REPEATED = Score("repeated", "Repeated", "lower", 0, 1, 100, 1, "4-grams")
WORDS = Score("words", "Words", "neither", decimals=0)
EVIL = "<script>alert(\"1\")</script> & 'q'"


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for attribution, so that nothing here depends on how sources are found."""
    monkeypatch.setattr(
        coverage, "attributions", lambda prediction, document: [("one", 0.0), (prediction, 0.5), ("none", None)]
    )


def evaluation(
    scores: dict[str, dict[str, list[float]]],
    columns: tuple[Score, ...] = (R1,),
    words: list[int] | None = None,
    notes: tuple[str, ...] = (),
    ids: list[str] | None = None,
) -> Evaluation:
    count = len(next(iter(next(iter(scores.values())).values())))
    systems = tuple(
        System(name, {k: np.array(v, dtype=float) for k, v in of.items()}, np.full(count, 7), empty=0)
        for name, of in scores.items()
    )
    lengths = np.array(words if words is not None else range(100, 100 + count))
    return Evaluation(columns, systems, tuple(ids or [f"doc{i}" for i in range(count)]), lengths, 200, notes)


class Samples:
    """Summaries that name their document and system; records which documents were requested."""

    def __init__(self, systems: int, make: Callable[[int, int], Sample] | None = None) -> None:
        self.systems, self.asked = systems, list[int]()
        self.make = make or (lambda i, s: Sample(f"summary {i} by {s}", (f"reference {i}",), f"document {i}"))

    def __call__(self, index: int) -> list[Sample]:
        self.asked.append(index)
        return [self.make(index, system) for system in range(self.systems)]


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., lxml.html.HtmlElement]:
    def written(of: Evaluation, samples: Samples | None = None) -> lxml.html.HtmlElement:
        path = report.write(of, samples or Samples(len(of.systems)), tmp_path / "some" / "folder")
        assert path == tmp_path / "some" / "folder" / "index.html"
        assert [p.name for p in path.parent.iterdir()] == ["index.html"]
        text = path.read_text(encoding="utf-8")
        balanced(text)
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(svg)
            assert not re.search(r"\b(nan|inf)\b", re.sub(r"<title>.*?</title>|aria-label=\"[^\"]*\"", "", svg))
        parsed = lxml.html.fromstring(text)
        self_contained(parsed)
        return parsed

    return written


def self_contained(page: lxml.html.HtmlElement) -> None:
    """Check that nothing is loaded or run, and that links stay within the page."""
    loading = {"script", "link", "base", "iframe", "img", "image", "object", "embed", "use", "video", "audio", "form"}
    for element in page.iter():
        assert element.tag not in loading
        assert not [name for name in element.attrib if name.startswith("on") or name in ("src", "style", "xlink:href")]
        assert element.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|://", page.xpath("//style")[0].text)


def balanced(text: str) -> None:
    """Check that every element is closed, in the right order."""

    class Check(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

    check = Check()
    check.feed(text)
    check.close()
    assert not check.open


def cells(page: lxml.html.HtmlElement) -> list[list[str]]:
    """The table, each cell as its text with lines joined by spaces."""
    rows = page.xpath("//table[@id='scores']/tbody/tr")
    return [[" ".join(cell.itertext()) for cell in row.xpath("td")] for row in rows]


def bold(page: lxml.html.HtmlElement) -> list[list[bool]]:
    rows = page.xpath("//table[@id='scores']/tbody/tr")
    return [[bool(cell.xpath(".//*[@class='best']")) for cell in row.xpath("td")] for row in rows]


def groups(page: lxml.html.HtmlElement) -> dict[str, list[str]]:
    """The documents under each heading, in order, whether shown there or linked."""
    found = {}
    for section in page.xpath("//section"):
        title = section.xpath("h3")[0].text.strip()
        found[title] = [element.text for element in section.xpath("article/h4/bdi | p[@class='again']/a/bdi")]
    return found


THREE = {
    "lead": {"rouge-1": [0.10, 0.20, 0.30, 0.40], "repeated": [0.2] * 4, "words": [50.0] * 4},
    "best": {"rouge-1": [0.50, 0.55, 0.60, 0.65], "repeated": [0.1] * 4, "words": [90.0] * 4},
    "rest": {"rouge-1": [0.11, 0.22, 0.33, 0.44], "repeated": [0.1] * 4, "words": [10.0] * 4},
}


def test_table(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation(THREE, (R1, REPEATED, WORDS), notes=("2 were <cut>.",)))
    assert (
        got.xpath("//h1")[0].text_content() == got.xpath("//title")[0].text == "Evaluation of 3 systems on 4 documents"
    )
    assert [li.text_content() for li in got.xpath("//aside//li")] == ["2 were <cut>."]
    heads = [th.text_content() for th in got.xpath("//table[@id='scores']/thead//th[@scope='col']")]
    assert heads == ["System", "R-1\xa0↑0 to 100", "Repeated\xa0↓0 to 100", "Wordsat least 0"]
    rows = got.xpath("//table[@id='scores']//th[@scope='row']")
    assert [row.xpath("bdi")[0].text for row in rows] == ["lead", "best", "rest"]
    assert ["compared with" in row.text_content() for row in rows] == [True, False, False]
    assert [[cell.split()[0] for cell in row] for row in cells(got)] == [
        ["25.00", "20.0", "50"],
        ["57.50", "10.0", "90"],
        ["27.50", "10.0", "10"],
    ]
    # None in a column without a better direction; both of a tie; the lower one where lower is better.
    assert bold(got) == [[False, False, False], [True, True, False], [False, True, False]]
    assert [["p = " in cell or "p < " in cell for cell in row] for row in cells(got)] == [
        [False] * 3,
        [True] * 3,
        [True] * 3,
    ]
    assert "[20.0, 20.0]" in cells(got)[0][1]
    settings = dict(
        zip(*[[e.text_content() for e in got.xpath(f"//dl[@id='settings']/{t}")] for t in ("dt", "dd")], strict=True)
    )
    assert settings == {
        "R-1 rouge-1": "F1, with <stemmer>",
        "Repeated repeated": "4-grams",
        "Words words": "no settings",
    }
    assert "200 trials" in got.text_content()
    assert "Left out" not in got.text_content()


def test_p_values_are_those_of_the_evaluation(page: Callable[..., lxml.html.HtmlElement]) -> None:
    rng = np.random.default_rng(0)
    one, far = rng.random(40) * 0.1, rng.random(40) * 0.1 + 0.5
    of = evaluation(
        {"a": {"rouge-1": one.tolist()}, "b": {"rouge-1": far.tolist()}, "c": {"rouge-1": one[::-1].tolist()}}
    )
    of = Evaluation(of.columns, of.systems, of.ids, of.document_words, trials=5000)
    _, b, c = cells(page(of))
    assert "p <0.0004" in b[0]  # the minimum, 1 of 5,001, doubled
    assert f"p = {of.table['c']['rouge-1'].p:.3f}" in c[0]


def test_missing_or_infinite_score_is_a_dash(page: Callable[..., lxml.html.HtmlElement]) -> None:
    scores = {
        "a": {"rouge-1": [0.1, NAN, 0.3, 0.2], "repeated": [NAN] * 4, "words": [INF, 1.0, 2.0, 3.0]},
        "b": {"rouge-1": [0.2, 0.3, 0.4, NAN], "repeated": [0.1] * 4, "words": [1.0, 1.0, 2.0, -INF]},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = page(evaluation(scores, (R1, REPEATED, WORDS)))
    a, b = cells(got)
    assert a[1] == "– 4 left out"
    assert a[2] == b[2] == "–"
    assert "1 left out" in a[0]
    assert "p = " in b[0]
    assert "p = " not in b[1]  # there is nothing to compare with
    assert bold(got) == [[False, False, False], [True, True, False]]
    assert "Left out: documents" in got.text_content()
    shown = got.xpath("//article[@id='document-0']//td")
    assert [cell.text for cell in shown] == ["10.00", "–", "–", "20.00", "10.0", "1"]
    assert len(got.xpath("//svg[starts-with(@class, 'plot')]")) == 3
    points = [
        [len(g) for g in svg.xpath("g[contains(@class, 'points')]")]
        for svg in got.xpath("//svg[starts-with(@class, 'plot')]")
    ]
    assert points == [[3, 3], [0, 4], [3, 3]]


def test_everything_is_escaped(page: Callable[..., lxml.html.HtmlElement]) -> None:
    arabic = "قررت اللجنة\n\nتأجيل"
    score = Score("x<y", "X<y>&", "higher", settings=EVIL)
    of = evaluation(
        {EVIL: {"x<y": [1.0, 2.0]}, "b\x00\x0c": {"x<y": [1.0, 4.0]}}, (score,), notes=(EVIL,), ids=[EVIL, arabic]
    )
    got = page(of, Samples(2, lambda i, s: Sample(EVIL + "\ud800", (arabic, ""), EVIL)))
    assert not got.xpath("//script")
    assert got.xpath("//table[@id='scores']//th/bdi")[0].text == EVIL
    assert {e.text for e in got.xpath("//article/h4/bdi")} == {EVIL, arabic}
    texts = got.xpath("(//article)[1]//div[@class='text']")
    assert [t.text_content() for t in texts] == [arabic, "(no text)", EVIL + "\ufffd", EVIL + "\ufffd"]
    assert all(t.get("dir") == "auto" and t.get("tabindex") == "0" for t in texts)
    assert [h.text_content() for h in got.xpath("(//article)[1]//h5")][:2] == ["Reference 1", "Reference 2"]
    assert EVIL in got.xpath("//svg[starts-with(@class, 'plot')]//title")[0].text


def test_plots(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation(THREE, (R1, REPEATED, WORDS), words=[100, 200, 300, 450]))
    plots = got.xpath("//svg[starts-with(@class, 'plot')]")
    assert [svg.get("role") for svg in plots] == ["img"] * 3
    assert "R-1" in plots[0].get("aria-label")
    assert [figure.xpath("figcaption")[0].text for figure in got.xpath("//figure")] == ["R-1 ↑", "Repeated ↓", "Words"]
    assert [li.text_content().strip() for li in got.xpath("//ul[@class='legend']/li")] == ["lead", "best", "rest"]
    clouds = plots[0].xpath("g[contains(@class, 'points')]")
    assert [g.xpath("path/title")[0].text for g in clouds] == [
        "lead: doc0, 100 words, 10.00",
        "best: doc0, 100 words, 50.00",
        "rest: doc0, 100 words, 11.00",
    ]
    assert len({g.get("class") for g in clouds}) == 3
    assert len({re.sub(r"M\S+ [\d.]+", "", g[0].get("d")) for g in clouds}) == 3  # shapes
    ticks = [t.text for t in plots[0].xpath("text[@text-anchor]")]
    assert ticks == ["0", "20", "40", "60", "80", "100", "200", "300", "400", "words of the document"]
    xs, ys = zip(*[map(float, re.match(r"M(\S+) ([\d.]+)", p.get("d")).groups()) for p in clouds[0]], strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    assert "are drawn" not in got.text_content()


def test_widely_different_lengths_get_a_log_scale(page: Callable[..., lxml.html.HtmlElement]) -> None:
    (svg,) = page(evaluation({"a": {"rouge-1": [0.1, 0.2, 0.3]}}, words=[100, 1000, 10_000])).xpath(
        "//svg[starts-with(@class, 'plot')]"
    )
    assert "words of the document (log scale)" in [t.text for t in svg.xpath("text")]
    first, second, third = (float(p.get("d")[1:].split()[0]) for p in svg.xpath("g/path"))
    assert second - first == pytest.approx(third - second, abs=0.2)
    (svg,) = page(evaluation({"a": {"rouge-1": [0.1, 0.2, 0.3]}}, words=[100, 300, 500])).xpath(
        "//svg[starts-with(@class, 'plot')]"
    )
    assert "words of the document" in [t.text for t in svg.xpath("text")]


def test_only_some_of_many_documents_are_points(page: Callable[..., lxml.html.HtmlElement]) -> None:
    count = 1501
    scores = {"a": {"rouge-1": np.linspace(0.1, 0.9, count).tolist()}}
    got = page(evaluation(scores, words=list(range(1000, 1000 + count))))
    assert "Of 1,501 documents 600 are drawn" in got.text_content()
    titles = got.xpath("//svg[starts-with(@class, 'plot')]/g[contains(@class, 'points')]//title/text()")
    assert len(set(titles)) == 600
    assert titles[0].startswith("a: doc0,")
    assert titles[-1].startswith("a: doc1500,")
    numbers = [int(re.search(r"doc(\d+)", title)[1]) for title in titles]
    assert set(np.diff(numbers)) == {2, 3}


def test_no_plots_without_documents(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation(THREE, words=[0] * 4), Samples(3, lambda i, s: Sample(f"{i}", ("r",))))
    assert not got.xpath("//svg")
    assert "No plots: the documents were not given" in got.text_content()
    assert "0 words" not in got.xpath("(//article)[1]/h4")[0].text_content()


def test_document_without_text_is_not_drawn(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation({"a": {"rouge-1": [0.1, 0.2, 0.3]}}, words=[0, 10, 1000]))
    assert len(got.xpath("//svg[starts-with(@class, 'plot')]/g/path")) == 2
    assert "1 document without text left out" in got.text_content()
    assert plot.drawn(np.array([5, 0, 3] * 300)).tolist() == [*range(2, 900, 3), *range(0, 900, 3)]


def test_score_without_any_value_is_not_plotted(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation({"a": {"rouge-1": [NAN, NAN], "words": [1.0, 2.0]}}, (R1, WORDS)))
    assert len(got.xpath("//svg[starts-with(@class, 'plot')]")) == 1
    assert "R-1: no document has this score" in got.text_content()
    assert "No examples" in got.text_content()


def test_bins() -> None:
    words, values = np.arange(1, 13), np.arange(12.0)
    assert plot.bins(words, values) == [(2, 1), (5, 4), (8, 7), (11, 10)]
    assert len(plot.bins(np.arange(1, 1000), np.ones(999))) == plot.MOST_BINS
    assert plot.bins(np.full(50, 7), np.arange(50.0)) == [(7, 24.5)]
    assert plot.bins(np.array([1, 2]), np.array([1.0, 2.0])) == []
    tied = plot.bins(np.array([1, 1, 1, 1, 1, 9]), np.array([1.0, 1, 1, 1, 1, 3]))
    assert tied == [(1, 1), (9, 3)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.5, 1]),
        (12, 47, [10, 20, 30, 40, 50]),
        (-3, 3, [-4, -2, 0, 2, 4]),
        (0.011, 0.012, [0.011, 0.0115, 0.012]),
        (100, 101, [100, 100.5, 101]),
    ],
)
def test_round_ticks(low: float, high: float, expected: list[float]) -> None:
    assert plot.round_ticks(low, high, 4) == pytest.approx(expected)


def test_ticks_of_words_are_whole() -> None:
    assert plot.round_ticks(100, 101, 4, least=1) == [100, 101]


def test_examples_of_several_systems(page: Callable[..., lxml.html.HtmlElement]) -> None:
    a = [0.50, 0.10, 0.90, 0.30, 0.70, 0.20, 0.80, 0.41, 0.40, 0.45]
    b = [0.50, 0.11, 0.91, 0.31, 0.71, 0.21, 0.82, 0.40, 0.90, 0.05]
    samples = Samples(2)
    got = page(evaluation({"a": {"rouge-1": a}, "b": {"rouge-1": b}}), samples)
    assert groups(got) == {
        "Best": ["doc2", "doc6", "doc4"],
        "Worst": ["doc1", "doc5", "doc9"],
        "Most different between the systems": ["doc8", "doc9", "doc6"],
    }
    assert samples.asked == [2, 6, 4, 1, 5, 9, 8]  # each once, though two are listed twice
    assert {a.get("href") for a in got.xpath("//p[@class='again']/a")} == {"#document-9", "#document-6"}
    assert "Chosen by the mean of the systems’ R-1, the first column" in got.text_content()
    first = got.xpath("//article[@id='document-2']")[0]
    assert "102 words" in first.xpath("h4")[0].text_content()
    assert [td.text for td in first.xpath(".//td")] == ["90.00", "91.00"]
    assert [h.text_content() for h in first.xpath(".//h5")] == ["Reference", "a 7 words", "b 7 words"]
    texts = [d.text_content() for d in first.xpath(".//div[@class='text']")]
    assert texts == ["reference 2", "summary 2 by 0", "summary 2 by 1"]


def test_lowest_is_best_where_lower_is_better(page: Callable[..., lxml.html.HtmlElement]) -> None:
    samples = Samples(1)
    got = page(evaluation({"a": {"repeated": [0.3, 0.1, 0.2, NAN]}}, (REPEATED,)), samples)
    assert groups(got) == {"Best": ["doc1"], "Worst": ["doc0"]}
    assert samples.asked == [1, 0]
    got = page(evaluation({"a": {"words": [3.0, 1.0, 2.0]}}, (WORDS,)))
    assert groups(got) == {"Highest": ["doc0"], "Lowest": ["doc1"]}


def test_system_without_the_score_is_ignored(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation({"a": {"rouge-1": [0.1, 0.2, INF]}, "b": {"rouge-1": [NAN] * 3}}))
    assert groups(got) == {"Best": ["doc1"], "Worst": ["doc0"]}
    got = page(evaluation({"a": {"rouge-1": [0.1, 0.2, 0.3]}, "b": {"rouge-1": [NAN] * 3}}))
    assert cells(got)[1] == ["– 3 left out"]  # and no p-value without a comparison


def test_strips(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation(THREE), Samples(3, lambda i, s: Sample(f"<{i}>", ("r",), "" if s == 2 else "document")))
    strips = got.xpath("(//article)[1]//svg[contains(@class, 'strip')]")
    assert len(strips) == 2  # none for the system without a document
    assert [rect.get("x") for rect in strips[0].xpath("rect")] == ["0", "497"]
    assert strips[0].get("role") == "img"
    assert strips[0].get("aria-label") == "lead: 0%, 50%"
    assert strips[0].xpath("rect/title")[1].text == "sentence 2, at 50% of the document: <3>"
    assert "1 of 3 sentences without a source" in got.xpath("(//article)[1]")[0].text_content()


def test_long_texts_are_shown_in_full(page: Callable[..., lxml.html.HtmlElement]) -> None:
    long = "\n\n".join(f"Paragraph {i} of it." for i in range(5000))
    got = page(evaluation({"a": {"rouge-1": [0.1, 0.2]}}), Samples(1, lambda i, s: Sample(long, (long[::-1],))))
    assert [t.text_content() for t in got.xpath("(//article)[1]//div[@class='text']")] == [long[::-1], long]


def test_one_document(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation({"a<b": {"rouge-1": [0.5]}}))
    assert got.xpath("//h1")[0].text_content() == "Evaluation of a<b on 1 document"
    assert got.xpath("//title")[0].text == "Evaluation of a<b on 1 document"
    assert groups(got) == {"The only document with this score": ["doc0"]}
    assert len(got.xpath("//svg[starts-with(@class, 'plot')]/g/path")) == 1
    assert not got.xpath("//polyline")
    assert bold(got) == [[False]]  # with one system there is no best


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5, -3.0, 1e12, 1e-12])
def test_equal_scores(page: Callable[..., lxml.html.HtmlElement], value: float) -> None:
    got = page(evaluation({"a": {"rouge-1": [value] * 9}, "b": {"rouge-1": [value] * 9}}, words=[50] * 9))
    assert groups(got) == {"Documents that all score the same": ["doc0", "doc1", "doc2"]}
    assert bold(got) == [[True], [True]]
    assert len(got.xpath("//svg[starts-with(@class, 'plot')]/g/path")) == 18
    for path in got.xpath("//svg[starts-with(@class, 'plot')]/g/path"):
        x, y = map(float, re.match(r"M(\S+) ([\d.]+)", path.get("d")).groups())
        assert plot.LEFT <= x <= plot.RIGHT
        assert plot.TOP <= y <= plot.BOTTOM


def test_many_systems_with_long_names(page: Callable[..., lxml.html.HtmlElement]) -> None:
    rng = np.random.default_rng(0)
    scores = {f"{i}" + "long" * 100: {"rouge-1": rng.random(30).tolist()} for i in range(8)}
    got = page(evaluation(scores, words=rng.integers(100, 90_000, 30).tolist()))
    clouds = got.xpath("//svg[starts-with(@class, 'plot')]/g[contains(@class, 'points')]")
    assert len({g.get("class") for g in clouds}) == 8
    assert len({re.sub(r"M\S+ [\d.]+", "", g[0].get("d")) for g in clouds}) == 8
    assert len(got.xpath("//polyline[@class='over']")) == 8
    assert len(got.xpath("(//article)[1]//h5")) == 9


def test_no_documents(page: Callable[..., lxml.html.HtmlElement]) -> None:
    got = page(evaluation({"a": {"rouge-1": []}, "b": {"rouge-1": []}}))
    assert cells(got) == [["–"], ["–"]]
    assert "No examples" in got.text_content()


def test_unwritable_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    samples = Samples(3)
    with pytest.raises(AwesumError, match=r"cannot write the report to .*file.*\(.+\): give another folder") as caught:
        report.write(evaluation(THREE), samples, tmp_path / "file" / "x")
    assert "\n" not in str(caught.value)
    assert not samples.asked  # before any work
    (tmp_path / "index.html").mkdir()
    with pytest.raises(AwesumError, match="cannot write the report"):
        report.write(evaluation(THREE), samples, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"file", "index.html"}


def test_colours_have_enough_contrast(page: Callable[..., lxml.html.HtmlElement]) -> None:
    """The accessibility guidelines require a contrast of 3 for graphics and 4.5 for text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    style = page(evaluation(THREE)).xpath("//style")[0].text
    papers, softs = (re.findall(rf"--{name}: (#\w{{6}})", style) for name in ("paper", "soft"))
    for colours, paper, soft in zip((plot.LIGHT, plot.DARK), papers, softs, strict=True):
        assert min(contrast(colour, paper) for colour in colours) >= 4.5
        assert contrast(soft, paper) >= 4.5
