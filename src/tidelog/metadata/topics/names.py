"""Which names topics may have.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidelog.errors import InvalidTopicException

LENGTH_MAX = 249
INTERNAL = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
CLUSTER_METADATA = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """InvalidTopicException says what is wrong with the name."""
    if not name:
        raise InvalidTopicException("a topic's name cannot be empty")
    if name in (".", ".."):
        raise InvalidTopicException(f"a topic's name cannot be {name!r}")
    if len(name) > LENGTH_MAX:
        raise InvalidTopicException(
            f"a topic's name has at most {LENGTH_MAX} characters, this one {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicException(
            f"a topic's name has only letters, digits, '.', '_' and '-' (of ASCII), not {name!r}"
        )


def plain(name: str) -> str:
    """What a name becomes in names of metrics, where '.' and '_' are one."""
    return name.replace(".", "_")


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """The names that others could collide with, by what they become."""
    return {plain(name): name for name in names if "." in name or "_" in name}


def check_collision(name: str, taken: Mapping[str, str]) -> None:
    """`taken` comes from `plain_names`."""
    other = taken.get(plain(name), name) if "." in name or "_" in name else name
    if other != name:
        raise InvalidTopicException(f"topic {name!r} collides with topic {other!r}: only . and _ differ")
