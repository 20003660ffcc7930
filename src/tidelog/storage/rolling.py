"""When a segment is full: by size, by the age of its first batch, by its indexes, by the reach of its offsets.  Pure."""

from __future__ import annotations

from random import Random

from tidelog.config import TopicConfig
from tidelog.storage.segment import ALWAYS, NEVER, OFFSETS_MAX, Segment


def jitter_ms(config: TopicConfig, random: Random) -> int:
    """Segments that started together need not end together."""
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(jitter_max) if jitter_max > 0 else 0


def age_ms_max(config: TopicConfig) -> int:
    """The active segment is never compacted: it must end in time for `max.compaction.lag.ms`."""
    if "compact" in config.cleanup_policy:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def roll_at(segment: Segment, config: TopicConfig) -> int:
    """Only a timestamp above this can make the segment too old; what `due` says then counts."""
    if segment.index_full:
        return ALWAYS
    if segment.size == segment.reserved == 0:
        return NEVER
    if segment.first_timestamp < 0:
        return ALWAYS  # batches without a time: only the clock knows
    return min(segment.first_timestamp + age_ms_max(config) - segment.jitter_ms, NEVER)


def due(
    segment: Segment, config: TopicConfig, size: int, added: int, last: int, timestamp: int, now_ms: int
) -> bool:
    """Whether `added` bytes up to the offset `last` belong into a new segment; `size` is what is in this one,
    `timestamp` the largest of the new batches."""
    if last - segment.base > OFFSETS_MAX:
        return True
    if size == 0:
        return False
    if segment.first_timestamp >= 0 and timestamp >= 0:
        age_ms = timestamp - segment.first_timestamp
    else:
        age_ms = now_ms - segment.created_ms
    return (
        size + added > config.segment_bytes
        or age_ms > age_ms_max(config) - segment.jitter_ms
        or segment.index_full
    )
