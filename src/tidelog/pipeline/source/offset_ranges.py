"""The offset ranges that tasks read; a large range is cut, so that several tasks read one partition.  Pure."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from `start` up to `end`, exclusive."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], pieces_min: int | None, size_max: int | None = None
) -> list[OffsetRange]:
    """At least `pieces_min` ranges if there are as many offsets, none larger than `size_max`.  Large ranges are cut into
    more pieces than small ones; empty ranges are left out."""
    wanted = sorted(
        (offset_range for offset_range in ranges if offset_range.size > 0),
        key=lambda offset_range: (offset_range.partition, offset_range.start),
    )
    if size_max is not None:
        wanted = [
            piece
            for offset_range in wanted
            for piece in _cut(offset_range, math.ceil(offset_range.size / size_max))
        ]
    if pieces_min is None or len(wanted) >= pieces_min:
        return wanted
    total = sum(offset_range.size for offset_range in wanted)
    # Small ranges stay whole and take none of the cuts that the others need.
    large = [offset_range for offset_range in wanted if offset_range.size * pieces_min > total]
    rest = pieces_min - (len(wanted) - len(large))
    large_total = sum(offset_range.size for offset_range in large)
    cut = []
    for offset_range in wanted:
        share = math.ceil(offset_range.size * rest / large_total) if offset_range in large else 1
        cut += _cut(offset_range, max(1, share))
    return cut


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    pieces = min(pieces, whole.size)
    edges = [whole.start + whole.size * piece // pieces for piece in range(pieces + 1)]
    return [OffsetRange(whole.partition, *edge, whole.topic_id) for edge in pairwise(edges)]


def admit(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], records_max: int
) -> dict[TopicPartition, int]:
    """New ends, so that at most `records_max` offsets are read.  Each partition gets a share in proportion to its offsets;
    the rest from rounding goes to the first partitions that have more."""
    sizes = {partition: max(0, end[partition] - start[partition]) for partition in end}
    total = sum(sizes.values())
    if total <= records_max:
        return dict(end)
    shares = {partition: size * records_max // total for partition, size in sizes.items()}
    left = records_max - sum(shares.values())
    for partition in sorted(sizes, key=lambda partition: (shares[partition], partition)):
        if left and shares[partition] < sizes[partition]:
            shares[partition] += 1
            left -= 1
    # An end below its start means that the log is now shorter: the end stays.
    return {partition: min(end[partition], start[partition] + shares[partition]) for partition in end}
