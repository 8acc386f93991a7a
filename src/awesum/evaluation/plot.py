"""Plots of scores against document length, as inline SVG.

Each system has a colour and a shape, so that either is enough to distinguish them; the page defines the colours, one
set for a light and one for a dark background.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

import numpy as np

from awesum.evaluation.table import ARROWS, shown
from awesum.metrics.metric import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from awesum.evaluation.result import Evaluation

MOST_POINTS = 600
"""Documents drawn as points: more would be a blur, and a page of many megabytes."""
MOST_BINS = 6
LEAST_IN_BIN = 3
LOG_FROM = 5
"""Lengths that differ by more than this factor are drawn on a logarithmic scale."""

LIGHT = ("#0067a5", "#c24a00", "#00785a", "#a03a86", "#8a6500", "#4646c8", "#5b5f66", "#8c2f2f")
DARK = ("#5cb8f0", "#ff9350", "#35c99c", "#e79bd0", "#f0c445", "#a9a6ff", "#c3c7ce", "#e88a8a")
STYLE = f"""
:root {{ {" ".join(f"--c{i}: {colour};" for i, colour in enumerate(LIGHT))} }}
@media (prefers-color-scheme: dark) {{ :root {{ {" ".join(f"--c{i}: {colour};" for i, colour in enumerate(DARK))} }} }}
{" ".join(f".c{i} {{ color: var(--c{i}); }}" for i in range(len(LIGHT)))}
svg text {{ font: 12px system-ui, sans-serif; fill: var(--soft); }}
svg .rule {{ stroke: var(--line); }}
svg .points {{ fill: currentColor; stroke: currentColor; stroke-width: 1.2; opacity: .45; }}
svg.many .points {{ opacity: .22; }}
svg .corners {{ fill: currentColor; stroke: currentColor; stroke-width: 1.6; }}
svg .under {{ fill: none; stroke: var(--paper); stroke-width: 5; stroke-linejoin: round; }}
svg .over {{ fill: none; stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; }}
"""

# Paths relative to the centre. One more than there are colours, so pairs of the two repeat only after 72 systems.
SHAPES = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "m-2.6-2.6h5.2v5.2h-5.2z",
    "m0-3.4l3.4 6h-6.8z",
    "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z",
    "m0 3.4l3.4-6h-6.8z",
    "m-3.4 0h6.8m-3.4-3.4v6.8",
    "m-2.7-2.7l5.4 5.4m0-5.4l-5.4 5.4",
    "m-2.7-3.2h5.4l-5.4 6.4h5.4z",
    "m0-3.4v6.8m-3-5.1l6 3.4m0-3.4l-6 3.4",
)

WIDTH, HEIGHT = 360, 214
LEFT, RIGHT, TOP, BOTTOM = 48, 346, 8, 168
MANY = 500
"""With more points than this, each is drawn fainter."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def text(of: object) -> str:
    """Text for a page: escaped, and without characters that HTML does not allow."""
    return escape(_CONTROL.sub("\ufffd", str(of)))


def colour(system: int) -> str:
    """The CSS class for the colour of a system."""
    return f"c{system % len(LIGHT)}"


def legend(names: Sequence[str]) -> str:
    """The colour and shape of each system."""
    entries = (
        f'<li><svg viewBox="-6 -6 12 12" width="16" height="16" aria-hidden="true"><g class="{colour(i)}">'
        f'<path d="M0 0{SHAPES[i % len(SHAPES)]}" fill="currentColor" stroke="currentColor" stroke-width="1.2"/>'
        f"</g></svg> <bdi>{text(name)}</bdi></li>"
        for i, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(entries)}</ul>'


