"""Keeps the partitions that one broker leads, and this node follows, in step with it, in two lanes.

Producers wait for replicas that are in sync; those that catch up fetch as much as there is.  In one fetch the first would
get their few records only with the many of the others, so each kind has a connection and a session of its own.
`followers` makes one of these for each leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from tidelog.replication.following import Key
from tidelog.replication.lane import Following, Lane
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import NO_LIMIT
from tidelog.types import Epoch

# Long answers keep both brokers from serving others for a while, short ones waste round trips: a move goes half as fast
# as with 1 MiB, and producers beside it wait half as long.
CATCH_UP_BYTES_MAX = 1 << 18
UNWRITTEN_BYTES_MAX = 8 << 20


class Follower:
    def __init__(self, lane: Callable[[int, int], Lane]) -> None:
        """`lane` makes one, for answers of so many bytes at most, with so many bytes that are not on disk yet."""
        self._in_sync = lane(NO_LIMIT, NO_LIMIT)
        self._behind = lane(CATCH_UP_BYTES_MAX, UNWRITTEN_BYTES_MAX)
        self._in_sync.beside, self._behind.beside = self._behind, self._in_sync

    def __len__(self) -> int:
        return len(self._in_sync.followed) + len(self._behind.followed)

    def follow(self, partition: Partition, epoch: Epoch) -> None:
        """Also when its replica here has come to be in sync, or has fallen behind."""
        key, lane = _key(partition), self._lane(partition)
        if lane.followed.get(key) == (partition, epoch):
            return
        if key in lane.beside.followed:
            lane.beside.drop(key)
            lane.beside.wake()
        lane.follow(key, Following(partition, epoch))

    def drop(self, partition: Partition) -> None:
        for lane in (self._in_sync, self._behind):
            lane.drop(_key(partition))

    def _lane(self, partition: Partition) -> Lane:
        return self._in_sync if partition.in_sync_here else self._behind

    async def run(self) -> None:
        """For ever; cancelled by its owner."""
        async with asyncio.TaskGroup() as lanes:
            for lane in (self._in_sync, self._behind):
                lanes.create_task(lane.run())


def _key(partition: Partition) -> Key:
    return UUID(bytes=partition.topic_id), partition.index
