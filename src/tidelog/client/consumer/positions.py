"""The first positions of assigned partitions: the committed offset, else where `auto_offset_reset` says; and the
offset that a seek by time leads to.  One task looks up all partitions that wait for one.  `Fetcher` owns the only
instance."""

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
    """The keeper of committed offsets: the group's coordinator, or the application's own store."""

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
        """`changed` is called when positions were found, or the look-up has failed."""
        self._cluster = cluster
        self._options = options
        self._committed = committed
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def begin(self, state: AssignedPartition) -> None:
        """The partition was just assigned."""
        if self._committed is not None:
            state.seek_to_committed()
        else:
            self.reset(state)

    def reset(self, state: AssignedPartition, why: str | None = None) -> None:
        reset = self._options.auto_offset_reset
        if reset is not None:
            state.seek_by_look_up(reset)
        else:
            why = why or f"{state.partition} has no position"
            state.problem = errors.OffsetOutOfRange(f"{why}: seek, or set auto_offset_reset")

    def look(self, assigned: Mapping[TopicPartition, AssignedPartition]) -> None:
        """Starts a look-up, if a partition waits for one."""
        if self._task is None and any(_waits(state) for state in assigned.values()):
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
        waiting = [state for state in assigned.values() if _waits(state)]
        await self._from_committed([state for state in waiting if state.needs_committed])
        await self._from_times([state for state in waiting if state.look_up is not None])

    async def _from_committed(self, waiting: list[AssignedPartition]) -> None:
        if not waiting or self._committed is None:
            return
        generations = [(state, state.generation) for state in waiting]
        try:
            committed = await self._committed.load([state.partition for state in waiting])
        except errors.TidelogError as problem:
            _fail(generations, problem)
            return
        except Exception as problem:
            # An application's own store may raise anything: `poll` raises it.
            failure = errors.UnknownServerError(f"offsets could not be loaded: {problem!r}")
            failure.__cause__ = problem
            _fail(generations, failure)
            return
        for state, generation in generations:
            if state.generation is generation:
                offset = committed.get(state.partition)
                if offset is not None:
                    state.seek(offset.offset, offset.leader_epoch)
                else:
                    state.needs_committed = False
                    self.reset(state, f"{state.partition} has no committed offset")

    async def _from_times(self, waiting: list[AssignedPartition]) -> None:
        if not waiting:
            return
        generations = [(state, state.generation) for state in waiting]
        times = {state.partition: state.look_up for state in waiting if state.look_up is not None}
        try:
            offsets = await self._offsets(times)
            # No record is that late: reading goes on with the next record that is written.
            late = [partition for partition, answer in offsets.items() if answer.offset < 0]
            if late:
                offsets.update(await self._offsets(dict.fromkeys(late, LATEST)))
        except errors.TidelogError as problem:
            _fail(generations, problem)
            return
        for state, generation in generations:
            if state.generation is generation and state.partition in offsets:
                state.seek(offsets[state.partition].offset)

    async def _offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        timeout_ms = self._cluster.options.request_timeout_ms
        return await list_offsets(
            self._cluster, times, timeout_ms, read_committed=self._options.read_committed
        )


def _waits(state: AssignedPartition) -> bool:
    return (state.look_up is not None or state.needs_committed) and state.problem is None


def _fail(generations: Iterable[tuple[AssignedPartition, object]], problem: errors.TidelogError) -> None:
    for state, generation in generations:
        if state.generation is generation:
            # The wait stays: once `poll` has raised the problem, the position is looked up again.
            state.problem = problem
