"""Where to start reading, as people write it.  Pure: the time is passed in."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, NamedTuple

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMES = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end"}


class BadStart(ValueError):
    pass


class Start(NamedTuple):
    """`value`: the offset, how many records before the end, or the time in milliseconds."""

    kind: Literal["beginning", "end", "offset", "last", "time"]
    value: int = 0


def duration_ms(text: str) -> int | None:
    """The duration of a text like `10m` or `1.5h`; None for other texts."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else int(float(match[1]) * _UNITS_MS[match[2]])


def moment_ms(text: str) -> int:
    """Local time unless it has an offset; raises ValueError or OverflowError."""
    return max(0, int(datetime.fromisoformat(text.strip()).timestamp() * 1000))


def parse_start(text: str, now_ms: int) -> Start:
    plain = text.strip()
    if plain.lower() in _NAMES:
        return Start("beginning" if _NAMES[plain.lower()] == "beginning" else "end")
    if plain.isdecimal():
        return Start("offset", int(plain))
    if plain[:1] == "-" and plain[1:].isdecimal():
        return Start("last", int(plain[1:]))
    if plain[:1] == "-" and (ago_ms := duration_ms(plain[1:])) is not None:
        return Start("time", max(0, now_ms - ago_ms))
    try:
        return Start("time", moment_ms(plain))
    except (ValueError, OverflowError):
        raise BadStart(
            f"{text!r} is not a start position: use beginning, end, an offset, -N for the last N, a time like "
            "2026-01-31T09:00, or how long ago, like -10m"
        ) from None
