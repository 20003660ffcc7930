"""Curves and measured points, as SVG and as braille dots for terminals.  Our own, so that no plotting package is
needed; a chart is a title, axes with round ticks, lines and dots.  Pure.

`svg_grid`, `svg_series` and `svg_text` draw for the console, too.  Colours come by class: from the console's style
sheet, or from `STYLE` in a document of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.sax.saxutils import escape

Point = tuple[float, float]

COLOURS = ("#0b6e99", "#c2571a", "#4c7a34")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 70, 20, 40, 50
STYLE = (
    ".grid line{stroke:#dddddd}.line{fill:none;stroke:currentColor;stroke-width:2}.dot{fill:currentColor}"
    ".mark{stroke:#888888;stroke-dasharray:4 3}"
)
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
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    return [at * step for at in range(int(most / step + 1e-9) + 1)]


def number_text(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """A picture of `width` by `height`, with the distances of its axes from the edges.  Shares are from 0 to 1."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def floor(self) -> float:
        return self.height - self.bottom

    def x(self, share: float) -> float:
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, share: float) -> float:
        return round(self.floor - share * (self.floor - self.top), 1)


def svg_grid(frame: PlotFrame, steps: Sequence[tuple[float, str]]) -> str:
    """Horizontal lines with a label each, by their share of the height."""
    parts = []
    for share, label in steps:
        y = frame.y(share)
        parts.append(f'<line x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y}" y2="{y}"/>')
        parts.append(svg_text(label, frame.left - 6, y + 3.5, "end"))
    return f'<g class="grid">{"".join(parts)}</g>'


def svg_text(text: str, x: float, y: float, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def svg_series(
    number: int, runs: Sequence[Sequence[Point]], floor: float | None = None, dots: bool = False
) -> str:
    """Runs of points that belong together, as lines, or as `dots`; `floor`: where the area below them ends."""
    drawn = []
    for run in runs:
        if dots or len(run) == 1:
            drawn += [f'<circle cx="{x}" cy="{y}" r="{3.5 if dots else 2}" class="dot"/>' for x, y in run]
        if dots:
            continue
        points = " ".join(f"{x},{y}" for x, y in run)
        if floor is not None:
            drawn.append(f'<path d="M{run[0][0]},{floor} {points} {run[-1][0]},{floor}Z" class="area"/>')
        drawn.append(f'<polyline points="{points}" class="line"/>')
    return f'<g class="series series-{number}">{"".join(drawn)}</g>'


def svg(charts: Sequence[Chart]) -> str:
    """The charts one below the other, as one SVG document."""
    height = HEIGHT * len(charts)
    colours = "".join(f".series-{number}{{color:{colour}}}" for number, colour in enumerate(COLOURS))
    drawn = [
        f'<g transform="translate(0 {number * HEIGHT})">\n{_svg_chart(chart)}</g>\n'
        for number, chart in enumerate(charts)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<style>{STYLE}{colours}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "".join(drawn) + "</svg>\n"
    )


def _svg_chart(chart: Chart) -> str:
    frame = PlotFrame(WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM)
    middle = frame.y(0.5)
    parts = [
        svg_text(chart.title, LEFT, 22, more=' font-size="14" font-weight="bold"'),
        svg_grid(frame, [(value / chart.top, number_text(value)) for value in ticks(chart.top)]),
        *(
            svg_text(number_text(value), frame.x(value / chart.right), frame.floor + 16, "middle")
            for value in ticks(chart.right)
        ),
        svg_text(chart.across, frame.x(0.5), frame.floor + 34, "middle"),
        svg_text(chart.up, 16, middle, "middle", f' transform="rotate(-90 16 {middle})"'),
    ]
    if chart.mark is not None:
        at = frame.x(chart.mark / chart.right)
        parts.append(f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{frame.floor}" class="mark"/>')
    for number, curve in enumerate(chart.curves):
        points = [(frame.x(x / chart.right), frame.y(min(y / chart.top, 1.0))) for x, y in curve.points]
        parts.append(svg_series(number % len(COLOURS), [points], dots=curve.dots))
        at = frame.width - frame.right - 150
        parts.append(
            f'<rect x="{at}" y="{10 + number * 15}" width="10" height="10" class="dot series-{number % len(COLOURS)}"/>'
        )
        parts.append(svg_text(curve.name, at + 15, 19 + number * 15))
    return "\n".join(parts) + "\n"


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