def drawn(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The documents to draw as points: all, or at most `MOST_POINTS`, spread evenly over the lengths."""
    by_length = np.argsort(words, kind="stable")
    by_length = by_length[words[by_length] > 0]
    if len(by_length) <= MOST_POINTS:
        return by_length
    return by_length[np.linspace(0, len(by_length) - 1, MOST_POINTS).round().astype(np.int64)]


def plot(evaluation: Evaluation, score: Score, points: NDArray[np.int64]) -> str | None:
    """The plot of one score for every system, with its title; None if no document has the score."""
    words = evaluation.document_words
    values = [system.scores[score.name] * score.scale for system in evaluation.systems]
    usable = [np.isfinite(each) & (words > 0) for each in values]
    every = np.concatenate([each[there] for each, there in zip(values, usable, strict=True)])
    if not len(every):
        return None
    across = _Across(words[words > 0])
    up = _Up(float(every.min()), float(every.max()), score)
    clouds, lines = [], []
    for number, (system, value, there) in enumerate(zip(evaluation.systems, values, usable, strict=True)):
        shape = SHAPES[number % len(SHAPES)]
        marks = "".join(
            f'<path d="M{across(words[i]):.1f} {up(value[i]):.1f}{shape}"><title>{text(system.name)}: '
            f"{text(evaluation.ids[i])}, {words[i]:,} words, {shown(score, value[i] / score.scale)}</title></path>"
            for i in points
            if there[i]
        )
        clouds.append(f'<g class="points {colour(number)}">{marks}</g>')
        means = [f"{across(x):.1f} {up(y):.1f}" for x, y in bins(words[there], value[there])]
        if len(means) > 1:
            way, corners = ", ".join(means), "".join(f"M{at}{shape}" for at in means)
            lines.append(
                f'<g class="{colour(number)}"><title>{text(system.name)}: means</title>'
                f'<polyline class="under" points="{way}"/><polyline class="over" points="{way}"/>'
                f'<path class="corners" d="{corners}"/></g>'
            )
    head = f"{score.title} {ARROWS[score.better]}".strip()
    label = f"{head} against the words of the document, for {len(values)} system{'s' * (len(values) > 1)}"
    many = " many" if len(points) * len(values) > MANY else ""
    return (
        f'<figure><figcaption>{text(head)}</figcaption><svg class="plot{many}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{text(label)}">{up.axis()}{across.axis()}{"".join(clouds)}{"".join(lines)}'
        "</svg></figure>"
    )


def bins(words: NDArray[np.int64], values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Mean length and mean score of bins with equally many documents, from short to long.

    Documents of the same length stay in one bin, so there may be fewer bins than `MOST_BINS`.
    """
    count = min(MOST_BINS, len(words) // LEAST_IN_BIN)
    if not count:
        return []
    edges = np.quantile(words, np.linspace(0, 1, count + 1)[1:-1])
    which = np.searchsorted(edges, words)
    return [(float(words[which == i].mean()), float(values[which == i].mean())) for i in np.unique(which)]


def round_ticks(low: float, high: float, about: int, least: float = 0.0) -> list[float]:
    """About `about` round numbers that span `low` to `high`, at least `least` apart."""
    rough = max((high - low) / about, least)
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [step * i for i in range(first, last + 1)]


class _Across:
    """The horizontal axis: words of the document."""

    def __init__(self, words: NDArray[np.int64]) -> None:
        low, high = float(words.min()), float(words.max())
        self.log = high > LOG_FROM * low
        if self.log:
            self.low, self.high = log10(low), log10(high)
            exponents = range(floor(self.low), ceil(self.high) + 1)
            factors = (1, 2, 5) if self.high - self.low < 2 else (1,)
            self.ticks = [f * 10.0**e for e in exponents for f in factors if low <= f * 10.0**e <= high]
        else:
            self.low, self.high = (low, high) if low < high else (low - 1, high + 1)
            self.ticks = [tick for tick in round_ticks(self.low, self.high, 5, least=1) if low <= tick <= high]

    def __call__(self, words: float) -> float:
        at = log10(words) if self.log else words
        inner = 8  # keeps points off the vertical axis
        return LEFT + inner + (at - self.low) / (self.high - self.low) * (RIGHT - LEFT - 2 * inner)

    def axis(self) -> str:
        ticks = "".join(
            f'<line class="rule" x1="{self(tick):.1f}" x2="{self(tick):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 4}"/>'
            f'<text x="{self(tick):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{tick:,.0f}</text>'
            for tick in self.ticks
        )
        scale = " (log scale)" if self.log else ""
        return (
            f'{ticks}<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"words of the document{scale}</text>"
        )


class _Up:
    """The vertical axis: the score, scaled as in the table."""

    def __init__(self, low: float, high: float, score: Score) -> None:
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # all the same, up to rounding
            room = max(abs(high) * 0.1, 10.0**-score.decimals)
            least, most = score.low * score.scale, score.high * score.scale
            low = max(low - room, least) if low > least else low
            high = min(high + room, most) if high < most else high
            high = high if low < high else low + room
        self.ticks = round_ticks(low, high, 4)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def __call__(self, value: float) -> float:
        return BOTTOM - (value - self.low) / (self.high - self.low) * (BOTTOM - TOP)

    def axis(self) -> str:
        step = self.ticks[1] - self.ticks[0]
        decimals = max(0, -floor(log10(step) + 1e-9))
        form = f"z,.{decimals}f" if decimals <= 4 and self.high < 1e6 and self.low > -1e6 else ".3g"
        return "".join(
            f'<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{self(tick):.1f}" y2="{self(tick):.1f}"/>'
            f'<text x="{LEFT - 6}" y="{self(tick) + 4:.1f}" text-anchor="end">{tick:{form}}</text>'
            for tick in self.ticks
        )
