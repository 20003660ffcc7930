"""What was fetched, as columns."""

from __future__ import annotations

import pytest

from tidelog import errors
from tidelog._speed.log.batch import stamp
from tidelog.client.consumer.fetch.arrow import take_columns
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.completed_fetch import CompletedFetch
from tidelog.record import BatchBuilder
from tidelog.types import TopicPartition


class Buffered:
    """As much of a fetcher as columns need."""

    def __init__(self, state: AssignedPartition) -> None:
        self._one = state

    def take_fetched(self) -> list[tuple[AssignedPartition, int, CompletedFetch]]:
        start, out = self._one.position or 0, []
        while (fetched := self._one.take_fetched()) is not None:
            out.append((self._one, start, fetched))
        return out


def batch(value: bytes, offset: int) -> bytes:
    builder = BatchBuilder()
    builder.add(None, value, 0, [])
    data = bytearray(builder.build())
    stamp(data, 0, offset, 0)
    return bytes(data)


def test_what_came_behind_a_bad_batch_waits_for_it() -> None:
    """Otherwise it would be handed out now, and again after the bad one is passed."""
    state = AssignedPartition(TopicPartition("t", 0))
    state.seek(0)
    bad = batch(b"bad", 1)[:-1] + b"?"
    state.fetched(batch(b"good", 0) + bad, 3, check_crc=True)
    state.fetched(batch(b"later", 2), 3, check_crc=True)
    (batches,) = take_columns(Buffered(state), check_crc=True)  # type: ignore[arg-type]
    assert batches.column("value").to_pylist() == [b"good"]
    assert state.position == 1
    state.fetched(bad, 3, check_crc=True)
    with pytest.raises(errors.CorruptMessage, match=r"t-0 at offset 1.*seek past it"):
        take_columns(Buffered(state), check_crc=True)  # type: ignore[arg-type]
