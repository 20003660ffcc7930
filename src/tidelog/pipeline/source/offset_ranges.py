"""Which task reads what: ranges of offsets, cut where one partition is to keep several tasks busy.  Pure."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `start` on, below `end`."""

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
    """At least `pieces_min` ranges where there are as many offsets, none larger than `size_max`; large ranges are
    cut into more pieces than small ones.  Empty ranges are left out."""
    wanted = sorted((one for one in ranges if one.size > 0), key=lambda one: (one.partition, one.start))
    if size_max is not None:
        wanted = [piece for one in wanted for piece in _cut(one, math.ceil(one.size / size_max))]
    if pieces_min is None or len(wanted) >= pieces_min:
        return wanted
    total = sum(one.size for one in wanted)
    # Small ranges stay whole and take none of the cuts that the others need.
    large = [one for one in wanted if one.size * pieces_min > total]
    rest = pieces_min - (len(wanted) - len(large))
    large_total = sum(one.size for one in large)
    cut = []
    for one in wanted:
        share = math.ceil(one.size * rest / large_total) if one in large else 1
        cut += _cut(one, max(1, share))
    return cut


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    pieces = min(pieces, whole.size)
    edges = [whole.start + whole.size * one // pieces for one in range(pieces + 1)]
    return [OffsetRange(whole.partition, *edge, whole.topic_id) for edge in pairwise(edges)]


def admit(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], records_max: int
) -> dict[TopicPartition, int]:
    """New ends, with no more than `records_max` offsets between: each partition gets its share of what there is,
    and what is left over by rounding goes to the first that have more."""
    sizes = {one: max(0, end[one] - start[one]) for one in end}
    total = sum(sizes.values())
    if total <= records_max:
        return dict(end)
    shares = {one: size * records_max // total for one, size in sizes.items()}
    left = records_max - sum(shares.values())
    for one in sorted(sizes, key=lambda each: (shares[each], each)):
        if left and shares[one] < sizes[one]:
            shares[one] += 1
            left -= 1
    # An end below its start is a log that has become shorter: it stays.
    return {one: min(end[one], start[one] + shares[one]) for one in end}
