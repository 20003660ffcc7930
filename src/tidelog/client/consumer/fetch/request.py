"""Fetch requests for assigned partitions, and their answers by partition.  Topics go by id where both sides
know ids."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.client.cluster.topology import NO_ID, Topology
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.session import FetchSessionHandler, PartitionFetch, TopicIdPartition
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NAMES_VERSION_MAX = 12  # later versions carry topic ids instead of names
EPOCHS_VERSION_MIN = 12  # from here on brokers detect diverging logs by the last epoch
RACKS_VERSION_MIN = 11


class FetchCall(NamedTuple):
    """`names`: the topics by the ids they had when asked; `generations`: which question each partition's
    answer is for."""

    request: FetchRequest
    version: int
    names: Mapping[uuid.UUID, str]
    generations: Mapping[TopicPartition, object]


def build_fetch(
    connection: Requester,
    topology: Topology,
    partitions: Sequence[AssignedPartition],
    options: ConsumerOptions,
    session: FetchSessionHandler,
    partition_bytes_max: int,
) -> FetchCall:
    names = dict.fromkeys(state.partition.topic for state in partitions)
    ids = {name: topic.id for name in names if (topic := topology.topics.get(name)) is not None}
    all_have_ids = all(ids.get(name, NO_ID) != NO_ID for name in names)
    version = connection.version_of(FetchRequest, None if all_have_ids else NAMES_VERSION_MAX)
    wanted = {}
    for state in partitions:
        metadata = topology.partition(state.partition)
        name, index = state.partition
        wanted[TopicIdPartition(name, ids.get(name, NO_ID), index)] = PartitionFetch(
            state.fetch_offset,
            metadata.leader_epoch if metadata is not None else -1,
            state.fetch_epoch if version >= EPOCHS_VERSION_MIN else -1,
            partition_bytes_max,
        )
    ask = session.next(wanted)
    request = FetchRequest(
        max_wait_ms=options.fetch_max_wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=options.fetch_max_bytes,
        isolation_level=int(options.read_committed),
        session_id=ask.session_id,
        session_epoch=ask.epoch,
        topics=_topics(ask.named),
        forgotten_topics_data=_forgotten(ask.forgotten),
        rack_id=options.client_rack if version >= RACKS_VERSION_MIN else "",
    )
    return FetchCall(
        request,
        version,
        {topic_id: name for name, topic_id in ids.items()},
        {state.partition: state.generation for state in partitions},
    )


def _topics(named: Mapping[TopicIdPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[tuple[str, uuid.UUID], list[FetchPartition]] = {}
    for place, wanted in named.items():
        topics.setdefault((place.topic, place.topic_id), []).append(
            FetchPartition(
                partition=place.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=wanted.last_epoch,
                partition_max_bytes=wanted.bytes_max,
            )
        )
    return [FetchTopic(name, topic_id, parts) for (name, topic_id), parts in topics.items()]


def _forgotten(places: Iterable[TopicIdPartition]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, uuid.UUID], list[int]] = {}
    for place in places:
        topics.setdefault((place.topic, place.topic_id), []).append(place.partition)
    return [ForgottenTopic(name, topic_id, parts) for (name, topic_id), parts in topics.items()]


def read_fetch(
    answer: FetchResponse, names: Mapping[uuid.UUID, str]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition_index), partition
