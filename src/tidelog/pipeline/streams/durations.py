"""Durations as people write them: `10 minutes`, `1 hour 30 minutes`, `500 ms`.  Pure."""

from __future__ import annotations

from tidelog.pipeline.options.text import PipelineError

UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}

MS_MAX = 10_000 * 365 * 86_400_000


def duration_ms(text: str | None) -> int | None:
    """Parses a duration; None stays None."""
    if text is None:
        return None
    words = text.split()
    total = 0.0
    try:
        if not words or len(words) % 2:
            raise ValueError
        for number, unit in zip(words[::2], words[1::2], strict=True):
            total += float(number) * UNITS_MS[unit.lower()]
    except (ValueError, KeyError):
        raise PipelineError(f"{text!r} is not a duration: write it like '10 minutes' or '500 ms'") from None
    if not 1 <= total <= MS_MAX:
        raise PipelineError(f"{text!r} is not a duration: it must be at least 1 ms, and at most 10,000 years")
    return int(total)


def spark_interval(text: str) -> str:
    """The duration in Spark's notation."""
    return f"{duration_ms(text)} milliseconds"
