"""Markers: how a partition is told that a producer's transaction in it has ended.

A partition whose records are a coordinator's state is told through its coordinator, which has to know the outcome.
Partitions led by other brokers are not reached from here: whoever writes markers tries again until they are led here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.coordinator import Coordinator
from tidelog.coordination.shard import Shard, Writer
from tidelog.replication.partition import Appended, Ending, Partition
from tidelog.replication.partitions import Partitions
from tidelog.types import TopicPartition


class Wait(Protocol):
    async def __call__(self, timeout_ms: int) -> None:
        """Returns when the marker is on all in-sync replicas."""
        ...


class Markers:
    def __init__(
        self, partitions: Partitions, coordinators: Mapping[str, Coordinator[Any]], clock: Clock
    ) -> None:
        """`coordinators` by the topics that they keep their state in."""
        self._partitions = partitions
        self._coordinators = coordinators
        self._clock = clock

    def append(self, name: TopicPartition, ending: Ending) -> Wait | None:
        """None when it is there for good already.  Raises what the partition's leader would answer."""
        coordinator = self._coordinators.get(name.topic)
        if coordinator is not None:
            return self._append_to_shard(coordinator, name, ending)
        partition = self._partitions.led_here(*name)
        appended = partition.append_marker(ending, self._clock.now_ms())
        if appended.durable is None and partition.state.committed >= appended.end:
            return None
        return _PartitionWait(partition, appended)

    def _append_to_shard(
        self, coordinator: Coordinator[Any], name: TopicPartition, ending: Ending
    ) -> Wait | None:
        self._partitions.led_here(*name)
        try:
            shard = coordinator.shard_at(name.partition)
            appended = shard.end_transaction(ending)
        except (
            errors.CoordinatorLoadInProgress,
            errors.CoordinatorNotAvailable,
            errors.NotCoordinator,
        ) as problem:
            raise errors.NotLeaderOrFollower(str(problem)) from problem
        return None if shard.is_committed(appended) else _ShardWait(shard, appended)


class _PartitionWait:
    __slots__ = ("_appended", "_partition")

    def __init__(self, partition: Partition, appended: Appended) -> None:
        self._partition = partition
        self._appended = appended

    async def __call__(self, timeout_ms: int) -> None:
        partition, appended = self._partition, self._appended
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if appended.durable is not None:
                    await asyncio.shield(appended.durable)
                if partition.state.committed < appended.end:
                    await partition.commit_waits.wait(appended.end)
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"{partition.name}: the marker is not on all in-sync replicas yet"
            ) from None


class _ShardWait:
    __slots__ = ("_appended", "_shard")

    def __init__(self, shard: Shard[Any], appended: Appended) -> None:
        self._shard = shard
        self._appended = appended

    async def __call__(self, timeout_ms: int) -> None:
        await self._shard.committed(self._appended, timeout_ms)


__all__ = ["Ending", "Markers", "Wait", "Writer"]
