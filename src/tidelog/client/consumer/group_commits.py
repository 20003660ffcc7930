"""Commits that the application asks for, and committed offsets, at the group's coordinator or in an offset store.
`Consumer` owns the only instance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidelog.client.consumer.assigned_partitions import Partitions, flat
from tidelog.client.consumer.commits import Callback, Commits
from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.client.groups.metadata import OffsetAndMetadata, Offsets, with_metadata
from tidelog.types import TopicPartition


class GroupCommits:
    def __init__(self, runtime: ConsumerRuntime) -> None:
        self._runtime = runtime

    async def commit(self, offsets: Offsets | None, timeout_ms: int | None = None) -> None:
        await self._commits().commit(self._to_commit(offsets), timeout_ms)

    def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> asyncio.Task[None]:
        return self._commits().commit_async(self._to_commit(offsets), callback)

    async def committed(
        self, partitions: Iterable[Partitions]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._commits()
        assert self._runtime.offsets is not None
        chosen = flat(partitions) or list(self._runtime.fetcher().assigned)
        offsets = await self._runtime.offsets.load(chosen)
        return {partition: offsets.get(partition) for partition in chosen}

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is not None:
            return with_metadata(offsets)
        handed_out = self._commits().handed_out()
        iterator = self._runtime.iterator
        return handed_out if iterator is None else iterator.positions(handed_out)

    def _commits(self) -> Commits:
        self._runtime.fetcher()
        if self._runtime.commits is None:
            raise ValueError(
                "a consumer without a group_id has nowhere to commit offsets to: give it a group_id, or an offset_store"
            )
        return self._runtime.commits
