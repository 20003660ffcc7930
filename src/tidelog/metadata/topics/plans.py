"""What a wish for a topic comes to: checked, its defaults filled in, its replicas placed.  Pure.

Errors and their order are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.metadata.image import Image, Topic
from tidelog.metadata.records import (
    PartitionRecord,
    Replicas,
    TopicRecord,
    encode_configs,
    put_partition,
    topic_config_key,
    topic_key,
)
from tidelog.metadata.store import Put
from tidelog.metadata.topics import placement
from tidelog.metadata.topics.names import CLUSTER_METADATA, check_collision, check_topic_name
from tidelog.types import NodeId

DEFAULT = -1
PARTITIONS_MAX_A_REQUEST = 10_000


class NewTopic(NamedTuple):
    """`assignment`: the replicas of each partition, when the client chose them itself."""

    name: str
    partitions: int = DEFAULT
    replication: int = DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class NewPartitions(NamedTuple):
    """`total` counts those that are there; `assignment` has the replicas of each new one, if they were chosen."""

    name: str
    total: int
    assignment: Sequence[Sequence[int]] | None = None


class TopicPlan(NamedTuple):
    name: str
    record: TopicRecord
    states: Mapping[int, PartitionRecord]
    configs: Mapping[str, str]

    def puts(self) -> list[Put]:
        """The states first: until the topic's own key is there, nobody looks at them."""
        puts = [put_partition(self.record.id, index, state) for index, state in self.states.items()]
        if self.configs:
            puts.append(Put(topic_config_key(self.name), encode_configs(self.configs)))
        puts.append(Put(topic_key(self.name), self.record.encode()))
        return puts


def plan_topic(
    image: Image, wanted: NewTopic, config: BrokerConfig, taken: Mapping[str, str], topic_id: UUID, start: int
) -> TopicPlan:
    """`taken` are the names it may collide with, `topic_id` and `start` are chance."""
    check_topic_name(wanted.name)
    if wanted.name == CLUSTER_METADATA:
        raise errors.InvalidRequest(f"{CLUSTER_METADATA} is internal and cannot be created")
    check_collision(wanted.name, taken)
    if wanted.name in image.topics:
        raise errors.TopicAlreadyExists(f"topic {wanted.name!r} exists already")
    configs = _checked_configs(wanted.configs, config)
    replicas = _replicas_of_topic(image, wanted, config, start)
    record = TopicRecord(topic_id, replicas)
    return TopicPlan(wanted.name, record, _states(image, dict(enumerate(replicas))), configs)


def check_total(wanted: Sequence[NewTopic], config: BrokerConfig) -> None:
    """A single request must not hold up everything else."""
    counts = (one.partitions if one.partitions > 0 else config.num_partitions for one in wanted)
    _check_count(sum(counts))


def plan_partitions(image: Image, wanted: NewPartitions, start: int) -> tuple[Topic, TopicPlan]:
    """(the topic as it is, the plan of what it becomes)"""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise errors.UnknownTopicOrPartition(f"no topic {wanted.name!r} here: check the name, or create it")
    have = len(topic.partitions)
    if wanted.total < have:
        raise errors.InvalidPartitions(
            f"topic {topic.name!r} has {have} partitions, and their number can only grow, not become {wanted.total}"
        )
    if wanted.total == have:
        raise errors.InvalidPartitions(f"topic {topic.name!r} has {have} partitions already")
    more = wanted.total - have
    _check_count(more)
    if wanted.assignment is not None:
        if len(wanted.assignment) != more:
            raise errors.InvalidReplicaAssignment(
                f"{more} partitions are to be added, and replicas are given for {len(wanted.assignment)}"
            )
        assignment = dict(enumerate(wanted.assignment, have))
        placement.check_assignment(assignment, have, image.brokers)
        added = _tuples(wanted.assignment)
        if len(added[0]) != len(topic.partitions[0].replicas):
            raise errors.InvalidReplicaAssignment(
                f"topic {topic.name!r} has {len(topic.partitions[0].replicas)} replicas, the new partitions {len(added[0])}"
            )
    else:
        added = placement.place(image.live_brokers, more, len(topic.partitions[0].replicas), start)
    replicas = tuple(partition.first_replicas for partition in topic.partitions) + added
    states = _states(image, dict(enumerate(added, have)))
    return topic, TopicPlan(topic.name, TopicRecord(topic.id, replicas), states, {})


def _checked_configs(configs: Mapping[str, str | None], config: BrokerConfig) -> dict[str, str]:
    for name, value in configs.items():
        if value is None:
            raise errors.InvalidConfig(f"{name} has no value: leave it out to get the default")
    TopicConfig.of(configs, config.topic_defaults).check()
    return {name: value for name, value in configs.items() if value is not None}


def _replicas_of_topic(
    image: Image, wanted: NewTopic, config: BrokerConfig, start: int
) -> tuple[Replicas, ...]:
    if wanted.assignment:
        if wanted.replication != DEFAULT or wanted.partitions != DEFAULT:
            raise errors.InvalidRequest(
                "with replicas chosen by hand, partitions and replication factor must be -1"
            )
        placement.check_assignment(wanted.assignment, 0, image.brokers)
        return _tuples([wanted.assignment[index] for index in range(len(wanted.assignment))])
    if wanted.replication < 1 and wanted.replication != DEFAULT:
        raise errors.InvalidReplicationFactor(
            f"the replication factor must be at least 1, or -1 for the default, not {wanted.replication}"
        )
    if wanted.partitions < 1 and wanted.partitions != DEFAULT:
        raise errors.InvalidPartitions(
            f"the number of partitions must be at least 1, or -1 for the default, not {wanted.partitions}"
        )
    count = config.num_partitions if wanted.partitions == DEFAULT else wanted.partitions
    replication = config.default_replication_factor if wanted.replication == DEFAULT else wanted.replication
    return placement.place(image.live_brokers, count, replication, start)


def _check_count(partitions: int) -> None:
    if partitions > PARTITIONS_MAX_A_REQUEST:
        raise errors.PolicyViolation(
            f"at most {PARTITIONS_MAX_A_REQUEST} partitions can be made at once, not {partitions}"
        )


def _tuples(replicas: Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    return tuple(tuple(NodeId(node) for node in nodes) for nodes in replicas)


def _states(image: Image, replicas: Mapping[int, Replicas]) -> dict[int, PartitionRecord]:
    """Those that must be stored, because a replica is not running."""
    live = {broker.node_id for broker in image.live_brokers}
    states = {index: placement.first_state(nodes, live) for index, nodes in replicas.items()}
    return {index: state for index, state in states.items() if state is not None}
