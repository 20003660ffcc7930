"""The point that a backup is restored at."""

from __future__ import annotations

import pytest

from tidelog.backup.point import RestorePoint, batches_before, parse_point
from tidelog.errors import InvalidConfig
from tidelog.record.builder import BatchBuilder
from tidelog.types import TopicPartition

NOW_MS = 1_800_000_000_000
NAME = TopicPartition("orders-of-today", 3)


def batches(*times: tuple[int, ...]) -> bytes:
    """A batch for each row of timestamps."""
    data, offset = b"", 0
    for row in times:
        builder = BatchBuilder()
        for time_ms in row:
            builder.add(b"key", b"value", time_ms)
        data += builder.build(base_offset=offset)
        offset += len(row)
    return data


def test_times_and_offsets_are_told_apart() -> None:
    assert parse_point(None, NOW_MS).is_end
    assert parse_point("1970-01-01T00:01:00Z", NOW_MS) == RestorePoint(60_000)
    assert parse_point("1970-01-01T00:01:00", NOW_MS) == RestorePoint(60_000)
    assert parse_point("1970-01-01T02:01:00+02:00", NOW_MS) == RestorePoint(60_000)
    assert parse_point("60000", NOW_MS) == RestorePoint(60_000)
    assert parse_point("orders-of-today-3:17, a-0:0", NOW_MS).ends == {NAME: 17, TopicPartition("a", 0): 0}


@pytest.mark.parametrize("text", ["yesterday", "orders:5", "orders-x:5", "-0:5", "9999-01-01T00:00:00Z", "0"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_point(text, NOW_MS)


def test_a_log_ends_before_the_first_batch_that_is_late() -> None:
    data = batches((1, 2), (3, 9), (4,))
    first = len(batches((1, 2)))
    assert batches_before(RestorePoint(8), NAME, data, 5) == (first, 2, True)
    assert batches_before(RestorePoint(9), NAME, data, 5) == (len(data), 5, False)
    assert batches_before(RestorePoint(1), NAME, data, 5) == (0, -1, True)


def test_a_batch_that_goes_past_an_offset_is_left_out() -> None:
    data = batches((1, 2), (3, 9), (4,))
    for offset, end in ((0, -1), (1, -1), (2, 2), (3, 2), (4, 4), (5, 5)):
        assert batches_before(RestorePoint(ends={NAME: offset}), NAME, data, 5)[1] == end
    assert batches_before(RestorePoint(ends={TopicPartition("other", 0): 1}), NAME, data, 5)[1] == 5
