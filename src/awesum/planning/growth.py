"""The peak of a system against the length of the document, as a drawing (SVG)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from awesum.evaluation.plot import round_ticks

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 540, 34, 272


def drawn(system: str, points: Sequence[tuple[int, int]], limit: int | None = None) -> str:
    """A line through (tokens, bytes), and another at the memory of the GPU."""
    longest = max(tokens for tokens, _ in points)
    highest = max([size for _, size in points] + ([limit] if limit else [])) / 1e9
    ticks = round_ticks(0, highest, 5)
    top = max(ticks[-1], highest)

    def x(tokens: float) -> float:
        return LEFT + (RIGHT - LEFT) * tokens / longest

    def y(gigabytes: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * gigabytes / top

    line = " ".join(f"{x(tokens):.1f},{y(size / 1e9):.1f}" for tokens, size in points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Peak memory of {escape(system)} against the length of the document" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="600">{escape(system)}: peak memory, GB</text>',
    ]
    for tick in ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#555">{tick:g}</text>')
    for tokens, _ in points:
        parts.append(
            f'<text x="{x(tokens):.1f}" y="{BOTTOM + 18}" text-anchor="middle" fill="#555">{tokens // 1024}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}" text-anchor="middle" fill="#555">'
        "input, multiples of 1,024 tokens</text>"
    )
    if limit:
        parts.append(f'<path d="M{LEFT} {y(limit / 1e9):.1f}H{RIGHT}" stroke="#c24a00" stroke-dasharray="5 4"/>')
        parts.append(f'<text x="{RIGHT}" y="{y(limit / 1e9) - 5:.1f}" text-anchor="end" fill="#c24a00">the GPU</text>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#0067a5" stroke-width="2.4"/>')
    parts += [
        f'<circle cx="{x(tokens):.1f}" cy="{y(size / 1e9):.1f}" r="3.4" fill="#0067a5"/>' for tokens, size in points
    ]
    return "\n".join([*parts, "</svg>", ""])
