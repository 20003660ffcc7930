"""Keeps the in-sync sets of the partitions that this node leads: who falls behind leaves, who has caught up joins.

A change is proposed to the metadata by compare-and-swap.  From that moment until its outcome is known, members of the
old and of the new set count alike, so a lost answer does no harm: whichever set is stored, all of it has what was
acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from tidelog import errors
from tidelog.clock import Clock
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import Partitions
from tidelog.storage.log import is_offline
from tidelog.types import Epoch, NodeId, TopicPartition

log = logging.getLogger("tidelog.in_sync")

RETRY_S = 0.5


class Metadata(Protocol):
    async def change_in_sync(
        self,
        name: TopicPartition,
        topic_id: UUID,
        leader_epoch: int,
        change: Callable[[frozenset[NodeId]], frozenset[NodeId]],
        joining: tuple[NodeId, int] | None,
    ) -> bool: ...


class InSync:
    def __init__(
        self,
        node: NodeId,
        partitions: Partitions,
        metadata: Metadata,
        clock: Clock,
        lag_ms_max: Callable[[], int],
        replicated: Callable[[], bool],
    ) -> None:
        """`replicated`: whether there can be followers at all; a broker alone need not look for any."""
        self._node = node
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._lag_ms_max = lag_ms_max
        self._replicated = replicated
        self._changing: dict[TopicPartition, asyncio.Task[None]] = {}

    def caught_up(self, partition: Partition, node: NodeId, broker_epoch: int) -> None:
        """A follower that is not in sync has what is committed: it may join."""
        if partition.name in self._changing or partition.state.proposed is not None:
            return
        joined = frozenset((node,))
        self._change(partition, partition.state.in_sync | joined, joined.union, (node, broker_epoch))

    async def run(self) -> None:
        """For ever: looks for followers that fall behind."""
        while True:
            await asyncio.sleep(self._lag_ms_max() / 2000)
            if self._replicated():
                self._shrink()

    def _shrink(self) -> None:
        now, lag = self._clock.monotonic_ms(), self._lag_ms_max()
        for partition in self._partitions.open_ones():
            state = partition.state
            if partition.leader != self._node or len(state.in_sync) < 2 or partition.name in self._changing:
                continue
            if is_offline(partition.log):
                continue  # it is this broker that has fallen behind
            behind = state.lagging(now, lag)
            if behind:
                log.info("%s: brokers %s have fallen behind", partition.name, sorted(behind))
                self._change(partition, state.in_sync - behind, partial(_without, behind), None)

    def _change(
        self,
        partition: Partition,
        proposed: frozenset[NodeId],
        change: Callable[[frozenset[NodeId]], frozenset[NodeId]],
        joining: tuple[NodeId, int] | None,
    ) -> None:
        partition.propose(proposed)
        work = self._store(partition, Epoch(partition.state.epoch), change, joining)
        task = asyncio.get_running_loop().create_task(work)
        self._changing[partition.name] = task
        task.add_done_callback(lambda _: self._changing.pop(partition.name, None))

    async def _store(
        self,
        partition: Partition,
        epoch: Epoch,
        change: Callable[[frozenset[NodeId]], frozenset[NodeId]],
        joining: tuple[NodeId, int] | None,
    ) -> None:
        topic_id = UUID(bytes=partition.topic_id)
        while partition.leader == self._node and partition.state.epoch == epoch:
            try:
                await self._metadata.change_in_sync(partition.name, topic_id, epoch, change, joining)
                break
            except errors.TidelogError as problem:
                # Nobody knows whether it was stored: both sets count until somebody does.
                log.warning("%s: its in-sync set cannot be changed now: %s", partition.name, problem)
                await asyncio.sleep(RETRY_S)
        if partition.state.epoch == epoch:
            partition.settled()

    async def stop(self) -> None:
        tasks = list(self._changing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _without(gone: frozenset[NodeId], stored: frozenset[NodeId]) -> frozenset[NodeId]:
    return stored - gone
