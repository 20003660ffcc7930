"""How the cluster is, from its metadata alone: who is missing, which partitions nobody leads.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.client.admin.replica_states import cause_words
from tidelog.client.cluster.topology import under_replicated
from tidelog.metadata.elections import awaited, choose_leader
from tidelog.metadata.leaderless import brokers_text
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.metadata.image import Image, PartitionImage, TopicImage


@dataclass
class Condition:
    topics: int = 0
    partitions: int = 0
    brokers: int = 0
    missing: set[NodeId] = field(default_factory=set)
    """Brokers that hold replicas and are not there."""
    offline: list[TopicPartition] = field(default_factory=list)
    under_replicated: list[TopicPartition] = field(default_factory=list)
    below_min: list[TopicPartition] = field(default_factory=list)
    """With fewer replicas in sync than producers with acks=all need."""
    awaiting: Counter[int] = field(default_factory=Counter)
    """By broker: how many partitions without a leader have one again when it returns."""
    needing_recovery: int = 0
    """Partitions without a leader that only an operator can decide."""

    @property
    def words(self) -> tuple[str, str]:
        """A level and a sentence."""
        if self.offline:
            return "bad", f"{many(len(self.offline), 'partition')} without a leader{self._why_offline()}"
        if self.below_min:
            return "bad", f"{many(len(self.below_min), 'partition')} cannot take acks=all"
        if self.missing:
            return "warn", f"{many(len(self.missing), 'broker')} missing"
        if self.under_replicated:
            return "warn", f"{many(len(self.under_replicated), 'partition')} under-replicated"
        return "good", "All well"

    def _why_offline(self) -> str:
        reasons = []
        if self.awaiting:
            reasons.append(f"waiting for {brokers_text(sorted(self.awaiting))}")
        if self.needing_recovery:
            reasons.append(f"{self.needing_recovery:,} for an operator to decide")
        return f": {', '.join(reasons)}" if reasons else ""


def many(count: int, noun: str) -> str:
    """1 broker, 2 brokers"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def condition(image: Image, min_default: int) -> Condition:
    """`min_default`: of min.insync.replicas, for topics that do not say."""
    found = Condition()
    live = {one.node_id for one in image.reachable_brokers}
    leading = {one.node_id for one in image.live_brokers}
    found.brokers = len(live)
    for topic in image.topics.values():
        found.topics += 1
        found.partitions += len(topic.partitions)
        least = min_in_sync(image, topic, min_default)
        for one in topic.partitions:
            name = TopicPartition(topic.name, one.index)
            found.missing.update(node for node in one.replicas if node not in live)
            if one.leader not in live:
                found.offline.append(name)
                if one.leader is None and choose_leader(one, leading, leading) is None:
                    nodes = awaited(one, leading)
                    found.awaiting.update(nodes)
                    found.needing_recovery += not nodes
            elif len(one.in_sync) < min(least, len(one.replicas)):
                found.below_min.append(name)
            if behind(one):
                found.under_replicated.append(name)
    return found


def min_in_sync(image: Image, topic: TopicImage, default: int) -> int:
    text = image.topic_overrides(topic.name).get("min.insync.replicas", "")
    return int(text) if text.isdecimal() else default


def behind(partition: PartitionImage) -> bool:
    """A replica that is being added does not count before it is there."""
    return under_replicated(partition.replicas, partition.adding, partition.in_sync)


def troubles(image: Image, topic: TopicImage) -> Iterator[tuple[str, str]]:
    """Levels and words for what is wrong with a topic."""
    live = {one.node_id for one in image.reachable_brokers}
    offline = sum(one.leader not in live for one in topic.partitions)
    late = sum(behind(one) for one in topic.partitions)
    if offline:
        yield "bad", f"{offline} offline"
    if late:
        yield "warn", f"{late} under-replicated"


def why_leaderless(partition: PartitionImage, live: Collection[NodeId]) -> list[str]:
    """Sentences: what a partition without a leader waits for, and why replicas are in doubt.  `live`: brokers that may
    lead."""
    if partition.leader is not None or choose_leader(partition, live, live) is not None:
        return []
    nodes = awaited(partition, live)
    if nodes:
        words = [f"Waits for {brokers_text(nodes)}."]
    else:
        words = ["An operator has to decide: see tidelog partitions recover."]
    return words + [f"Broker {tail.node}: {cause_words(tail.cause)}." for tail in partition.doubts]
