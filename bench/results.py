"""Rows of the table, their goals, and the verdict on each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.scale import Scale
    from bench.systems import System

Samples = dict[str, list[float]]  # by the row's key; the median counts


@dataclass(frozen=True)
class Goal:
    """Any of: a bound in the row's own unit, and a bound on Tidelog's figure divided by Kafka's."""

    most: float | None = None
    ratio_most: float | None = None
    ratio_least: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.most is not None:
            parts.append(f"<= {self.most:g}")
        if self.ratio_most is not None:
            parts.append(f"<= {self.ratio_most:g}x Kafka")
        if self.ratio_least is not None:
            parts.append(f">= {self.ratio_least:g}x Kafka")
        return ", ".join(parts)

    def met(self, ours: float, ratio: float | None) -> bool | None:
        """None when there is no goal, or nothing to compare with."""
        verdicts: list[bool] = []
        if self.most is not None:
            verdicts.append(ours <= self.most)
        if self.ratio_most is not None or self.ratio_least is not None:
            if ratio is None:
                return None
            verdicts.append(self.ratio_most is None or ratio <= self.ratio_most)
            verdicts.append(self.ratio_least is None or ratio >= self.ratio_least)
        return all(verdicts) if verdicts else None


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    goal: Goal = Goal()


@dataclass(frozen=True)
class Scenario:
    name: str
    rows: tuple[Row, ...]
    run: Callable[[System, Scale], Samples]


@dataclass(frozen=True)
class Outcome:
    """One row as measured; a system that was left out or failed has no samples."""

    row: Row
    tidelog: Sequence[float]
    kafka: Sequence[float]

    @property
    def ratio(self) -> float | None:
        if not self.tidelog or not self.kafka:
            return None
        theirs = statistics.median(self.kafka)
        return statistics.median(self.tidelog) / theirs if theirs else None

    @property
    def met(self) -> bool | None:
        if not self.tidelog:
            return None
        return self.row.goal.met(statistics.median(self.tidelog), self.ratio)

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else _rounded(self.ratio)
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        tidelog, kafka = _figure(self.tidelog), _figure(self.kafka)
        return (self.row.title, self.row.unit, tidelog, kafka, ratio, str(self.row.goal), verdict)

    def as_json(self) -> dict[str, object]:
        return {
            "row": self.row.key,
            "title": self.row.title,
            "unit": self.row.unit,
            "tidelog": list(self.tidelog),
            "kafka": list(self.kafka),
            "ratio": self.ratio,
            "goal": str(self.row.goal),
            "met": self.met,
        }


HEADINGS = ("what", "unit", "Tidelog", "Kafka", "ratio", "goal", "met")


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [HEADINGS, *(outcome.cells() for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([text[0], rule, *text[1:]])


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that is not below `percent` of all."""
    ordered = sorted(samples)
    place = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(place) - 1)]


def _figure(samples: Sequence[float]) -> str:
    """The median, and in brackets how far repeated measurements lay apart."""
    if not samples:
        return "-"
    middle = _rounded(statistics.median(samples))
    if len(samples) < 2:
        return middle
    return f"{middle} ({_rounded(min(samples))}..{_rounded(max(samples))})"


def _rounded(number: float) -> str:
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
