"""Requests of share groups to other brokers: share state, a partition's bounds, appending dead letters.

Each request goes to the leader of its partition; if that is this broker, the call is local.  While the leader moves or
loads, the request is repeated for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tidelog import errors
from tidelog.coordination.internal_topic import partition_for
from tidelog.groups.share.group_state import (
    UNKNOWN_START,
    ShareKey,
    ShareState,
    StateWrite,
    TransactionMember,
)
from tidelog.groups.share.in_flight import StateBatch, UndecidedBatch
from tidelog.groups.share.state_coordinator import STATE_TOPIC, ShareStateCoordinator, coordinator_key
from tidelog.metadata.controller import Controller
from tidelog.net.requester import Requester
from tidelog.replication.commit_status import committed_within
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.types import NodeId
from tidelog.wire.messages import delete_share_group_state as delete
from tidelog.wire.messages import initialize_share_group_state as initialize
from tidelog.wire.messages import list_offsets, produce
from tidelog.wire.messages import read_share_group_state as read
from tidelog.wire.messages import read_share_group_state_summary as summary
from tidelog.wire.messages import write_share_group_state as write

T = TypeVar("T")

RETRY_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
COMMIT_TIMEOUT_MS = 30_000
LATEST, EARLIEST = -1, -2
ACKS_ALL = -1
WRITES_INTERNAL = "__admin_client"  # the client that may write to internal topics
PRODUCE_VERSION = 12  # the last that names topics
RETRIED = (
    errors.NetworkException,
    errors.NotCoordinator,
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.BrokerNotAvailable,
    errors.RequestTimedOut,
)


class ClusterPersister:
    """The `SharePersister` of a cluster: the shard of a key is led by this broker or by another one."""

    def __init__(
        self, node: NodeId, controller: Controller, shards: ShareStateCoordinator, peers: Peers
    ) -> None:
        self._node = node
        self._controller = controller
        self._shards = shards
        self._peers = peers

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        await self._shards.topic.ensure()
        request = initialize.InitializeShareGroupStateRequest(
            key.group,
            [
                initialize.InitializeStateData(
                    key.topic_id, [initialize.PartitionData(key.partition, state_epoch, start)]
                )
            ],
        )
        await self._either(
            key,
            lambda: self._shards.initialize(key, state_epoch, start),
            request,
            initialize.InitializeShareGroupStateResponse,
            lambda _: None,
        )

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        await self._shards.topic.ensure()
        request = read.ReadShareGroupStateRequest(
            key.group, [read.ReadStateData(key.topic_id, [read.PartitionData(key.partition, leader_epoch)])]
        )
        return await self._either(
            key,
            lambda: self._shards.read(key, leader_epoch),
            request,
            read.ReadShareGroupStateResponse,
            lambda state: ShareState(
                0,
                state.state_epoch,
                leader_epoch,
                state.start_offset,
                0,
                tuple(
                    StateBatch(
                        batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
                    )
                    for batch in state.state_batches
                ),
                0,
                0,
                tuple(
                    UndecidedBatch(
                        batch.producer_id,
                        batch.first_offset,
                        batch.last_offset,
                        batch.delivery_state,
                        batch.delivery_count,
                    )
                    for batch in state.undecided_batches
                ),
            ),
        )

    async def write(self, key: ShareKey, update: StateWrite) -> None:
        await self._either(
            key,
            lambda: self._shards.write(key, update),
            _write_request(key, update),
            write.WriteShareGroupStateResponse,
            lambda _: None,
        )

    async def join(self, key: ShareKey, update: StateWrite, transaction: TransactionMember) -> None:
        request = _write_request(key, update)
        request.transactional_id, request.producer_id, request.producer_epoch = transaction
        await self._either(
            key,
            lambda: self._shards.join(key, update, transaction),
            request,
            write.WriteShareGroupStateResponse,
            lambda _: None,
        )

    async def delete(self, key: ShareKey) -> None:
        request = delete.DeleteShareGroupStateRequest(
            key.group, [delete.DeleteStateData(key.topic_id, [delete.PartitionData(key.partition)])]
        )
        await self._either(
            key,
            lambda: self._shards.delete(key),
            request,
            delete.DeleteShareGroupStateResponse,
            lambda _: None,
        )

    async def summary(self, key: ShareKey) -> ShareState | None:
        if self._shards.topic.count(self._controller.image) is None:
            return None  # no state was ever written
        request = summary.ReadShareGroupStateSummaryRequest(
            key.group, [summary.ReadStateSummaryData(key.topic_id, [summary.PartitionData(key.partition, 0)])]
        )
        return await self._either(
            key,
            lambda: self._shards.summary(key),
            request,
            summary.ReadShareGroupStateSummaryResponse,
            _summarized,
        )

    async def _either(
        self,
        key: ShareKey,
        call_local: Callable[[], Awaitable[T]],
        request: Any,
        response: type[Any],
        taken: Callable[[Any], T],
    ) -> T:
        """The shard's answer, from this broker or from its leader."""
        problem: errors.TidelogError = errors.CoordinatorNotAvailable(
            f"no broker is the share coordinator of {key} now: try again"
        )
        for wait_s in RETRY_S:
            if wait_s:
                await asyncio.sleep(wait_s)
            leader = self._leader(key)
            if leader is None:
                continue
            try:
                if leader == self._node:
                    return await call_local()
                answer = await self._peers.ask(leader, request, response, timeout_ms=self._timeout_ms)
                (result,) = [partition for topic in answer.results for partition in topic.partitions]
                if result.error_code != errors.NONE:
                    raise errors.by_code(result.error_code)(result.error_message or f"{key}: broker {leader}")
                return taken(result)
            except RETRIED as again:
                problem = again
        raise problem

    def _leader(self, key: ShareKey) -> NodeId | None:
        image = self._controller.image
        count = self._shards.topic.count(image)
        if count is None:
            return None
        partition = image.partition(STATE_TOPIC, partition_for(coordinator_key(key), count))
        return None if partition is None else partition.leader

    @property
    def _timeout_ms(self) -> int:
        return self._controller.config().share_coordinator_write_timeout_ms


