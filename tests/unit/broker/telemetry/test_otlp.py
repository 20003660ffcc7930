"""OpenTelemetry metrics as clients encode them, and bytes that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.telemetry.otlp import MetricPoint, read_metrics
from tidelog.errors import InvalidRecord


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    return part(number, content.encode())


def fixed(number: int, code: str, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack(code, value)


def attribute(number: int, name: str, value: bytes) -> bytes:
    return part(number, text(1, name) + part(2, value))


def metrics(*metric: bytes) -> bytes:
    """ResourceMetrics, ScopeMetrics, and the metrics."""
    resource = part(1, attribute(1, "service", text(1, "x")))
    return part(1, resource + part(2, text(3, "a schema") + b"".join(part(2, one) for one in metric)))


def total(name: str, *points: bytes, delta: bool = True) -> bytes:
    temporality = varint(2 << 3) + varint(1 if delta else 2)
    return text(1, name) + part(7, b"".join(part(1, point) for point in points) + temporality)


def gauge(name: str, *points: bytes) -> bytes:
    return text(1, name) + text(3, "ms") + part(5, b"".join(part(1, point) for point in points))


def test_sums_gauges_and_histograms_are_read() -> None:
    node = attribute(7, "node.id", varint(3 << 3) + varint(7))
    topic = attribute(9, "topic", text(1, "orders"))
    histogram = part(1, topic + fixed(4, "<q", 3) + fixed(5, "<d", 4.5)) + varint(2 << 3) + varint(1)
    data = metrics(
        total("a.total", fixed(6, "<q", 5) + node),
        total("b.total", fixed(4, "<d", 2.5), delta=False),
        gauge("c", fixed(4, "<d", -1.0)),
        text(1, "d") + part(9, histogram),
    )
    assert read_metrics(data, 10) == [
        MetricPoint("a.total", (("node.id", "7"),), 5.0, True),
        MetricPoint("b.total", (), 2.5, False),
        MetricPoint("c", (), -1.0, False),
        MetricPoint("d.count", (("topic", "orders"),), 3.0, True),
        MetricPoint("d.sum", (("topic", "orders"),), 4.5, True),
    ]


def test_values_of_attributes_are_shown_as_text() -> None:
    values = [
        varint(2 << 3) + b"\x01",
        varint(3 << 3) + varint((1 << 64) - 2),
        fixed(4, "<d", 0.5),
        text(1, "\u00e9"),
    ]
    point = b"".join(attribute(7, str(number), value) for number, value in enumerate(values))
    (read,) = read_metrics(metrics(gauge("c", point)), 10)
    assert read.attributes == (("0", "true"), ("1", "-2"), ("2", "0.5"), ("3", "\u00e9"))


def test_there_is_a_bound_on_points() -> None:
    data = metrics(gauge("c", *[fixed(4, "<d", 1.0)] * 11))
    with pytest.raises(InvalidRecord, match="more than 10 points"):
        read_metrics(data, 10)
    assert len(read_metrics(data, 11)) == 11


def test_unknown_metrics_and_fields_are_skipped() -> None:
    summary = text(1, "s") + part(11, b"")
    assert read_metrics(metrics(summary, gauge("c"), text(1, "x")) + fixed(99, "<q", 1), 10) == []
    assert read_metrics(b"", 10) == []


@pytest.mark.parametrize(
    "data", [b"\x0a\x05ab", b"\x0b", b"\xff" * 11, b"\x0a", part(1, part(2, b"\x12\x7f"))]
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="no OpenTelemetry metrics"):
        read_metrics(data, 10)


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(data: bytes, place: int, byte: int) -> None:
    whole = bytearray(metrics(total("a", fixed(6, "<q", 5) + attribute(7, "k", text(1, "v")))))
    whole[place % len(whole)] = byte
    for candidate in (data, bytes(whole)):
        try:
            read_metrics(candidate, 10)
        except InvalidRecord:
            continue
