"""Where newly assigned partitions begin: at what was committed, else where `auto_offset_reset` says; and where
a seek by time leads.  One task looks up all partitions that wait for it.  `Fetcher` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import LATEST, list_offsets
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.client")


class CommittedOffsets(Protocol):
    """Whoever keeps committed offsets: the group's coordinator, or a store of the application's own."""

    async def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


class FetchPositions:
    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        committed: CommittedOffsets | None,
        changed: Callable[..., Any],
    ) -> None:
        """`changed` is called when a position was found or could not be."""
        self._cluster = cluster
        self._options = options
        self._committed = committed
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def begin(self, one: AssignedPartition) -> None:
        """A partition that was just assigned."""
        if self._committed is not None:
            one.seek_to_committed()
        else:
            self.reset(one)

    def reset(self, one: AssignedPartition, why: str | None = None) -> None:
        reset = self._options.auto_offset_reset
        if reset is not None:
            one.seek_by_look_up(reset)
        else:
            why = why or f"{one.partition} has no position"
            one.problem = errors.OffsetOutOfRange(f"{why}: seek, or set auto_offset_reset")

    def look(self, assigned: Mapping[TopicPartition, AssignedPartition]) -> None:
        """Starts looking, if anything waits for it."""
        if self._task is None and any(_waits(one) for one in assigned.values()):
            self._task = asyncio.get_running_loop().create_task(self._look(assigned), name="positions")
            self._task.add_done_callback(self._done)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            if (bug := task.exception()) is not None:
                log.error("looking up positions failed", exc_info=bug)
            self._changed()

    async def _look(self, assigned: Mapping[TopicPartition, AssignedPartition]) -> None:
        waiting = [one for one in assigned.values() if _waits(one)]
        await self._from_committed([one for one in waiting if one.needs_committed])
        await self._from_times([one for one in waiting if one.look_up is not None])

    async def _from_committed(self, waiting: list[AssignedPartition]) -> None:
        if not waiting or self._committed is None:
            return
        asked = [(one, one.generation) for one in waiting]
        try:
            found = await self._committed.load([one.partition for one in waiting])
        except errors.TidelogError as problem:
            _fail(asked, problem)
            return
        except Exception as problem:
            # An application's own store may raise anything: the reader hears of it.
            told = errors.UnknownServerError(f"offsets could not be loaded: {problem!r}")
            told.__cause__ = problem
            _fail(asked, told)
            return
        for one, generation in asked:
            if one.generation is generation:
                known = found.get(one.partition)
                if known is not None:
                    one.seek(known.offset, known.leader_epoch)
                else:
                    one.needs_committed = False
                    self.reset(one, f"{one.partition} has no committed offset")

    async def _from_times(self, waiting: list[AssignedPartition]) -> None:
        if not waiting:
            return
        asked = [(one, one.generation) for one in waiting]
        times = {one.partition: one.look_up for one in waiting if one.look_up is not None}
        try:
            found = await self._offsets(times)
            # No record is that late: reading goes on with the next one that comes.
            late = [partition for partition, answer in found.items() if answer.offset < 0]
            if late:
                found.update(await self._offsets(dict.fromkeys(late, LATEST)))
        except errors.TidelogError as problem:
            _fail(asked, problem)
            return
        for one, generation in asked:
            if one.generation is generation and one.partition in found:
                one.seek(found[one.partition].offset)

    async def _offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        timeout_ms = self._cluster.options.request_timeout_ms
        return await list_offsets(
            self._cluster, times, timeout_ms, read_committed=self._options.read_committed
        )


def _waits(one: AssignedPartition) -> bool:
    return (one.look_up is not None or one.needs_committed) and one.problem is None


def _fail(asked: Iterable[tuple[AssignedPartition, object]], problem: errors.TidelogError) -> None:
    for one, generation in asked:
        if one.generation is generation:
            # What it waits for stays: once the reader has heard of the problem, it is looked up again.
            one.problem = problem
