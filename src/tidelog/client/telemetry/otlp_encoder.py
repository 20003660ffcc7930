"""Writes OpenTelemetry metrics (OTLP, `MetricsData` in Protobuf) as PushTelemetry carries them: sums and gauges.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack
from typing import NamedTuple

from tidelog.wire.protobuf import fixed64, message, number, text

SCOPE = "org.apache.kafka"
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
    resource = b"".join(message(1, _attribute(key, value)) for key, value in labels.items())
    scope = text(1, SCOPE) + text(2, version)
    body = b"".join(message(2, _metric(name, points, interval)) for name, points in by_name.items())
    return message(1, message(1, resource) + message(2, message(1, scope) + body))


def _metric(name: str, points: list[ClientMetric], interval: SumInterval) -> bytes:
    data = b"".join(message(1, _point(point, interval)) for point in points)
    if not points[0].total:
        return text(1, name) + message(_GAUGE, data)
    temporality = number(2, _DELTA if interval.delta else _CUMULATIVE) + number(3, 1)  # monotonic
    return text(1, name) + message(_SUM, data + temporality)


def _point(point: ClientMetric, interval: SumInterval) -> bytes:
    begin = fixed64(2, pack("<Q", interval.begin_ns)) if point.total else b""
    attributes = b"".join(message(7, _attribute(key, value)) for key, value in point.attributes)
    value = fixed64(4, pack("<d", point.value))
    return attributes + begin + fixed64(3, pack("<Q", interval.end_ns)) + value


def _attribute(key: str, value: str) -> bytes:
    return text(1, key) + message(2, text(1, value))
