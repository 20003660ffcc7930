"""What was seen of a cluster at one time.  Pure facts, as brokers told them; `rows` makes figures of them.

Each broker tells of what it leads, holds and coordinates.  One that does not answer leaves what it told before, with
the time of that, so that nothing seems to have happened in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tidelog.client.cluster.topology import Node, Topic
from tidelog.types import TopicPartition

CLUSTER = -1  # where the problem of the whole cluster stands


class Seen(NamedTuple):
    """A number, and when it was so."""

    value: int
    at_ms: int


@dataclass(frozen=True)
class GroupSeen:
    """`members` is None where that could not be had.  `lags`: what the coordinator of a share group counts itself."""

    name: str
    type: str
    state: str
    members: int | None
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    lags: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True)
class BrokerSeen:
    """What one broker told.  `sizes` in bytes, of all replicas there; disks in bytes, None where it does not say."""

    at_ms: int
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: tuple[GroupSeen, ...] = ()
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None


@dataclass(frozen=True)
class Frame:
    """`at_ms` counts from anywhere, `time_ms` is the time of day.  `problems`: what could not be seen, in words, by the
    broker's id, or `CLUSTER`.  `adding`: replicas that moves add."""

    at_ms: int
    time_ms: int
    cluster_id: str | None
    controller: int
    nodes: Mapping[int, Node]
    topics: tuple[Topic, ...]
    brokers: Mapping[int, BrokerSeen]
    problems: Mapping[int, str] = field(default_factory=dict)
    adding: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def ends(self) -> dict[TopicPartition, Seen]:
        """Where two brokers say to lead a partition, the later word counts."""
        ends: dict[TopicPartition, Seen] = {}
        for broker in self._by_time():
            for partition, end in broker.ends.items():
                ends[partition] = Seen(end, broker.at_ms)
        return ends

    @cached_property
    def starts(self) -> dict[TopicPartition, int]:
        starts: dict[TopicPartition, int] = {}
        for broker in self._by_time():
            starts |= broker.starts
        return starts

    @cached_property
    def sizes(self) -> dict[TopicPartition, Seen]:
        """The size of the leader's replica of each partition."""
        sizes: dict[TopicPartition, Seen] = {}
        for topic in self.topics:
            for partition_info in topic.partitions:
                partition = TopicPartition(topic.name, partition_info.index)
                broker = self.brokers.get(partition_info.leader)
                if broker is not None and partition in broker.sizes:
                    sizes[partition] = Seen(broker.sizes[partition], broker.at_ms)
        return sizes

    @cached_property
    def groups(self) -> dict[str, tuple[GroupSeen, int, int]]:
        """Each with its coordinator and the time."""
        groups: dict[str, tuple[GroupSeen, int, int]] = {}
        for node, broker in sorted(self.brokers.items(), key=lambda item: item[1].at_ms):
            for group in broker.groups:
                groups[group.name] = (group, node, broker.at_ms)
        return groups

    def _by_time(self) -> Iterator[BrokerSeen]:
        yield from sorted(self.brokers.values(), key=lambda broker: broker.at_ms)
