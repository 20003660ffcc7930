"""What an application may do when partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from tidelog.types import TopicPartition


class RebalanceListener:
    """Override what you need; the methods may be plain or `async`.  They run inside of `poll` (or between two
    records of an iteration), so no record is being processed meanwhile.

        class Counts(RebalanceListener):
            async def on_partitions_revoked(self, partitions):
                await store.save(counts)

    `on_partitions_lost` is for partitions that others may have already: nothing may be committed for them."""

    # One of the client's own is called on its loop, wherever others are.
    _own = False

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These are ours from now on; positions are known, and may be changed."""
        return None

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """The consumer loses these partitions when this method returns: commit processed records."""
        return None

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These are others' already; by default, what `on_partitions_revoked` does."""
        return self.on_partitions_revoked(partitions)
