"""The two replica fetchers from one leader: one for replicas in sync, one for replicas that catch up.

Producers wait for replicas that are in sync; those that catch up fetch as much as there is.  In one fetch the first would
get their few records only with the many of the others, so each kind has a connection and a session of its own.
`replica_fetchers` makes one of these for each leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from tidelog.replication.follower_fetch import Key
from tidelog.replication.partition import HostedPartition
from tidelog.replication.replica_fetcher import Following, ReplicaFetcher
from tidelog.replication.throttle import NO_LIMIT
from tidelog.types import Epoch

# Long answers keep both brokers from serving others for a while, short ones waste round trips: a move goes half as fast
# as with 1 MiB, and producers beside it wait half as long.
CATCH_UP_BYTES_MAX = 1 << 18
UNWRITTEN_BYTES_MAX = 8 << 20


class LeaderFetchers:
    def __init__(self, fetcher: Callable[[int, int], ReplicaFetcher]) -> None:
        """`fetcher` makes one, for answers of so many bytes at most, with so many bytes that are not on disk yet."""
        self._in_sync = fetcher(NO_LIMIT, NO_LIMIT)
        self._behind = fetcher(CATCH_UP_BYTES_MAX, UNWRITTEN_BYTES_MAX)
        self._in_sync.beside, self._behind.beside = self._behind, self._in_sync

    def __len__(self) -> int:
        return len(self._in_sync.followed) + len(self._behind.followed)

    def follow(self, partition: HostedPartition, epoch: Epoch) -> None:
        """Also when its replica here has come to be in sync, or has fallen behind."""
        key, fetcher = _key(partition), self._fetcher(partition)
        if fetcher.followed.get(key) == (partition, epoch):
            return
        if key in fetcher.beside.followed:
            fetcher.beside.drop(key)
            fetcher.beside.wake()
        fetcher.follow(key, Following(partition, epoch))

    def drop(self, partition: HostedPartition) -> None:
        for fetcher in (self._in_sync, self._behind):
            fetcher.drop(_key(partition))

    def _fetcher(self, partition: HostedPartition) -> ReplicaFetcher:
        return self._in_sync if partition.in_sync_here else self._behind

    async def run(self) -> None:
        """For ever; cancelled by its owner."""
        # A TaskGroup would end them in the order of their addresses in memory.
        fetchers = [asyncio.create_task(fetcher.run()) for fetcher in (self._in_sync, self._behind)]
        try:
            await asyncio.gather(*fetchers)
        finally:
            for fetcher in fetchers:
                fetcher.cancel()
            await asyncio.gather(*fetchers, return_exceptions=True)


def _key(partition: HostedPartition) -> Key:
    return UUID(bytes=partition.topic_id), partition.index
