"""Reads OpenTelemetry metrics (OTLP, `MetricsData` in Protobuf) as clients push them: sums, gauges, and the counts and sums
of histograms.

Only what is shown is read; unknown fields are skipped.  Damaged bytes, or more than `points_max` points, raise
InvalidRecord.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tidelog.errors import InvalidRecord
from tidelog.wire.protobuf import fields, messages

_DOUBLE, _INT64 = Struct("<d"), Struct("<q")
_DELTA = 1
NAME_CHARACTERS_MAX = 250


class MetricPoint(NamedTuple):
    """`adds`: the value is what came since the last push; otherwise it is the value now."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    adds: bool


def read_metrics(data: bytes | memoryview, points_max: int) -> list[MetricPoint]:
    points: list[MetricPoint] = []
    try:
        for metric in _metrics(memoryview(data)):
            for point in _points(metric):
                if len(points) >= points_max:
                    raise InvalidRecord(f"the metrics have more than {points_max} points")
                points.append(point)
    except (IndexError, ValueError, UnicodeDecodeError) as problem:
        raise InvalidRecord(f"these are no OpenTelemetry metrics: {problem}") from None
    return points


def _metrics(data: memoryview) -> Iterator[memoryview]:
    for resource in messages(data, 1):
        for scope in messages(resource, 2):
            yield from messages(scope, 2)


def _points(metric: memoryview) -> Iterator[MetricPoint]:
    name, body = "", None
    for number, value in fields(metric):
        if number == 1 and not isinstance(value, int):
            name = bytes(value).decode()
        elif number in (5, 7, 9) and not isinstance(value, int):
            body = (number, memoryview(value))
    if body is None or not name or len(name) > NAME_CHARACTERS_MAX:
        return
    kind, content = body
    adds = kind != 5 and any(number == 2 and value == _DELTA for number, value in fields(content))
    for point in messages(content, 1):
        if kind == 9:
            yield from _histogram(name, point, adds)
        else:
            yield _number(name, point, adds)


def _number(name: str, point: memoryview, adds: bool) -> MetricPoint:
    amount = 0.0
    for number, value in fields(point):
        if number == 4 and isinstance(value, bytes):
            amount = _DOUBLE.unpack(value)[0]
        elif number == 6 and isinstance(value, bytes):
            amount = float(_INT64.unpack(value)[0])
    return MetricPoint(name, _attributes(point, 7), amount, adds)


def _histogram(name: str, point: memoryview, adds: bool) -> Iterator[MetricPoint]:
    attributes = _attributes(point, 9)
    for number, value in fields(point):
        if number == 4 and isinstance(value, bytes):
            yield MetricPoint(f"{name}.count", attributes, float(_INT64.unpack(value)[0]), adds)
        elif number == 5 and isinstance(value, bytes):
            yield MetricPoint(f"{name}.sum", attributes, _DOUBLE.unpack(value)[0], adds)


def _attributes(point: memoryview, number: int) -> tuple[tuple[str, str], ...]:
    attributes = {}
    for attribute in messages(point, number):
        key, text = "", ""
        for field, value in fields(attribute):
            if isinstance(value, int):
                continue
            if field == 1:
                key = bytes(value).decode()
            elif field == 2:
                text = _any_value(memoryview(value))
        attributes[key] = text
    return tuple(sorted(attributes.items()))


def _any_value(data: memoryview) -> str:
    for number, value in fields(data):
        if number == 1 and not isinstance(value, int):
            return bytes(value).decode()
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4 and isinstance(value, bytes):
            return f"{_DOUBLE.unpack(value)[0]:g}"
    return ""
