"""Which partitions of a follower's fetch session have no news for the follower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def split_unchanged(
    held: Mapping[Any, Any],
    wanted: Mapping[Any, Any],
    told: Mapping[Any, Any],
    follower: int,
    here: int,
    now_ms: int,
    unchanged: list[Any],
) -> list[tuple[Any, Any]]:
    changed = []
    for key, wish in wanted.items():
        partition = held.get(key)
        if (
            partition is None
            or key not in told
            or not _is_unchanged(partition, wish, told[key], follower, here)
        ):
            changed.append((key, wish))
            continue
        partition.state.follower_fetched(follower, partition.log.end, now_ms)
        unchanged.append(partition)
    return changed


def _is_unchanged(partition: Any, wish: Any, told: tuple[int, int], follower: int, here: int) -> bool:
    log, state = partition.log, partition.state
    return (
        partition.leader == here
        and wish[:2] == (state.epoch, log.end)
        and told == (state.committed, log.start)
        and follower in state.in_sync
        and state.follower_end(follower) == log.end
    )
