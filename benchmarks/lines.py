"""A plot of lines as SVG, for the docs: one line a system, evenly spaced points."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

COLOURS = ("#555555", "#1f6feb", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d")
DASHES = ("", "6 3", "2 3")
"""After as many lines as there are colours, the next are dashed."""


def drawing(
    lines: Mapping[str, Mapping[int, float]], title: str, label: str, numbers: Mapping[int, str] | None = None
) -> str:
    """The lines by name, each as points: the number below the axis -> the value. `numbers` renames some of those."""
    values = [value for line in lines.values() for value in line.values()]
    low, high = min(values), max(values)
    span = high - low or 1.0
    places = sorted({at for line in lines.values() for at in line})

    def x(at: int) -> float:
        return 60 + 480 * places.index(at) / max(len(places) - 1, 1)

    def y(value: float) -> float:
        return 30 + 240 * (high - value) / span

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 330" font-family="sans-serif" font-size="12">',
        '<rect width="740" height="330" fill="white"/>',
        f'<text x="60" y="18">{escape(title)}</text>',
        f'<text x="300" y="318" text-anchor="middle">{escape(label)}</text>',
    ]
    for step in range(5):
        value = low + span * step / 4
        parts.append(f'<line x1="60" x2="540" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#dddddd"/>')
        shown = f"{value:.2f}" if span < 10 else f"{value:.0f}"
        parts.append(f'<text x="54" y="{y(value) + 4:.1f}" text-anchor="end">{shown}</text>')
    for at in places:
        text = (numbers or {}).get(at, str(at))
        parts.append(f'<text x="{x(at):.1f}" y="292" text-anchor="middle">{escape(text)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        dash = DASHES[number // len(COLOURS) % len(DASHES)]
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.items())
        style = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{style}/>')
        parts.append(f'<rect x="560" y="{40 + 22 * number}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="578" y="{51 + 22 * number}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
