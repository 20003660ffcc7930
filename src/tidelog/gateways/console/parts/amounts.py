"""Numbers, sizes and times as people read them.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime

SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SCALES = ("", "k", "M", "G", "T", "P")
NOTHING = "–"


def count(number: int | None) -> str:
    """12,345"""
    return NOTHING if number is None else f"{number:,}"


def short(number: float | None) -> str:
    """12.3k"""
    if number is None:
        return NOTHING
    size, scale = abs(number), 0
    while size >= 999.5 and scale < len(SCALES) - 1:
        size /= 1000
        scale += 1
    sign = "-" if number < 0 else ""
    return f"{sign}{_three(size)}{SCALES[scale]}"


def size(number: float | None) -> str:
    """1.21 GiB"""
    if number is None or number < 0:
        return NOTHING
    left, scale = float(number), 0
    while left >= 1023.5 and scale < len(SIZES) - 1:
        left /= 1024
        scale += 1
    return f"{int(left) if scale == 0 else _three(left)} {SIZES[scale]}"


def _three(number: float) -> str:
    """Three significant digits."""
    if number >= 99.95 or number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


def moment(time_ms: int | None) -> str:
    """2026-01-31 09:00:00.123, in UTC."""
    if time_ms is None or time_ms < 0:
        return NOTHING
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def clock_time(time_ms: int) -> str:
    """09:00:05, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M:%S")


def duration(time_ms: float | None) -> str:
    """0.42 ms, 350 ms, 4.2 s, 3 min, 2 h, 5 d"""
    if time_ms is None or time_ms < 0:
        return NOTHING
    if time_ms < 1000:
        return f"{_three(time_ms) if time_ms < 10 else round(time_ms)} ms"
    seconds = time_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, length, limit in (("min", 60, 120), ("h", 3600, 48)):
        if seconds < length * limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
