"""Transaction markers: appends the control record that ends a producer's transaction to each of its partitions.

Partitions of a coordinator's topic get the marker through their coordinator, which must apply the outcome to its state.
Partitions that another broker leads get it by WriteTxnMarkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.coordination.shard import Shard
from tidelog.replication.commit_status import Appended, committed_within, is_committed
from tidelog.replication.partition import Ending, HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.types import NodeId, TopicPartition
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NOBODY = -1


class MarkerWait(Protocol):
    async def __call__(self, timeout_ms: int) -> None:
        """Returns when the marker is on all in-sync replicas."""
        ...


class TransactionMarkers:
    def __init__(
        self,
        node: NodeId,
        partitions: Partitions,
        coordinators: Mapping[str, CoordinatorRuntime[Any]],
        clock: Clock,
        peers: Peers,
    ) -> None:
        """`coordinators` by the name of their internal topic."""
        self._node = node
        self._partitions = partitions
        self._coordinators = coordinators
        self._clock = clock
        self._peers = peers

    def append(self, name: TopicPartition, ending: Ending) -> MarkerWait | None:
        """Appends a marker, whichever broker leads the partition; None if the marker is committed already."""
        try:
            return self.append_here(name, ending)
        except errors.NotLeaderOrFollower:
            leader = self._partitions.leader_of(*name)
            if leader is None or leader[0] in (NOBODY, self._node):
                raise
            return _RemoteWait(self._peers, NodeId(leader[0]), name, ending)

    def append_here(self, name: TopicPartition, ending: Ending) -> MarkerWait | None:
        """As `append`, for partitions that this broker leads; raises the error of WriteTxnMarkers for others."""
        coordinator = self._coordinators.get(name.topic)
        if coordinator is not None:
            return self._append_to_shard(coordinator, name, ending)
        partition = self._partitions.led_here(*name)
        appended = partition.append_marker(ending, self._clock.now_ms())
        if appended.durable is None and is_committed(partition, appended):
            return None
        return _PartitionWait(partition, appended)

    def _append_to_shard(
        self, coordinator: CoordinatorRuntime[Any], name: TopicPartition, ending: Ending
    ) -> MarkerWait | None:
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

    def __init__(self, partition: HostedPartition, appended: Appended) -> None:
        self._partition = partition
        self._appended = appended

    async def __call__(self, timeout_ms: int) -> None:
        await committed_within(self._partition, self._appended, timeout_ms)


class _RemoteWait:
    __slots__ = ("_ending", "_leader", "_name", "_peers")

    def __init__(self, peers: Peers, leader: NodeId, name: TopicPartition, ending: Ending) -> None:
        self._peers = peers
        self._leader = leader
        self._name = name
        self._ending = ending

    async def __call__(self, timeout_ms: int) -> None:
        name, ending = self._name, self._ending
        marker = WritableTxnMarker(
            producer_id=ending.producer_id,
            producer_epoch=ending.epoch,
            transaction_result=ending.commit,
            topics=[WritableTxnMarkerTopic(name.topic, [name.partition])],
            coordinator_epoch=ending.coordinator_epoch,
            transaction_version=ending.version,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = await self._peers.ask(self._leader, request, WriteTxnMarkersResponse, timeout_ms=timeout_ms)
        for marker_result in answer.markers:
            for topic in marker_result.topics:
                for part in topic.partitions:
                    if part.error_code != errors.NONE:
                        raise errors.by_code(part.error_code)(
                            f"{name}: broker {self._leader} refused the marker"
                        )


class _ShardWait:
    __slots__ = ("_appended", "_shard")

    def __init__(self, shard: Shard[Any], appended: Appended) -> None:
        self._shard = shard
        self._appended = appended

    async def __call__(self, timeout_ms: int) -> None:
        await self._shard.committed(self._appended, timeout_ms)


__all__ = ["Ending", "MarkerWait", "TransactionMarkers"]
