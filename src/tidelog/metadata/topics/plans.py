"""Plans for new topics and new partitions: the request is checked, defaults are filled in, replicas are placed.  Pure.

Errors and their order are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.metadata.image import Image, TopicImage
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
from tidelog.metadata.tenants import check_ceilings, tenant_of_name
from tidelog.metadata.topics import placement
from tidelog.metadata.topics.names import CLUSTER_METADATA, check_collision, check_topic_name, plain
from tidelog.types import NodeId

DEFAULT = -1
PARTITIONS_MAX_A_REQUEST = 10_000


class TopicSpec(NamedTuple):
    """`assignment`: the replicas of each partition, if the client has chosen them."""

    name: str
    partitions: int = DEFAULT
    replication: int = DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class NewPartitions(NamedTuple):
    """`total`: the number of partitions afterwards.  `assignment`: the replicas of each new partition, if the client has
    chosen them."""

    name: str
    total: int
    assignment: Sequence[Sequence[int]] | None = None


class TopicPlan(NamedTuple):
    name: str
    record: TopicRecord
    states: Mapping[int, PartitionRecord]
    configs: Mapping[str, str]

    def puts(self) -> list[Put]:
        """The partition states come first: no broker reads them before the topic's own key exists."""
        puts = [put_partition(self.record.id, index, state) for index, state in self.states.items()]
        if self.configs:
            puts.append(Put(topic_config_key(self.name), encode_configs(self.configs)))
        puts.append(Put(topic_key(self.name), self.record.encode()))
        return puts


def plan_topic(
    image: Image,
    wanted: TopicSpec,
    config: BrokerConfig,
    taken: Mapping[str, str],
    topic_id: UUID,
    start: int,
) -> TopicPlan:
    """`taken`: the names that the topic may collide with; `topic_id` and `start` are random."""
    check_topic_name(wanted.name)
    if wanted.name == CLUSTER_METADATA:
        raise errors.InvalidRequest(f"Topic {CLUSTER_METADATA!r} is internal and cannot be created.")
    tenant = tenant_of_name(image, wanted.name)
    if tenant is None or tenant_of_name(image, taken.get(plain(wanted.name), "")) == tenant:
        # What others have is nothing that a tenant should learn.
        check_collision(wanted.name, taken)
    if wanted.name in image.topics:
        raise errors.TopicAlreadyExists(f"Topic '{wanted.name}' already exists.")
    configs = _checked_configs(wanted.configs, config)
    check_ceilings(image, wanted.name, {}, configs, TopicConfig.of(configs, config.topic_defaults))
    replicas = _replicas_of_topic(image, wanted, config, start)
    record = TopicRecord(topic_id, replicas)
    return TopicPlan(wanted.name, record, _states(image, dict(enumerate(replicas))), configs)


def check_total(wanted: Sequence[TopicSpec], config: BrokerConfig) -> None:
    """Limits the partitions of one request, so that it does not delay all other requests."""
    counts = (topic.partitions if topic.partitions > 0 else config.num_partitions for topic in wanted)
    _check_count(sum(counts))


def plan_partitions(image: Image, wanted: NewPartitions, start: int) -> tuple[TopicImage, TopicPlan]:
    """Returns (the topic as it is, the plan for the topic with its new partitions)."""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise errors.UnknownTopicOrPartition(
            f"Topic {wanted.name!r} does not exist: check the name, or create the topic."
        )
    have = len(topic.partitions)
    if wanted.total < have:
        raise errors.InvalidPartitions(
            f"Topic {topic.name!r} currently has {have} partitions: the number can only grow, not become {wanted.total}."
        )
    if wanted.total == have:
        raise errors.InvalidPartitions(f"Topic {topic.name!r} already has {have} partitions.")
    more = wanted.total - have
    _check_count(more)
    if wanted.assignment is not None:
        if len(wanted.assignment) != more:
            raise errors.InvalidReplicaAssignment(
                f"Topic {topic.name!r} gets {more} new partitions, and the assignment names replicas for "
                f"{len(wanted.assignment)}."
            )
        assignment = dict(enumerate(wanted.assignment, have))
        placement.check_assignment(assignment, have, image.brokers)
        added = _tuples(wanted.assignment)
        if len(added[0]) != len(topic.partitions[0].replicas):
            raise errors.InvalidReplicaAssignment(
                f"Topic {topic.name!r} has {len(topic.partitions[0].replicas)} replicas, and the assignment gives the "
                f"new partitions {len(added[0])}."
            )
    else:
        added = placement.place(image.live_brokers, more, len(topic.partitions[0].replicas), start)
    replicas = tuple(partition.first_replicas for partition in topic.partitions) + added
    states = _states(image, dict(enumerate(added, have)))
    return topic, TopicPlan(topic.name, TopicRecord(topic.id, replicas), states, {})


def _checked_configs(configs: Mapping[str, str | None], config: BrokerConfig) -> dict[str, str]:
    for name, value in configs.items():
        if value is None:
            raise errors.InvalidConfig(f"Setting {name} has no value: leave it out to get the default.")
    TopicConfig.of(configs, config.topic_defaults).check()
    return {name: value for name, value in configs.items() if value is not None}


def _replicas_of_topic(
    image: Image, wanted: TopicSpec, config: BrokerConfig, start: int
) -> tuple[Replicas, ...]:
    if wanted.assignment:
        if wanted.replication != DEFAULT or wanted.partitions != DEFAULT:
            raise errors.InvalidRequest(
                "With a replica assignment, the number of partitions and the replication factor must be -1."
            )
        placement.check_assignment(wanted.assignment, 0, image.brokers)
        return _tuples([wanted.assignment[index] for index in range(len(wanted.assignment))])
    if wanted.replication < 1 and wanted.replication != DEFAULT:
        raise errors.InvalidReplicationFactor(
            f"The replication factor must be at least 1, or -1 for the default, not {wanted.replication}."
        )
    if wanted.partitions < 1 and wanted.partitions != DEFAULT:
        raise errors.InvalidPartitions(
            f"The number of partitions must be at least 1, or -1 for the default, not {wanted.partitions}."
        )
    count = config.num_partitions if wanted.partitions == DEFAULT else wanted.partitions
    replication = config.default_replication_factor if wanted.replication == DEFAULT else wanted.replication
    return placement.place(image.live_brokers, count, replication, start)


def _check_count(partitions: int) -> None:
    if partitions > PARTITIONS_MAX_A_REQUEST:
        raise errors.PolicyViolation(
            f"One request can create at most {PARTITIONS_MAX_A_REQUEST} partitions, not {partitions}."
        )


def _tuples(replicas: Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    return tuple(tuple(NodeId(node) for node in nodes) for nodes in replicas)


def _states(image: Image, replicas: Mapping[int, Replicas]) -> dict[int, PartitionRecord]:
    """The states that must be stored, because a replica is not running."""
    live = {broker.node_id for broker in image.live_brokers}
    states = {index: placement.first_state(nodes, live) for index, nodes in replicas.items()}
    return {index: state for index, state in states.items() if state is not None}
