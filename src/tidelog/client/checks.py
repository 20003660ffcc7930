"""Checks of options and arguments; the error names the option.  Pure."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


def whole(name: str, value: object, least: int, most: int = INT64_MAX) -> None:
    """A whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r} ({type(value).__name__})")
    if value < least:
        raise ValueError(f"{name} cannot be {value}: it must be at least {least}")
    if value > most:
        raise ValueError(f"{name} cannot be {value}: it must be at most {most}")


def text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r} ({type(value).__name__})")


def truth(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def time(name: str, value: Any) -> None:
    """Milliseconds since 1970."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number of milliseconds since 1970, not {value!r} ({type(value).__name__})"
        ) from None
    if not 0 <= number <= INT64_MAX:
        raise ValueError(f"{name} cannot be {number}: it is in milliseconds since 1970")


def record_parts(headers: Any, partition: Any) -> None:
    """Called for a record that was refused: raises if its headers or its partition are the reason."""
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"partition must be a whole number, not {partition!r} ({type(partition).__name__})")
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"headers are pairs of a name and bytes, not {pair!r}")
        name, value = pair
        if not isinstance(name, str | bytes):
            raise TypeError(f"the name of a header must be text, not {name!r} ({type(name).__name__})")
        if not isinstance(value, bytes | bytearray | memoryview | None):
            raise TypeError(
                f"header {name!r} must be bytes or None, not {type(value).__name__}: encode it first"
            )
