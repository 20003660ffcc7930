"""The metadata of the cluster: nodes, topics, the leader of each partition.  Pure and immutable; `Cluster`
replaces its topology with every answer to Metadata."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidelog import errors
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_ID = uuid.UUID(int=0)
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    topic: str
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()


def under_replicated(replicas: Collection[int], adding: Collection[int], in_sync: Collection[int]) -> bool:
    """Fewer are in sync than there should be.  Replicas that a move adds do not count before they are in sync: moving a
    partition takes nothing away from it.  This is what Kafka's metric of that name counts."""
    return len(in_sync) < len(replicas) - len(adding)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: uuid.UUID
    partitions: tuple[Partition, ...]
    internal: bool = False
    error: int = errors.NONE

    def partition(self, index: int) -> Partition | None:
        """Partitions are numbered without gaps, but an answer may leave some out."""
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((partition for partition in self.partitions if partition.index == index), None)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller`: the broker that takes changes, -1 when none is known."""

    id: str | None
    controller: int
    nodes: Mapping[int, Node]


@dataclass(frozen=True, slots=True)
class Topology:
    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    controller: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))

    def partition(self, of: TopicPartition) -> Partition | None:
        topic = self.topics.get(of.topic)
        return topic.partition(of.partition) if topic is not None else None

    def leader(self, of: TopicPartition) -> int | None:
        """The leading node's id, when there is one and its address is known."""
        partition = self.partition(of)
        return partition.leader if partition is not None and partition.leader in self.nodes else None

    def led(self, of: TopicPartition, leader: int, epoch: int, nodes: Iterable[Node]) -> Topology:
        """The topology after a broker has named the partition's leader; this very object if that is no news."""
        topic, current = self.topics.get(of.topic), self.partition(of)
        if topic is None or current is None or current.leader_epoch >= epoch:
            return self
        known_nodes = {**self.nodes, **{node.id: node for node in nodes}}
        if leader not in known_nodes:
            return self
        learned = replace(current, leader=leader, leader_epoch=epoch)
        partitions = tuple(learned if partition is current else partition for partition in topic.partitions)
        topics = {**self.topics, of.topic: replace(topic, partitions=partitions)}
        return replace(self, nodes=MappingProxyType(known_nodes), topics=MappingProxyType(topics))

    def answered(self, answer: MetadataResponse) -> Topology:
        """The topics in the answer replace their former metadata; other topics stay."""
        topics = dict(self.topics)
        for topic in answer.topics or []:
            if topic.name is not None:
                topics[topic.name] = _newer(topics.get(topic.name), _topic(topic.name, topic))
        nodes = {b.node_id: Node(b.node_id, b.host or "", b.port, b.rack) for b in answer.brokers or []}
        return Topology(
            # A broker that has just started may not know anybody yet: keep the addresses that worked.
            nodes=MappingProxyType(nodes) if nodes else self.nodes,
            controller=answer.controller_id,
            cluster_id=answer.cluster_id,
            topics=MappingProxyType(topics),
        )


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = sorted(topic.partitions or [], key=lambda partition: partition.partition_index)
    return Topic(
        name=name,
        id=topic.topic_id,
        partitions=tuple(_partition(name, partition) for partition in partitions),
        internal=topic.is_internal,
        error=topic.error_code,
    )


def _partition(topic: str, partition: MetadataResponsePartition) -> Partition:
    return Partition(
        topic=topic,
        index=partition.partition_index,
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes or ()),
        in_sync=tuple(partition.isr_nodes or ()),
        offline=tuple(partition.offline_replicas or ()),
    )


def _newer(current: Topic | None, learned: Topic) -> Topic:
    """A broker that lags behind must not talk us back to a leader that was deposed."""
    if current is None or current.id != learned.id or current.id == NO_ID:
        return learned
    partitions = []
    for partition in learned.partitions:
        before = current.partition(partition.index)
        stale = before is not None and before.leader_epoch > partition.leader_epoch
        partitions.append(before if stale and before is not None else partition)
    return replace(learned, partitions=tuple(partitions))
