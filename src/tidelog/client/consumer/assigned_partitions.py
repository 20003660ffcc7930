"""The partitions that a consumer reads now: pausing, seeking, positions and lag.  `Consumer` owns the only instance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tidelog import errors
from tidelog.client import checks
from tidelog.client.cluster.list_offsets import OffsetAndTimestamp, list_offsets
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.types import TopicPartition

Partitions = TopicPartition | Iterable[TopicPartition]


class AssignedPartitions:
    def __init__(self, runtime: ConsumerRuntime) -> None:
        self._runtime = runtime

    def all(self) -> set[TopicPartition]:
        return set(self._runtime.fetcher().assigned)

    def pause(self, partitions: Iterable[Partitions]) -> None:
        chosen = self._chosen(partitions)
        for state in chosen:
            state.paused = True
        if self._runtime.iterator is not None:
            self._runtime.iterator.paused([state.partition for state in chosen])

    def resume(self, partitions: Iterable[Partitions]) -> None:
        for state in self._chosen(partitions):
            state.paused = False
        self._runtime.fetcher().wake()

    def paused(self) -> set[TopicPartition]:
        return {state.partition for state in self._runtime.fetcher().assigned.values() if state.paused}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        checks.whole("offset", offset, 0)
        for state in self._chosen((partition,)):
            state.seek(offset)
        self._runtime.moved()

    def seek_by_look_up(self, partitions: Iterable[Partitions], time_ms: int) -> None:
        """To where ListOffsets finds `time_ms`: a time, or `EARLIEST` or `LATEST`."""
        for state in self._chosen(partitions):
            state.seek_by_look_up(time_ms)
        self._runtime.moved()

    def go_back(self, positions: Mapping[TopicPartition, int]) -> None:
        """Records that were handed out above these positions are read again."""
        runtime = self._runtime
        if not runtime.started or runtime.closed:
            return
        assigned = runtime.fetcher().assigned
        for partition, offset in positions.items():
            state = assigned.get(partition)
            if state is not None:
                state.seek(offset, state.epoch)

    async def position(self, partition: TopicPartition) -> int:
        runtime = self._runtime
        (state,) = self._chosen((partition,))
        try:
            async with asyncio.timeout(runtime.timeout_ms / 1000):
                while state.position is None:
                    runtime.fetcher().raise_problem()
                    await runtime.fetcher().arrival(runtime.timeout_ms)
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"the position in {state.partition} was not known within {runtime.timeout_ms} ms"
            ) from None
        return state.position

    def lag(self) -> dict[TopicPartition, int]:
        lags = {}
        for partition, state in self._runtime.fetcher().assigned.items():
            end = state.stable_offset if self._runtime.config.fetch.read_committed else state.end_offset
            if end is not None and end >= 0 and state.position is not None:
                lags[partition] = max(0, end - state.position)
        return lags

    async def look_up(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time, of any partitions."""
        runtime = self._runtime
        runtime.fetcher()
        read_committed = runtime.config.fetch.read_committed
        return await list_offsets(runtime.cluster, times, runtime.timeout_ms, read_committed=read_committed)

    async def of_topic(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        self._runtime.fetcher()
        metadata = await self._runtime.cluster.topic(topic, self._runtime.timeout_ms)
        return [partition.index for partition in metadata.partitions]

    def _chosen(self, partitions: Iterable[Partitions]) -> list[AssignedPartition]:
        """Sets these partitions, or all that are assigned, to the start of their logs."""
        assigned = self._runtime.fetcher().assigned
        chosen = flat(partitions) or list(assigned)
        for partition in chosen:
            if partition not in assigned:
                raise ValueError(
                    f"{TopicPartition(*partition)} is not assigned to this consumer: assign it first"
                )
        return [assigned[partition] for partition in chosen]


def flat(partitions: Iterable[Partitions]) -> list[TopicPartition]:
    """`pause(a, b)` and `pause([a, b])` mean the same."""
    flattened: list[TopicPartition] = []
    for item in partitions:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            flattened.append(TopicPartition(*item))
        else:
            flattened += [TopicPartition(*partition) for partition in item]
    return flattened
