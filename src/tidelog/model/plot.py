"""Curves and measured points, as SVG for documents and as braille dots for terminals.  Our own, so that no
plotting package is needed; a chart is a title, axes with round ticks, lines and dots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.sax.saxutils import escape

Point = tuple[float, float]

COLOURS = ("#0b6e99", "#c2571a", "#4c7a34")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 70, 20, 40, 50
# The dots of one braille character, by column and row.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    points: Sequence[Point]
    dots: bool = False  # measured points, not a line


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    across: str
    up: str
    curves: Sequence[Curve]
    mark: float | None = None  # a vertical line: the best number of consumers
    up_max: float | None = None  # latencies near saturation would flatten all others
    _points: list[Point] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._points.extend(point for curve in self.curves for point in curve.points)
        if not self._points:
            raise ValueError(f"nothing to draw in {self.title!r}")

    @property
    def right(self) -> float:
        return max(x for x, _ in self._points) or 1.0

    @property
    def top(self) -> float:
        highest = max(y for _, y in self._points)
        if self.up_max is not None:
            highest = min(highest, self.up_max)
        return highest * 1.05 or 1.0


def ticks(most: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to `most`."""
    raw = most / count
    size = 10 ** math.floor(math.log10(raw))
    step = next(one * size for one in (1, 2, 2.5, 5, 10) if one * size >= raw)
    return [at * step for at in range(int(most / step + 1e-9) + 1)]


def number_text(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.3g}"


def svg(charts: Sequence[Chart]) -> str:
    """The charts one below the other, as one SVG document."""
    drawn = [_svg_chart(chart, number * HEIGHT) for number, chart in enumerate(charts)]
    height = HEIGHT * len(charts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "".join(drawn) + "</svg>\n"
    )


def _svg_chart(chart: Chart, down: float) -> str:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(value: float) -> float:
        return round(LEFT + value / chart.right * wide, 1)

    def y_of(value: float) -> float:
        return round(down + TOP + high - min(value / chart.top, 1.0) * high, 1)

    base = down + TOP + high
    parts = [
        f'<text x="{LEFT}" y="{down + 22}" font-size="14" font-weight="bold">{escape(chart.title)}</text>'
    ]
    for value in ticks(chart.top):
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value)}" y2="{y_of(value)}" stroke="#dddddd"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y_of(value) + 4}" text-anchor="end">{number_text(value)}</text>'
        )
    for value in ticks(chart.right):
        parts.append(
            f'<text x="{x_of(value)}" y="{base + 16}" text-anchor="middle">{number_text(value)}</text>'
        )
    parts.append(
        f'<text x="{LEFT + wide / 2}" y="{base + 34}" text-anchor="middle">{escape(chart.across)}</text>'
    )
    middle = down + TOP + high / 2
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(chart.up)}</text>'
    )
    if chart.mark is not None:
        at = x_of(chart.mark)
        parts.append(
            f'<line x1="{at}" x2="{at}" y1="{down + TOP}" y2="{base}" stroke="#888888" stroke-dasharray="4 3"/>'
        )
    for number, curve in enumerate(chart.curves):
        colour = COLOURS[number % len(COLOURS)]
        parts += _svg_curve(curve, colour, [(x_of(x), y_of(y)) for x, y in curve.points])
        at = LEFT + wide - 150
        parts.append(f'<rect x="{at}" y="{down + 10 + number * 15}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{at + 15}" y="{down + 19 + number * 15}">{escape(curve.name)}</text>')
    return "\n".join(parts) + "\n"


def _svg_curve(curve: Curve, colour: str, points: Sequence[Point]) -> list[str]:
    if curve.dots:
        return [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in points]
    path = " ".join(f"{x},{y}" for x, y in points)
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']


def terminal(chart: Chart, columns: int = 64, rows: int = 12) -> str:
    """Lines in braille dots, measured points as `o`, the mark as `|`."""
    wide, high = columns * 2, rows * 4
    bits = [[0] * columns for _ in range(rows)]
    letters: dict[tuple[int, int], str] = {}

    def spot(x: float, y: float) -> tuple[int, int]:
        across = min(wide - 1, round(x / chart.right * (wide - 1)))
        return across, high - 1 - min(high - 1, round(min(y / chart.top, 1.0) * (high - 1)))

    if chart.mark is not None:
        column = spot(chart.mark, 0)[0] // 2
        letters.update({(row, column): "|" for row in range(rows)})
    for curve in chart.curves:
        spots = [spot(x, y) for x, y in curve.points]
        if curve.dots:
            letters.update({(y // 4, x // 2): "o" for x, y in spots})
            continue
        for (x1, y1), (x2, y2) in pairwise(spots):
            steps = max(abs(x2 - x1), abs(y2 - y1), 1)
            for step in range(steps + 1):
                x, y = x1 + (x2 - x1) * step // steps, y1 + (y2 - y1) * step // steps
                bits[y // 4][x // 2] |= DOTS[x % 2][y % 4]
    lines = [f"{chart.title}  ({chart.up})"]
    for row in range(rows):
        label = {0: number_text(chart.top), rows - 1: "0"}.get(row, "")
        cells = [letters.get((row, at)) or chr(0x2800 + bits[row][at]) for at in range(columns)]
        lines.append(f"{label:>8} |" + "".join(cells).replace(chr(0x2800), " ").rstrip())
    lines.append(" " * 9 + "+" + "-" * columns)
    lines.append(" " * 10 + "0" + f"{number_text(chart.right)} {chart.across}".rjust(columns - 1))
    return "\n".join(lines)
