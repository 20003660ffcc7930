"""Writes OpenTelemetry metrics (OTLP, `MetricsData` in Protobuf) as PushTelemetry carries them: sums and gauges.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack
from typing import NamedTuple

SCOPE = "org.apache.kafka"
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DELTA, _CUMULATIVE = 1, 2
_GAUGE, _SUM = 5, 7  # fields of Metric

Attributes = tuple[tuple[str, str], ...]


class ClientMetric(NamedTuple):
    name: str
    value: float
    attributes: Attributes = ()
    total: bool = False
    """A number that only grows; otherwise the value of this moment."""


class SumInterval(NamedTuple):
    """The time that the sums are of, in nanoseconds since 1970."""

    begin_ns: int
    end_ns: int
    delta: bool
    """Sums are of this interval alone; otherwise they are of the whole life of the client."""


def encode_metrics(
    metrics: Iterable[ClientMetric], labels: Mapping[str, str], version: str, interval: SumInterval
) -> bytes:
    by_name: dict[str, list[ClientMetric]] = {}
    for metric in metrics:
        by_name.setdefault(metric.name, []).append(metric)
    resource = b"".join(_message(1, _attribute(key, value)) for key, value in labels.items())
    scope = _text(1, SCOPE) + _text(2, version)
    body = b"".join(_message(2, _metric(name, points, interval)) for name, points in by_name.items())
    return _message(1, _message(1, resource) + _message(2, _message(1, scope) + body))


def _metric(name: str, points: list[ClientMetric], interval: SumInterval) -> bytes:
    data = b"".join(_message(1, _point(point, interval)) for point in points)
    if not points[0].total:
        return _text(1, name) + _message(_GAUGE, data)
    temporality = _number(2, _DELTA if interval.delta else _CUMULATIVE) + _number(3, 1)  # monotonic
    return _text(1, name) + _message(_SUM, data + temporality)


def _point(point: ClientMetric, interval: SumInterval) -> bytes:
    begin = _fixed(2, pack("<Q", interval.begin_ns)) if point.total else b""
    attributes = b"".join(_message(7, _attribute(key, value)) for key, value in point.attributes)
    value = _fixed(4, pack("<d", point.value))
    return attributes + begin + _fixed(3, pack("<Q", interval.end_ns)) + value


def _attribute(key: str, value: str) -> bytes:
    return _text(1, key) + _message(2, _text(1, value))


# Protobuf


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _fixed(field: int, eight_bytes: bytes) -> bytes:
    return _varint(field << 3 | _FIXED64) + eight_bytes


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    return _message(field, content.encode("utf-8", "replace"))
