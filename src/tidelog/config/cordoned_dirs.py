"""Cordoned log directories (`cordoned.log.dirs`, KIP-1066): they keep what they have, and get no new partitions.  Pure."""

from __future__ import annotations

import os
from collections.abc import Collection

from tidelog.errors import InvalidConfig

ALL = "*"


def check_cordoned(cordoned: Collection[str], log_dirs: Collection[str]) -> None:
    if ALL in cordoned:
        if len(cordoned) > 1:
            raise InvalidConfig("When cordoned.log.dirs is set to *, it must not contain other values")
        return
    missing = [path for path in cordoned if path not in log_dirs]
    if missing:
        raise InvalidConfig(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )


def is_cordoned(path: str, cordoned: Collection[str]) -> bool:
    return ALL in cordoned or path in cordoned


def cordoned_paths(log_dirs: Collection[str], cordoned: Collection[str]) -> frozenset[str]:
    """Absolute, as log directories name themselves."""
    return frozenset(os.path.abspath(path) for path in log_dirs if is_cordoned(path, cordoned))


def are_all_cordoned(log_dirs: Collection[str], cordoned: Collection[str]) -> bool:
    """False for a broker of an earlier version, which does not tell its directories."""
    return bool(log_dirs) and all(is_cordoned(path, cordoned) for path in log_dirs)
