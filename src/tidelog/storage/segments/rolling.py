"""How old a segment may get before another one begins.  Pure; the rule itself is in `_speed/log/append.pyx`."""

from __future__ import annotations

from random import Random

from tidelog.config import TopicConfig
from tidelog.storage.segments.segment import ALWAYS, NEVER, Segment


def jitter_ms(config: TopicConfig, random: Random) -> int:
    """Segments that started together need not end together."""
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(jitter_max) if jitter_max > 0 else 0


def age_ms_max(config: TopicConfig) -> int:
    """The active segment is never compacted: it must end in time for `max.compaction.lag.ms`."""
    if "compact" in config.cleanup_policy:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def set_limits(segment: Segment, config: TopicConfig) -> None:
    """After every change of the settings, the jitter, or the first batch."""
    segment.age_ms_max = age_ms_max(config) - segment.jitter_ms
    segment.roll_at = _roll_at(segment)


def _roll_at(segment: Segment) -> int:
    if segment.index_full:
        return ALWAYS
    if segment.size == segment.reserved == 0:
        return NEVER
    if segment.first_timestamp < 0:
        return ALWAYS  # batches without a time: only the clock knows
    return min(segment.first_timestamp + segment.age_ms_max, NEVER)
