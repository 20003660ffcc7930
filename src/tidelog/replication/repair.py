"""Repairs damaged logs of this broker with the bytes of replicas that are not damaged.

A damaged replica first leaves the in-sync set and the leadership, and stops fetching, so no leader counts it.  Then it
overwrites each bad range with the leader's bytes (`storage.restoring`).  If these do not fit into the same place, it
truncates its log before the damage and follows from there.  It does so only when it is no holder, its leader is not damaged
and no join is under way, so no record is lost that only this replica has.  The last holder keeps its place and asks any
other replica for the bytes; an operator has `tidelog log repair`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog import errors
from tidelog._speed.log.batch import Header
from tidelog.config.damaged_partitions import DAMAGED, parse_damaged
from tidelog.metadata.image.image import Image, PartitionImage
from tidelog.metadata.records import Cause
from tidelog.net.requester import R, Request
from tidelog.record.reader import read_batches
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.damaged_logs import damaged_logs
from tidelog.storage.integrity.restoring import fits, restore
from tidelog.types import NodeId, Offset, TopicPartition
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

log = logging.getLogger("tidelog.repair")

LOOK_S = 0.5
TRIES_MAX = 10  # looks at a leader that cannot give a range yet, before the log is cut
TELL_EVERY = 120  # looks
FETCH_BYTES = 1 << 20
RANGE_BYTES_MAX = 64 << 20
BROKER = 4


class RepairMetadata(Protocol):
    @property
    def image(self) -> Image: ...
    async def give_up(
        self, name: TopicPartition, cause: Cause, reach: Callable[[], tuple[int, int]]
    ) -> bool: ...
    async def raise_epoch(self, name: TopicPartition) -> bool: ...


class ReplicaRequest(Protocol):
    async def ask(
        self, node: NodeId, request: Request, response: type[R], *, timeout_ms: int | None = None
    ) -> R: ...


class Given(NamedTuple):
    """A range as another replica has it."""

    data: bytes
    headers: list[Header]


class Later(Exception):
    """The other replica cannot give the range now."""


class Repair:
    def __init__(
        self,
        node: NodeId,
        dirs: LogDirs,
        partitions: Partitions,
        metadata: RepairMetadata,
        peers: ReplicaRequest,
        truncated: Callable[[HostedPartition], None],
        repaired: Callable[[TopicPartition], None],
    ) -> None:
        """`truncated` and `repaired` are called after the change of a log."""
        self.restored = 0
        """Ranges that were written anew since the start."""
        self.cut = 0
        """Logs that were cut before their damage since the start."""
        self._node = node
        self._dirs = dirs
        self._partitions = partitions
        self._metadata = metadata
        self._peers = peers
        self._truncated = truncated
        self._repaired = repaired
        self._looks: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """For ever: looks for damaged logs."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        damaged = damaged_logs(self._dirs.dirs)
        for name in [name for name in self._looks if name not in damaged]:
            del self._looks[name]
        for name in damaged:
            try:
                await self._mend(name)
            except (errors.TidelogError, Later) as problem:
                self._tell(name, f"is not repaired yet: {problem}")

    async def _mend(self, name: TopicPartition) -> None:
        stored, partition = self._metadata.image.partition(*name), self._partitions.of_log(name)
        if stored is None or partition is None or self._node not in stored.replicas:
            return
        self._looks[name] = self._looks.get(name, -1) + 1
        if self._node in stored.holders:
            if await self._metadata.give_up(name, Cause.DAMAGED, lambda: _reach(partition)):
                log.warning("%s is damaged here: this broker is in doubt, and leaves its in-sync set", name)
            elif self._node not in stored.doubted:
                await self._mend_last_holder(partition, stored)
        elif stored.leader is not None and stored.leader != self._node:
            await self._mend_follower(partition, stored.leader)
        else:
            self._tell(name, "is damaged here, and nobody leads it who could repair it")

    async def _mend_last_holder(self, partition: HostedPartition, stored: PartitionImage) -> None:
        live = {broker.node_id for broker in self._metadata.image.live_brokers} - {self._node}
        for node in stored.replicas:
            if node in live and not partition.log.damaged:
                break
            if node in live:
                try:
                    await self._restore(partition, NodeId(node))
                except (errors.TidelogError, Later) as problem:
                    log.debug("broker %d cannot repair %s: %s", node, partition.name, problem)
        if partition.log.damaged:
            bad = partition.log.damaged[0]
            self._tell(
                partition.name,
                f"is damaged from offset {bad.start} to {bad.end}, and no other replica has all that was acknowledged: "
                "readers have to skip it, or `tidelog log repair` does so for good",
            )

    async def _mend_follower(self, partition: HostedPartition, leader: NodeId) -> None:
        try:
            whole = await self._restore(partition, leader)
        except Later:
            if self._looks[partition.name] < TRIES_MAX:
                raise
            whole = False
        if whole or not partition.log.damaged:
            return
        if partition.name in await self._damaged_at(leader):
            raise Later(f"its leader, broker {leader}, is damaged too")
        await self._cut(partition, leader)

    async def _restore(self, partition: HostedPartition, node: NodeId) -> bool:
        """All ranges, as broker `node` has them; false when one cannot take its old place."""
        for bad in partition.log.damaged:
            given = await self._fetch(partition, node, bad)
            if given is None or not fits(bad, len(given.data)):
                return False
            if not await restore(partition.log, bad, given.data, given.headers):
                return False
            self.restored += 1
            log.warning(
                "%s: offsets %d to %d are whole again, from broker %d",
                partition.name,
                bad.start,
                bad.end,
                node,
            )
        self._repaired(partition.name)
        return True

    async def _cut(self, partition: HostedPartition, leader: NodeId) -> None:
        name, damaged_log = partition.name, partition.log
        # What this broker has asked for in the old epoch could still bring it into the in-sync set.
        if not await self._metadata.raise_epoch(name):
            return
        stored = self._metadata.image.partition(*name)
        if stored is None or stored.leader != leader or self._node in stored.holders:
            return
        if not damaged_log.damaged or damaged_log.next != damaged_log.end or partition.leader != leader:
            return
        log.warning(
            "%s is cut from %d to %d, before its damage", name, damaged_log.end, damaged_log.damaged[0].start
        )
        partition.truncate_to(Offset(damaged_log.damaged[0].start))
        self.cut += 1
        self._truncated(partition)
        self._repaired(name)

    # Asking others

    async def _fetch(self, partition: HostedPartition, node: NodeId, bad: BadRange) -> Given | None:
        """None when the other replica does not have the range in a form that can take its place."""
        data, headers, offset = bytearray(), list[Header](), bad.start
        if bad.size > RANGE_BYTES_MAX:
            return None
        while offset < bad.end:
            part = await self._ask(partition, node, offset)
            if part.error_code == errors.OffsetOutOfRange.code:
                return None
            if part.error_code != errors.NONE:
                raise Later(f"broker {node} says {errors.by_code(part.error_code).__name__}")
            if part.high_watermark < bad.end:
                raise Later(f"broker {node} has only {part.high_watermark} as committed")
            before = offset
            for batch in read_batches(part.records or b""):
                header = batch.header
                if header.last_offset < offset:
                    continue
                if header.base_offset < offset or header.last_offset >= bad.end > header.base_offset:
                    return None
                if header.base_offset >= bad.end:
                    return Given(bytes(data), headers)
                data += batch.view
                headers.append(header)
                offset = header.last_offset + 1
            if offset == before:
                break  # a gap up to the end of the range
        return Given(bytes(data), headers)

    async def _ask(self, partition: HostedPartition, node: NodeId, offset: int) -> PartitionData:
        wanted = FetchPartition(
            partition=partition.index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        topic = FetchTopic(topic_id=UUID(bytes=partition.topic_id), partitions=[wanted])
        answer = await self._peers.ask(node, FetchRequest(topics=[topic]), FetchResponse)
        if answer.error_code != errors.NONE or not answer.responses:
            raise Later(f"broker {node} refused a fetch")
        return answer.responses[0].partitions[0]

    async def _damaged_at(self, node: NodeId) -> set[TopicPartition]:
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name=str(node), configuration_keys=[DAMAGED]
        )
        answer = await self._peers.ask(
            node, DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
        )
        values = [config.value or "" for result in answer.results for config in result.configs]
        return set(parse_damaged(values[0])) if values else set()

    def _tell(self, name: TopicPartition, message: str) -> None:
        """Once in a while."""
        if self._looks.get(name, 0) % TELL_EVERY in (0, TRIES_MAX + 1):
            log.error("%s %s", name, message)


def _reach(partition: HostedPartition) -> tuple[int, int]:
    return partition.log.epochs.latest, partition.log.end
