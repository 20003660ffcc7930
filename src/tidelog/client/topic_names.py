"""Which names a topic can have.  Pure.

Brokers refuse other names when a topic is created; a reader of a topic that can never exist would wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tidelog.errors import InvalidTopicException

NAME_SIZE_MAX = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")


def check_topic(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is text, not {type(name).__name__} ({name!r})")
    if not name:
        raise InvalidTopicException("a topic's name cannot be empty")
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise InvalidTopicException(
            f"a topic's name cannot be {name!r}: use letters, digits, '.', '_' and '-'"
        )
    if len(name) > NAME_SIZE_MAX:
        raise InvalidTopicException(
            f"a topic's name cannot have {len(name)} characters: {NAME_SIZE_MAX} at most"
        )


def names_of(given: str | Iterable[str]) -> list[str]:
    """A list of names: a text is one name, not its letters."""
    return [given] if isinstance(given, str) else list(given)


def check_dead_letters(
    name: str, topics: Collection[str], pattern: re.Pattern[str] | None, assigned: Collection[str]
) -> None:
    """The consumer must not read its own dead letter topic."""
    check_topic(name)
    if name in topics or name in assigned:
        raise ValueError(f"dead_letter_topic cannot be {name!r}: this consumer reads it, and would never end")
    if pattern is not None and pattern.fullmatch(name):
        raise ValueError(
            f"dead_letter_topic cannot be {name!r}: the pattern {pattern.pattern!r} that is subscribed matches it"
        )
