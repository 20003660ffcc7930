"""How much memory requests may take that wait: `queued.max.request.bytes`, or a share of what this process may have."""

from __future__ import annotations

import os

SHARE = 8
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def queued_bytes_max(setting: int) -> int:
    return setting if setting > 0 else memory_bytes() // SHARE


def memory_bytes() -> int:
    """The memory of the machine, or of the container if the container has less."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                most = min(most, int(file.read()))
        except (OSError, ValueError):
            continue  # not there, or "max"
    return most
