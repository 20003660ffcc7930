"""Amounts as people write them on a command line or in a form: 1KB, 500MB/s, 7d, 1e9.  Pure.

KB, MB and so on are powers of 1000, KiB, MiB powers of 1024; bit units (Gbit) are eighths."""

from __future__ import annotations

import math
import re

_SIZE = re.compile(
    r"\s*(?P<number>[0-9._]+(?:e[+-]?[0-9]+)?)\s*(?P<scale>[kmgtpe]i?)?(?P<unit>b|byte|bytes|bit|bits)?\s*(?:/\s*s|ps)?\s*",
    re.IGNORECASE,
)
_DURATION = re.compile(r"\s*([0-9._]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_SCALES = "kmgtpe"
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


class BadAmount(ValueError):
    """What was written, and what would have been understood."""


def size(text: str) -> float:
    """Bytes, or bytes a second: 1KB, 1 KiB, 500MB/s, 10Gbit."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadAmount(f"{text!r} is not a size: write 1KB, 1.5GiB, 500MB/s or 10Gbit")
    amount = _number(match["number"], text)
    if match["scale"]:
        base = 1024.0 if match["scale"].lower().endswith("i") else 1000.0
        amount *= base ** (1 + _SCALES.index(match["scale"][0].lower()))
    return amount / 8 if (match["unit"] or "").lower().startswith("bit") else amount


def duration(text: str) -> float:
    """Seconds: 7d, 36h, 2w."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2].lower() not in _SECONDS:
        raise BadAmount(f"{text!r} is not a time: write 7d, 36h or 2w")
    return _number(match[1], text) * _SECONDS[match[2].lower()]


def count(text: str) -> float:
    """1e9, 1_000_000, 20M, 1G."""
    match = _SIZE.fullmatch(text)
    if match is None or match["unit"] or (match["scale"] or "").lower().endswith("i") or "/" in text:
        raise BadAmount(f"{text!r} is not a number: write 1e9, 1_000_000 or 20M")
    return _number(match["number"], text) * (
        1000.0 ** (1 + _SCALES.index(match["scale"].lower())) if match["scale"] else 1
    )


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise BadAmount(f"{whole!r} does not begin with a number") from None
    if not math.isfinite(number) or number <= 0:
        raise BadAmount(f"{whole!r} must be greater than zero")
    return number


def size_text(amount: float) -> str:
    """21 TB, 11.6 MB"""
    scale = 0
    while amount >= 999.5 and scale < len(_UNITS) - 1:
        amount /= 1000
        scale += 1
    return f"{amount:.3g} {_UNITS[scale]}"
