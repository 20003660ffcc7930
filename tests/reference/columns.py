"""Fetched batches as rows, in plain Python: what `_speed.column_reader` must make of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelog.record import Marker, read_batches, read_marker


def rows_of(
    topic: str, partition: int, data: bytes, start: int, aborted: Iterable[tuple[int, int]]
) -> tuple[list[dict[str, Any]], int]:
    """The rows, and the offset to go on with."""
    coming = sorted(aborted, key=lambda one: one[1])
    open_aborts: set[int] = set()
    rows: list[dict[str, Any]] = []
    position = start
    for batch in read_batches(data):
        header = batch.header
        position = max(position, header.last_offset + 1)
        while coming and coming[0][1] <= header.last_offset:
            open_aborts.add(coming.pop(0)[0])
        if header.control:
            marker = read_marker(batch.records()[0])
            if marker is not None and marker.marker is Marker.ABORT:
                open_aborts.discard(header.producer_id)
            continue
        if header.transactional and header.producer_id in open_aborts:
            continue
        for one in batch.records():
            if one.offset >= start:
                rows.append(
                    {
                        "key": one.key,
                        "value": one.value,
                        "topic": topic,
                        "partition": partition,
                        "offset": one.offset,
                        "timestamp": one.timestamp,
                        "headers": [{"key": name, "value": value} for name, value in one.headers],
                    }
                )
    return rows, position
