"""Fetch requests for assigned partitions, and their answers by partition.  Topics go by id where both sides
know ids; no fetch sessions: every request names all of its partitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.client.assigned import Assigned
from tidelog.client.options import ConsumerOptions
from tidelog.client.topology import NO_ID, Topology
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NAMES_VERSION_MAX = 12  # later versions carry topic ids instead of names


class FetchCall(NamedTuple):
    """`names`: the topics by the ids they had when asked; `generations`: which question each partition's
    answer is for."""

    request: FetchRequest
    version: int
    names: Mapping[uuid.UUID, str]
    generations: Mapping[TopicPartition, int]


def build_fetch(
    connection: Requester, topology: Topology, partitions: Sequence[Assigned], options: ConsumerOptions
) -> FetchCall:
    topics: dict[str, list[FetchPartition]] = {}
    for one in partitions:
        known = topology.partition(one.partition)
        topics.setdefault(one.partition.topic, []).append(
            FetchPartition(
                partition=one.partition.partition,
                current_leader_epoch=known.leader_epoch if known is not None else -1,
                fetch_offset=one.fetch_offset,
                partition_max_bytes=options.max_partition_fetch_bytes,
            )
        )
    ids = {name: topic.id for name in topics if (topic := topology.topics.get(name)) is not None}
    all_have_ids = all(ids.get(name, NO_ID) != NO_ID for name in topics)
    request = FetchRequest(
        max_wait_ms=options.fetch_max_wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=options.fetch_max_bytes,
        topics=[FetchTopic(name, ids.get(name, NO_ID), parts) for name, parts in topics.items()],
    )
    return FetchCall(
        request,
        connection.version_of(FetchRequest, None if all_have_ids else NAMES_VERSION_MAX),
        {topic_id: name for name, topic_id in ids.items()},
        {one.partition: one.generation for one in partitions},
    )


def read_fetch(
    answer: FetchResponse, names: Mapping[uuid.UUID, str]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for one in topic.partitions:
                yield TopicPartition(name, one.partition_index), one
