"""A plot of lines as SVG, for the docs: one line a system, evenly spaced points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log2

COLOURS = ("#555555", "#1f6feb", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d")
DASHES = ("", "6 3", "2 3")
"""After as many lines as there are colours, the next are dashed."""


def drawing(
    lines: Mapping[str, Mapping[int, float]],
    title: str,
    label: str,
    numbers: Mapping[int, str] | None = None,
    *,
    logarithmic: bool = False,
    names: Sequence[str] = (),
) -> str:
    """The lines by name, each as points: the number below the axis -> the value. `numbers` renames some of those.

    Several drawings with the same `names` have the same line for the same name.
    """
    scaled = log2 if logarithmic else float
    values = [scaled(value) for line in lines.values() for value in line.values()]
    low, high = min(values), max(values)
    span = high - low or 1.0
    places = sorted({at for line in lines.values() for at in line})

    def x(at: int) -> float:
        return 60 + 480 * places.index(at) / max(len(places) - 1, 1)

    def y(value: float) -> float:
        return 30 + 240 * (high - scaled(value)) / span

    height = max(330, 40 + 22 * len(lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="800" height="{height}" fill="white"/>',
        f'<text x="60" y="18">{escape(title)}</text>',
        f'<text x="300" y="318" text-anchor="middle">{escape(label)}</text>',
    ]
    for value in _round(low, high) if logarithmic else [low + span * step / 4 for step in range(5)]:
        parts.append(f'<line x1="60" x2="540" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#dddddd"/>')
        shown = f"{value:.2f}" if span < 10 and not logarithmic else f"{value:.0f}"
        parts.append(f'<text x="54" y="{y(value) + 4:.1f}" text-anchor="end">{shown}</text>')
    for at in places:
        text = (numbers or {}).get(at, str(at))
        parts.append(f'<text x="{x(at):.1f}" y="292" text-anchor="middle">{escape(text)}</text>')
    order = list(dict.fromkeys([*names, *lines]))
    for number, (name, line) in enumerate(lines.items()):
        style_number = order.index(name)
        colour = COLOURS[style_number % len(COLOURS)]
        dash = DASHES[style_number // len(COLOURS) % len(DASHES)]
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.items())
        style = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{style}/>')
        middle = 46 + 22 * number
        parts.append(f'<line x1="556" x2="574" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="3"{style}/>')
        parts.append(f'<text x="578" y="{51 + 22 * number}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _round(low: float, high: float) -> list[float]:
    """1, 3, 10, 30 and so on, as far as they are between two powers of two."""
    numbers = [factor * 10.0**power for power in range(-3, 7) for factor in (1, 3)]
    return [number for number in numbers if 2**low <= number <= 2**high]
