"""The target of an offset reset, and the offset that it means in each partition.  Pure; `group_reset` asks the
brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.types import TopicPartition


class LogBounds(NamedTuple):
    start: int
    end: int


class ResetTarget(NamedTuple):
    """`kind`: earliest, latest, offset, shift or time.  `value`: the offset, by how much to shift, or the time in
    milliseconds."""

    kind: str
    value: int = 0


class NothingToShift(ValueError):
    """Partitions without an offset cannot be shifted; the message names one."""


def placed(
    target: ResetTarget,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, LogBounds],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The new offset of each partition.  Every offset lies within its log: a target outside of the log becomes its
    nearest end.  `at_time`: the first record that is not older than the target's time, -1 where there is none."""
    after = {}
    for partition in partitions:
        start, end = bounds[partition]
        if target.kind == "earliest":
            wanted = start
        elif target.kind == "latest":
            wanted = end
        elif target.kind == "offset":
            wanted = target.value
        elif target.kind == "shift":
            if partition not in committed:
                raise NothingToShift(
                    f"{partition} has no committed offset to shift: choose another place for it"
                )
            wanted = committed[partition] + target.value
        else:
            # Nothing is that late: go on with what comes next.
            wanted = at_time[partition] if at_time[partition] >= 0 else end
        after[partition] = min(max(wanted, start), end)
    return after
