"""Plans for new topics and new partitions: the request is checked, defaults are filled in, replicas are placed.  Pure.

Errors and their order are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.metadata.image.image import Image, TopicImage
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
        raise errors.InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
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
        raise errors.UnknownTopicOrPartition(f"The topic '{wanted.name}' does not exist.")
    have = len(topic.partitions)
    if wanted.total < have:
        raise errors.InvalidPartitions(
            f"The topic {topic.name} currently has {have} partition(s); {wanted.total} would not be an increase."
        )
    if wanted.total == have:
        raise errors.InvalidPartitions(f"Topic already has {have} partition(s).")
    more = wanted.total - have
    _check_count(more)
    if wanted.assignment is not None:
        if len(wanted.assignment) != more:
            raise errors.InvalidReplicaAssignment(
                f"Attempted to add {more} additional partition(s), but only {len(wanted.assignment)} assignment(s) "
                "were specified."
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
        added = placement.place(image.placeable_brokers, more, len(topic.partitions[0].replicas), start)
        if _has_priorities(image.topic_overrides(topic.name)):
            added = (topic.partitions[0].first_replicas,) * more
    replicas = tuple(partition.first_replicas for partition in topic.partitions) + added
    states = _states(image, dict(enumerate(added, have)))
    return topic, TopicPlan(topic.name, TopicRecord(topic.id, replicas), states, {})


def _checked_configs(configs: Mapping[str, str | None], config: BrokerConfig) -> dict[str, str]:
    for name, value in configs.items():
        if value is None:
            raise errors.InvalidConfig(f"Null value not supported for topic configs: {name}")
    parsed = TopicConfig.of(configs, config.topic_defaults)
    parsed.check()
    parsed.check_remote_change(None, config.remote_log_storage_system_enable)
    return {name: value for name, value in configs.items() if value is not None}


def _replicas_of_topic(
    image: Image, wanted: TopicSpec, config: BrokerConfig, start: int
) -> tuple[Replicas, ...]:
    if wanted.assignment:
        for field, count in (
            ("replication factor", wanted.replication),
            ("numPartitions", wanted.partitions),
        ):
            if count != DEFAULT:
                raise errors.InvalidRequest(
                    f"A manual partition assignment was specified, but {field} was not set to -1."
                )
        placement.check_assignment(wanted.assignment, 0, image.brokers)
        return _tuples([wanted.assignment[index] for index in range(len(wanted.assignment))])
    if wanted.replication < 1 and wanted.replication != DEFAULT:
        raise errors.InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if wanted.partitions < 1 and wanted.partitions != DEFAULT:
        raise errors.InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = config.num_partitions if wanted.partitions == DEFAULT else wanted.partitions
    replication = config.default_replication_factor if wanted.replication == DEFAULT else wanted.replication
    placed = placement.place(image.placeable_brokers, count, replication, start)
    return placed[:1] * count if _has_priorities(wanted.configs) else placed


def _has_priorities(configs: Mapping[str, str | None]) -> bool:
    """The partitions are priorities: the broker that leads one has to know of the others."""
    return (configs.get("queue.priorities") or "").lower() == "true"


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
