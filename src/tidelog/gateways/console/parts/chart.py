"""Charts as SVG: lines over time, bars in tables.  Pure.

Colours come from the style sheet by class, so that a chart suits the light and the dark theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from tidelog.gateways.console.parts.amounts import clock_time, short
from tidelog.gateways.console.parts.markup import Markup, h
from tidelog.model.plot import PlotFrame, Point, svg_grid, svg_series, svg_text

WIDTH, WIDE, HEIGHT = 600, 1100, 180
LEFT, RIGHT, TOP, BOTTOM = 66, 8, 10, 22
POINTS_MAX = 120
LINES = 4


class Line(NamedTuple):
    name: str
    values: Sequence[float | None]


def line_chart(
    title: str,
    times_ms: Sequence[int],
    lines: Sequence[Line],
    shown: Callable[[float | None], str] = short,
    width: int = WIDTH,
    unit: int = 10,
) -> Markup:
    """`unit`: 1024 for bytes, otherwise 10.  None is a gap.  At most `POINTS_MAX` points are drawn, with the newest."""
    times, lines = _thinned(times_ms, lines)
    measured = [value for line in lines for value in line.values if value is not None]
    if len(times) < 2 or not measured:
        text = "The first figures appear in a few seconds." if len(times) < 3 else "Nothing measured yet."
        return h.div(h.p(text, class_="muted"), class_="chart chart-empty")
    top = nice_top(max(measured), unit)
    frame = PlotFrame(width, HEIGHT, LEFT, RIGHT, TOP, BOTTOM)
    first_ms, span_ms = times[0], max(1, times[-1] - times[0])

    def x(time_ms: int) -> float:
        return frame.x((time_ms - first_ms) / span_ms)

    def runs(line: Line) -> list[list[Point]]:
        """Gaps end a run."""
        pairs = zip(times, line.values, strict=True)
        return [
            [(x(time_ms), frame.y(value / top)) for time_ms, value in run if value is not None]
            for is_gap, run in groupby(pairs, lambda pair: pair[1] is None)
            if not is_gap
        ]

    newest = ", ".join(f"{line.name} {shown(_last(line.values))}" for line in lines)
    return h.svg(
        h.title(f"{title}: now {newest}"),
        Markup(svg_grid(frame, [(step / LINES, shown(top * step / LINES)) for step in range(LINES + 1)])),
        [
            Markup(svg_text(clock_time(time_ms), x(time_ms), HEIGHT - 6, anchor, ' class="grid-label"'))
            for time_ms, anchor in zip(
                (first_ms, first_ms + span_ms // 2, first_ms + span_ms),
                ("start", "middle", "end"),
                strict=True,
            )
        ],
        [Markup(svg_series(n, runs(line), frame.floor)) for n, line in enumerate(lines)],
        [_hover(times, at, x, lines, shown) for at in range(len(times))],
        class_="chart",
        viewBox=f"0 0 {width} {HEIGHT}",
        role="img",
        aria_label=f"{title}: now {newest}",
    )


def _thinned(times: Sequence[int], lines: Sequence[Line]) -> tuple[Sequence[int], Sequence[Line]]:
    step = -(-len(times) // POINTS_MAX) or 1
    if step == 1:
        return times, lines
    kept = range((len(times) - 1) % step, len(times), step)
    return [times[at] for at in kept], [Line(line.name, [line.values[at] for at in kept]) for line in lines]


def nice_top(value: float, unit: int = 10) -> float:
    """The next larger of 1, 2, 4, 8, ... times a power of the unit."""
    power = 1.0
    while power * unit < value:
        power *= unit
    step = 1
    while step * power < value:
        step *= 2
    return min(step, unit) * power


def _hover(
    times: Sequence[int],
    at: int,
    x: Callable[[int], float],
    lines: Sequence[Line],
    shown: Callable[[float | None], str],
) -> Markup:
    """An invisible strip over one point: pointing at it shows the figures."""
    before, after = x(times[max(0, at - 1)]), x(times[min(len(times) - 1, at + 1)])
    left, right = (before + x(times[at])) / 2, (after + x(times[at])) / 2
    figures = "\n".join(f"{line.name}: {shown(line.values[at])}" for line in lines)
    return h.rect(
        h.title(f"{clock_time(times[at])}\n{figures}"),
        x=f"{left:.1f}",
        y=TOP,
        width=f"{max(1.0, right - left):.1f}",
        height=HEIGHT - TOP - BOTTOM,
        class_="hover",
    )


def _last(values: Sequence[float | None]) -> float | None:
    return values[-1] if values else None


def legend(lines: Sequence[Line], shown: Callable[[float | None], str] = short) -> Markup:
    return h.ul(
        [
            h.li(h.span(class_=f"swatch series-{n}"), line.name, " ", h.b(shown(_last(line.values))))
            for n, line in enumerate(lines)
        ],
        class_="legend",
    )


def sparkline(values: Sequence[float | None], label: str) -> Markup:
    """A small line for a row of a table."""
    recent = [value for value in values[-60:] if value is not None]
    if len(recent) < 2:
        return h.span(class_="spark")
    top = max(*recent, 1e-9)
    frame = PlotFrame(100, 24, 2, 2, 4, 2)
    points = [(frame.x(at / (len(recent) - 1)), frame.y(value / top)) for at, value in enumerate(recent)]
    return h.svg(
        Markup(svg_series(0, [points])),
        class_="spark",
        viewBox="0 0 100 24",
        role="img",
        aria_label=label,
    )


def bar(share: float, label: str, severity: str = "") -> Markup:
    """A horizontal bar for a share from 0 to 1."""
    width = 100 * min(1.0, max(0.0, share))
    return h.svg(
        h.rect(x=0, y=0, width=100, height=8, rx=4, class_="bar-back"),
        h.rect(x=0, y=0, width=f"{width:.1f}", height=8, rx=4, class_="bar-fill"),
        class_=f"bar {severity}".strip(),
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
