"""The health of the cluster, from its metadata alone: missing brokers, and offline, under-replicated and
below-min-ISR partitions.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.client.admin.replica_states import cause_words
from tidelog.client.cluster.topology import under_replicated
from tidelog.metadata.elections.elections import awaited, choose_leader
from tidelog.metadata.elections.leaderless import brokers_text
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.metadata.image.image import Image, PartitionImage, TopicImage


HEALTHY = "Healthy"


@dataclass
class ClusterHealth:
    topics: int = 0
    partitions: int = 0
    brokers: int = 0
    missing: set[NodeId] = field(default_factory=set)
    """Brokers that hold replicas and cannot be reached."""
    offline: list[TopicPartition] = field(default_factory=list)
    under_replicated: list[TopicPartition] = field(default_factory=list)
    below_min: list[TopicPartition] = field(default_factory=list)
    """Partitions whose ISR is too small for producers with acks=all."""
    awaiting: Counter[int] = field(default_factory=Counter)
    """By broker: how many partitions without a leader get one when that broker returns."""
    needing_recovery: int = 0
    """How many partitions without a leader need an operator to choose one."""

    @property
    def summary(self) -> tuple[str, str]:
        """A level and a sentence: the worst problem."""
        if self.offline:
            return "bad", f"{many(len(self.offline), 'partition')} without a leader{self._why_offline()}"
        if self.below_min:
            return "bad", f"{many(len(self.below_min), 'partition')} below min.insync.replicas"
        if self.missing:
            return "warn", f"{many(len(self.missing), 'broker')} missing"
        if self.under_replicated:
            return "warn", f"{many(len(self.under_replicated), 'partition')} under-replicated"
        return "good", HEALTHY

    def _why_offline(self) -> str:
        reasons = []
        if self.awaiting:
            reasons.append(f"waiting for {brokers_text(sorted(self.awaiting))}")
        if self.needing_recovery:
            reasons.append(f"{self.needing_recovery:,} need an operator")
        return f": {', '.join(reasons)}" if reasons else ""


def many(count: int, noun: str) -> str:
    """1 broker, 2 brokers"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cluster_health(image: Image, min_default: int) -> ClusterHealth:
    """`min_default`: min.insync.replicas of topics without an override."""
    health = ClusterHealth()
    live = {broker.node_id for broker in image.reachable_brokers}
    leading = {broker.node_id for broker in image.live_brokers}
    health.brokers = len(live)
    for topic in image.topics.values():
        health.topics += 1
        health.partitions += len(topic.partitions)
        least = min_in_sync(image, topic, min_default)
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.index)
            health.missing.update(node for node in partition.replicas if node not in live)
            if partition.leader not in live:
                health.offline.append(name)
                if partition.leader is None and choose_leader(partition, leading, leading) is None:
                    nodes = awaited(partition, leading)
                    health.awaiting.update(nodes)
                    health.needing_recovery += not nodes
            elif len(partition.in_sync) < min(least, len(partition.replicas)):
                health.below_min.append(name)
            if is_under_replicated(partition):
                health.under_replicated.append(name)
    return health


def min_in_sync(image: Image, topic: TopicImage, default: int) -> int:
    text = image.topic_overrides(topic.name).get("min.insync.replicas", "")
    return int(text) if text.isdecimal() else default


def is_under_replicated(partition: PartitionImage) -> bool:
    """True if the partition is under-replicated; a replica that is still being added does not count."""
    return under_replicated(partition.replicas, partition.adding, partition.in_sync)


def topic_problems(image: Image, topic: TopicImage) -> Iterator[tuple[str, str]]:
    """Levels and texts: what is wrong with the partitions of a topic."""
    live = {broker.node_id for broker in image.reachable_brokers}
    offline = sum(partition.leader not in live for partition in topic.partitions)
    late = sum(is_under_replicated(partition) for partition in topic.partitions)
    if offline:
        yield "bad", f"{offline} offline"
    if late:
        yield "warn", f"{late} under-replicated"


def why_leaderless(partition: PartitionImage, live: Collection[NodeId]) -> list[str]:
    """Sentences: what a partition without a leader waits for, and why its replicas are in doubt.  `live`: the brokers
    that may lead."""
    if partition.leader is not None or choose_leader(partition, live, live) is not None:
        return []
    nodes = awaited(partition, live)
    if nodes:
        reasons = [f"Waiting for {brokers_text(nodes)}."]
    else:
        reasons = ["An operator has to choose a leader: see `tidelog partitions recover`."]
    return reasons + [f"Broker {tail.node}: {cause_words(tail.cause)}." for tail in partition.doubts]
