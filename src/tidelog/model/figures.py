"""Measured figures as people have them: CSV with a header line, or JSON (a list of objects, or one per line).

A figure says how many consumers there were, and what was measured: throughput, and if known the rate of
arrivals, the mean latency and the depth of the queue."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import dataclass
from typing import Any

NAMES = {
    "consumers": ("consumers", "n", "workers", "servers", "threads", "concurrency"),
    "throughput": ("throughput", "records_per_s", "rate", "x"),
    "arrival": ("arrival", "arrivals", "arrival_per_s", "lambda"),
    "latency_ms": ("latency_ms", "latency", "response_ms"),
    "depth": ("depth", "lag", "queue", "queue_depth", "l"),
}
DELIMITERS = (",", ";", "\t")


class BadFigures(ValueError):
    """What is wrong, and in which line."""


@dataclass(frozen=True, slots=True)
class Figure:
    consumers: int
    throughput: float | None = None  # records a second
    arrival: float | None = None
    latency_ms: float | None = None
    depth: float | None = None

    @property
    def little(self) -> float | None:
        """depth / (arrival * latency): 1 where Little's law holds, so that the three were measured alike."""
        arrival = self.arrival if self.arrival is not None else self.throughput
        if not arrival or not self.latency_ms or self.depth is None:
            return None
        return self.depth / (arrival * self.latency_ms / 1000)


def read(text: str) -> list[Figure]:
    """Figures in CSV or JSON, told apart by their first character; spreadsheets put a mark in front of all."""
    text = text.removeprefix("\ufeff")
    rows = _json_rows(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text)
    figures = [_figure(row, where) for where, row in rows]
    if not figures:
        raise BadFigures(
            "there are no figures; the first line of a CSV file names its columns: consumers,throughput"
        )
    return figures


def _csv_rows(text: str) -> list[tuple[str, dict[str, Any]]]:
    header = text.lstrip().split("\n", 1)[0]
    apart = next((delimiter for delimiter in DELIMITERS if delimiter in header), ",")
    if apart == ";":
        # Spreadsheets write semicolons where the comma stands in numbers.
        text = re.sub(r"(?<=\d),(?=\d)", ".", text)
    reader = csv.DictReader(io.StringIO(text.lstrip()), skipinitialspace=True, delimiter=apart)
    return [(f"line {reader.line_num}", dict(row)) for row in reader]


def _json_rows(text: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        if text.lstrip().startswith("["):
            listed = json.loads(text)
        else:
            listed = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as problem:
        raise BadFigures(f"the text is not JSON: {problem}") from None
    if not all(isinstance(row, dict) for row in listed):
        raise BadFigures('JSON figures are objects: [{"consumers": 1, "throughput": 950.0}, ...]')
    return [(f"figure {number}", row) for number, row in enumerate(listed, 1)]


def _figure(row: dict[str, Any], where: str) -> Figure:
    given = {str(name).strip().lower(): value for name, value in row.items() if name is not None}
    values: dict[str, float | None] = {}
    for field, names in NAMES.items():
        name = next((alias for alias in names if given.get(alias) not in (None, "")), None)
        values[field] = None if name is None else _number(given[name], name, where)
    consumers = values["consumers"]
    if consumers is None:
        raise BadFigures(f"{where} has no 'consumers' (there are {', '.join(given)})")
    if consumers != int(consumers) or consumers < 1:
        raise BadFigures(f"{where}: consumers must be a whole number from 1, not {consumers:g}")
    if values["throughput"] is None and values["latency_ms"] is None:
        raise BadFigures(f"{where} has neither 'throughput' nor 'latency_ms' (there are {', '.join(given)})")
    return Figure(
        int(consumers), *(values[field] for field in ("throughput", "arrival", "latency_ms", "depth"))
    )


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadFigures(f"{where}: {name} must be a number, not {value!r}") from None
    if not math.isfinite(number) or number < 0:
        raise BadFigures(f"{where}: {name} must be a number from 0, not {value!r}")
    return number
