"""Which segments of a log may go: those too old, those past the size, those below the log's start.  Pure.

Only whole segments go, only from the front, and only below what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

UNLIMITED = -1


class SegmentFacts(Protocol):
    """A segment as seen from here; timestamps are looked up only for segments in question."""

    @property
    def size(self) -> int: ...
    def age_from(self) -> int:
        """When its newest record was made, in milliseconds."""
        ...


_AS_RETENTION = -2


class RetentionSettings(Protocol):
    @property
    def retention_ms(self) -> int: ...
    @property
    def retention_bytes(self) -> int: ...
    @property
    def local_retention_ms(self) -> int: ...
    @property
    def local_retention_bytes(self) -> int: ...


def local_retention(config: RetentionSettings) -> tuple[int, int]:
    """(milliseconds, bytes) that stay on the broker's disk once they are in remote storage."""
    return (
        config.retention_ms if config.local_retention_ms == _AS_RETENTION else config.local_retention_ms,
        config.retention_bytes
        if config.local_retention_bytes == _AS_RETENTION
        else config.local_retention_bytes,
    )


def deletable(
    segments: Sequence[SegmentFacts],
    ends: Sequence[int],
    *,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
    start: int,
    committed: int,
) -> int:
    """How many segments from the front may go; `ends` are the offsets after each.  All of them means that the
    last one, which is appended to, has to be replaced by an empty one first.  A topic that is only compacted
    passes UNLIMITED twice."""
    bound = _bound(segments, ends, committed)
    count = 0
    if retention_ms != UNLIMITED:
        while count < bound and now_ms - segments[count].age_from() > retention_ms:
            count += 1
    if retention_bytes != UNLIMITED:
        excess = sum(segment.size for segment in segments[count:]) - retention_bytes
        while count < bound and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    while count < bound and count + 1 < len(segments) and ends[count] <= start:
        count += 1
    return count


def _bound(segments: Sequence[SegmentFacts], ends: Sequence[int], committed: int) -> int:
    for number, end in enumerate(ends):
        if end > committed:
            return number
    # The last segment, when there is nothing in it, is as good as the one that would replace it.
    return len(segments) - (segments[-1].size == 0)
