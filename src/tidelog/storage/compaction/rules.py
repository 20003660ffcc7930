"""When to compact a log, and which part of it: decisions from facts, the rules of Kafka's log cleaner.

A log is clean below its first dirty offset: no key has two records there.  A round of compaction notes the keys of the
dirty part and rewrites every segment from the log's first up to it.  It never touches the active segment, uncommitted
records, and records younger than `min.compaction.lag.ms`.  `cleaner` acts on these decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.config import TopicConfig


class SealedSegment(NamedTuple):
    """A segment that gets no more appends."""

    base: int
    size: int
    max_timestamp: int
    first_timestamp: int
    """Largest timestamp of its first batch."""


class Dirt(NamedTuple):
    """How dirty a log is: segments in [first_dirty, bound) can be cleaned, those below are clean."""

    first_dirty: int
    bound: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """By how much the oldest dirty segment is past `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def worth_cleaning(self, config: TopicConfig) -> bool:
        if self.dirty_bytes == 0:
            return False
        return self.overdue_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio


def first_dirty(checkpoint: int | None, start: int, end: int) -> int:
    """Where the dirty stretch begins.  A checkpoint outside of the log says nothing: then all of it is dirty."""
    return checkpoint if checkpoint is not None and start <= checkpoint <= end else start


def dirt(
    sealed: Sequence[SealedSegment],
    active_base: int,
    dirty_from: int,
    stable: int,
    config: TopicConfig,
    now_ms: int,
) -> Dirt:
    """`sealed` are all segments but the active one; nothing at `stable` or beyond may be cleaned."""
    dirty = [segment for segment, end in _with_ends(sealed, active_base) if end > dirty_from]
    limit = min(stable, active_base)
    if config.min_compaction_lag_ms > 0:
        young = (s.base for s in dirty if s.max_timestamp > now_ms - config.min_compaction_lag_ms)
        limit = min([limit, *young])
    limit = max(limit, dirty_from)
    # Whole segments only: the bound is the base of the first one that reaches past the limit.
    bound = active_base
    for segment, end in _with_ends(sealed, active_base):
        if end > limit:
            bound = segment.base
            break
    cleanable = [segment for segment in dirty if segment.base < bound]
    clean_end = cleanable[0].base if cleanable else bound
    return Dirt(
        dirty_from,
        bound,
        sum(segment.size for segment in sealed if segment.base < clean_end),
        sum(segment.size for segment in cleanable),
        _overdue(cleanable, config, now_ms),
    )


def _overdue(dirty: Iterable[SealedSegment], config: TopicConfig, now_ms: int) -> int:
    times = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    return max(0, now_ms - config.max_compaction_lag_ms - min(times)) if times else 0


def _with_ends(sealed: Sequence[SealedSegment], active_base: int) -> Iterable[tuple[SealedSegment, int]]:
    bases = [*(segment.base for segment in sealed), active_base]
    return zip(sealed, bases[1:], strict=True)


class SegmentToRewrite(NamedTuple):
    """A segment to be rewritten."""

    base: int
    size: int
    index_bytes: int
    time_index_bytes: int


def group_sources(
    sources: Sequence[SegmentToRewrite], end: int, segment_bytes: int, index_bytes: int
) -> list[list[SegmentToRewrite]]:
    """Neighbours that fit into one segment together, so that segments do not shrink for ever; `end` is that of the
    last one.  Sizes before compaction count: what comes out is never larger by much."""
    groups: list[list[SegmentToRewrite]] = []
    size = index = time_index = 0
    for number, source in enumerate(sources):
        last = (sources[number + 1].base if number + 1 < len(sources) else end) - 1
        size += source.size
        index += source.index_bytes
        time_index += source.time_index_bytes
        if (
            groups
            and size <= segment_bytes
            and max(index, time_index) <= index_bytes
            and (source.size == 0 or last - groups[-1][0].base <= SEGMENT_OFFSETS_MAX)
        ):
            groups[-1].append(source)
        else:
            groups.append([source])
            size, index, time_index = source.size, source.index_bytes, source.time_index_bytes
    return groups
