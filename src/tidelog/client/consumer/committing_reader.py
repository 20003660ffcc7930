"""A reader that commits its offsets to a group, asyncio face.  `Consumer` adds subscriptions to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidelog.client.cluster.cluster import Cluster
from tidelog.client.consumer.commits import Callback, Commits
from tidelog.client.consumer.offset_store import StoredOffsets
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.reader import Reader, flat
from tidelog.client.consumer.record_iterator import RecordIterator
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata, Offsets, with_metadata
from tidelog.client.groups.offsets import CoordinatorOffsets
from tidelog.client.groups.options import GroupOptions
from tidelog.client.groups.rebalancer import Rebalancer
from tidelog.types import TopicPartition


class CommittingReader(Reader):
    def __init__(self, cluster: Cluster, options: ConsumerOptions, group: GroupOptions) -> None:
        super().__init__(cluster, options)
        self._group = group
        self._offsets: CoordinatorOffsets | StoredOffsets | None = None
        self._commits: Commits | None = None
        self._part: Rebalancer | None = None
        self._iteration: RecordIterator | None = None

    async def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits these offsets (of the next record to read), or the positions behind what was handed out.

            await consumer.commit({TopicPartition("orders", 0): 43})

        Raises `CommitFailed` when the group goes on without this consumer, `RebalanceInProgress` when it
        must poll first."""
        await self._committing().commit(self._to_commit(offsets), timeout_ms)

    def commit_async(
        self, offsets: Offsets | None = None, callback: Callback | None = None
    ) -> asyncio.Task[None]:
        """Like `commit`, in the background; `callback` gets the offsets, and the error or None.

        consumer.commit_async(callback=lambda offsets, problem: print(problem or offsets))
        """
        return self._committing().commit_async(self._to_commit(offsets), callback)

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions, or for all that are assigned.

        kept = (await consumer.committed())[TopicPartition("orders", 0)]
        """
        self._committing()
        assert self._offsets is not None
        wanted = flat(partitions) or list(self._running().assigned)
        found = await self._offsets.load(wanted)
        return {one: found.get(one) for one in wanted}

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `send_offsets_to_transaction` of a producer.

        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        if self._part is not None and self._group.group_id is not None:
            return self._part.identity
        return GroupMetadata(self._group.group_id or "")

    def _committer(self) -> GroupMetadata | None:
        """Partitions that the group has given out are committed only by a member of it."""
        if self._part is not None and not self._part.in_group:
            return None
        return self.group_metadata()

    @property
    def _settled_in(self) -> bool:
        """It has partitions, or the group has none for it."""
        return bool(self.assignment()) or self._part is None or self._part.settled_in

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is not None:
            return with_metadata(offsets)
        if self._iteration is not None:
            return self._iteration.positions(self._committing().handed_out())
        return self._committing().handed_out()

    def _committing(self) -> Commits:
        self._running()
        if self._commits is None:
            raise ValueError(
                "without a group_id there is nobody to commit to: name a group, or an offset_store"
            )
        return self._commits
