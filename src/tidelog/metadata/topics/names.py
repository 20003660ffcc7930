"""Which topic names are valid, and which collide with others in metric names.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidelog.errors import InvalidTopicException

LENGTH_MAX = 249
INTERNAL = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__delayed_records")
)
CLUSTER_METADATA = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicException, which says what is wrong with the name."""
    if not name:
        raise InvalidTopicException("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicException(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > LENGTH_MAX:
        raise InvalidTopicException(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicException(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def plain(name: str) -> str:
    """The form of the name in metric names, where '.' and '_' are the same."""
    return name.replace(".", "_")


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """The names that other names could collide with, by their form in metric names."""
    return {plain(name): name for name in names if "." in name or "_" in name}


def check_collision(name: str, taken: Mapping[str, str]) -> None:
    """`taken` comes from `plain_names`."""
    other = taken.get(plain(name), name) if "." in name or "_" in name else name
    if other != name:
        raise InvalidTopicException(
            f"Topic '{name}' collides with existing topic: {other} (the names differ only in '.' and '_')"
        )