def _write_request(key: ShareKey, update: StateWrite) -> write.WriteShareGroupStateRequest:
    part = write.PartitionData(
        key.partition,
        update.state_epoch,
        update.leader_epoch,
        update.start,
        update.finished,
        [write.StateBatch(*batch) for batch in update.batches],
    )
    return write.WriteShareGroupStateRequest(key.group, [write.WriteStateData(key.topic_id, [part])])


def _summarized(result: summary.PartitionResult) -> ShareState | None:
    """None for a state at epoch 0 without a start: this stands for a state that does not exist."""
    if result.start_offset == UNKNOWN_START and result.state_epoch == 0 and result.leader_epoch == 0:
        return None
    finished = max(result.delivery_complete_count, 0)
    return ShareState(0, result.state_epoch, result.leader_epoch, result.start_offset, finished, (), 0, 0)


class RemotePartitions:
    """Access to partitions, whichever broker leads them."""

    def __init__(self, node: NodeId, partitions: Partitions, peers: Peers) -> None:
        self._node = node
        self._partitions = partitions
        self._peers = peers
        self._producing: dict[NodeId, Requester] = {}
        self._connecting: dict[NodeId, asyncio.Lock] = {}

    async def bounds(self, topic: str, index: int) -> tuple[int, int]:
        """(log start offset, high watermark) of a partition."""
        leader = self._leader(topic, index)
        if leader == self._node:
            partition = self._partitions.led_here(topic, index)
            return partition.log.start, partition.state.committed
        start, end = [await self._offset(leader, topic, index, at) for at in (EARLIEST, LATEST)]
        return start, end

    async def _offset(self, leader: NodeId, topic: str, index: int, timestamp: int) -> int:
        part = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(topic, [part])]
        )
        answer = await self._peers.ask(leader, request, list_offsets.ListOffsetsResponse)
        (result,) = [partition for topic_answer in answer.topics for partition in topic_answer.partitions]
        if result.error_code != errors.NONE:
            raise errors.by_code(result.error_code)(f"{topic}-{index}: broker {leader}")
        return result.offset

    async def append(self, topic: str, index: int, batch: bytes, now_ms: int) -> int:
        """Appends a batch; returns its first offset when all in-sync replicas have it."""
        leader = self._leader(topic, index)
        if leader == self._node:
            return await _append_here(self._partitions.led_here(topic, index), batch, now_ms)
        part = produce.PartitionProduceData(index, batch)
        request = produce.ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=COMMIT_TIMEOUT_MS,
            topic_data=[produce.TopicProduceData(topic, partition_data=[part])],
        )
        connection = await self._producing_to(leader)
        answer = await connection.ask(request, produce.ProduceResponse, version=PRODUCE_VERSION)
        (result,) = [
            partition for topic_answer in answer.responses for partition in topic_answer.partition_responses
        ]
        if result.error_code != errors.NONE:
            raise errors.by_code(result.error_code)(
                result.error_message or f"{topic}-{index}: broker {leader}"
            )
        return result.base_offset

    async def _producing_to(self, leader: NodeId) -> Requester:
        """A connection for batches alone: what waits for replicas holds up nothing else."""
        async with self._connecting.setdefault(leader, asyncio.Lock()):
            connection = self._producing.get(leader)
            if connection is None or connection.broken is not None:
                try:
                    connection = self._producing[leader] = await self._peers.connect(leader, WRITES_INTERNAL)
                except errors.NetworkException as problem:
                    # Nothing was sent yet, so the batch may be sent to the next leader.
                    raise errors.BrokerNotAvailable(str(problem)) from problem
            return connection

    def close(self) -> None:
        for connection in self._producing.values():
            connection.close()
        self._producing.clear()

    def _leader(self, topic: str, index: int) -> NodeId:
        leader = self._partitions.leader_of(topic, index)
        if leader is None:
            raise errors.UnknownTopicOrPartition(f"partition {topic}-{index} does not exist")
        if leader[0] < 0:
            raise errors.LeaderNotAvailable(f"{topic}-{index} has no leader now")
        return NodeId(leader[0])


async def _append_here(partition: HostedPartition, batch: bytes, now_ms: int) -> int:
    appended = partition.append(memoryview(bytearray(batch)), now_ms, True)
    await committed_within(partition, appended, COMMIT_TIMEOUT_MS)
    return appended.base
