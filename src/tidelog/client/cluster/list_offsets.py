"""Offsets by time: sends ListOffsets to every leader, and again where the leader has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import problem_of
from tidelog.types import TopicPartition
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# What stands in a timestamp's place on the wire.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


class OffsetAndTimestamp(NamedTuple):
    """Offset -1: the partition has no record that late."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """`wanted`: a time in milliseconds, or one of the names above, for each partition.

    `read_committed`: the latest offset is then that of the first record of an unfinished transaction."""
    offsets: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def ask_the_rest() -> None:
        rest = [partition for partition in wanted if partition not in offsets]
        last: errors.TidelogError | None = None
        for node, partitions in (await cluster.leaders(rest)).items():
            connection = await cluster.node(node)
            request = _request(
                cluster,
                {partition: wanted[partition] for partition in partitions},
                timeout_ms,
                read_committed,
            )
            answer = await connection.ask(request, ListOffsetsResponse)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    if part.error_code == errors.NONE:
                        offsets[where] = OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
                    else:
                        last = problem_of(part.error_code, f"the offsets of {where}")
        if last is not None:
            await cluster.refresh({partition.topic for partition in wanted if partition not in offsets})
            raise last

    final = (errors.UnknownTopicOrPartition,)
    await cluster.retrying("ListOffsets", ask_the_rest, timeout_ms, final)
    return offsets


def _request(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], timeout_ms: int, read_committed: bool
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, time_ms in wanted.items():
        metadata = cluster.topology.partition(partition)
        epoch = metadata.leader_epoch if metadata is not None else -1
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(partition.partition, epoch, time_ms)
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name, partitions) for name, partitions in topics.items()],
        timeout_ms=timeout_ms,
    )
