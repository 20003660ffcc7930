"""Reads OpenTelemetry metrics (OTLP, `MetricsData` in Protobuf) as clients push them: sums, gauges, and the counts and sums
of histograms.

Only what is shown is read; unknown fields are skipped.  Damaged bytes, or more than `points_max` points, raise
InvalidRecord.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tidelog.errors import InvalidRecord

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _INT64 = Struct("<d"), Struct("<q")
_DELTA = 1
NAME_CHARACTERS_MAX = 250

Field = tuple[int, int | bytes | memoryview]


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
    for resource in _messages(data, 1):
        for scope in _messages(resource, 2):
            yield from _messages(scope, 2)


def _points(metric: memoryview) -> Iterator[MetricPoint]:
    name, body = "", None
    for number, value in _fields(metric):
        if number == 1 and not isinstance(value, int):
            name = bytes(value).decode()
        elif number in (5, 7, 9) and not isinstance(value, int):
            body = (number, memoryview(value))
    if body is None or not name or len(name) > NAME_CHARACTERS_MAX:
        return
    kind, content = body
    adds = kind != 5 and any(number == 2 and value == _DELTA for number, value in _fields(content))
    for point in _messages(content, 1):
        if kind == 9:
            yield from _histogram(name, point, adds)
        else:
            yield _number(name, point, adds)


def _number(name: str, point: memoryview, adds: bool) -> MetricPoint:
    amount = 0.0
    for number, value in _fields(point):
        if number == 4 and isinstance(value, bytes):
            amount = _DOUBLE.unpack(value)[0]
        elif number == 6 and isinstance(value, bytes):
            amount = float(_INT64.unpack(value)[0])
    return MetricPoint(name, _attributes(point, 7), amount, adds)


def _histogram(name: str, point: memoryview, adds: bool) -> Iterator[MetricPoint]:
    attributes = _attributes(point, 9)
    for number, value in _fields(point):
        if number == 4 and isinstance(value, bytes):
            yield MetricPoint(f"{name}.count", attributes, float(_INT64.unpack(value)[0]), adds)
        elif number == 5 and isinstance(value, bytes):
            yield MetricPoint(f"{name}.sum", attributes, _DOUBLE.unpack(value)[0], adds)


def _attributes(point: memoryview, number: int) -> tuple[tuple[str, str], ...]:
    attributes = {}
    for attribute in _messages(point, number):
        key, text = "", ""
        for field, value in _fields(attribute):
            if isinstance(value, int):
                continue
            if field == 1:
                key = bytes(value).decode()
            elif field == 2:
                text = _any_value(memoryview(value))
        attributes[key] = text
    return tuple(sorted(attributes.items()))


def _any_value(data: memoryview) -> str:
    for number, value in _fields(data):
        if number == 1 and not isinstance(value, int):
            return bytes(value).decode()
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4 and isinstance(value, bytes):
            return f"{_DOUBLE.unpack(value)[0]:g}"
    return ""


# Protobuf


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _fields(data: memoryview) -> Iterator[Field]:
    """(number, value): an int for a varint, bytes for a fixed number, a memoryview for bytes and messages."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"field {number} has the wire type {kind}")
        if at + size > len(data):
            raise ValueError(f"field {number} goes beyond the end")
        part = data[at : at + size]
        at += size
        if kind == _BYTES:
            yield number, part
        elif kind == _FIXED64:
            yield number, bytes(part)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
