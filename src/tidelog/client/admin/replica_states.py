"""The replicas of partitions: which are in doubt and why, which brokers a partition without a leader waits for, and
how far each replica's log reaches.  `Admin` is the face of this.

Some of these facts are in fields that only Tidelog's brokers fill in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of
from tidelog.types import TopicPartition
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)

UNKNOWN = -1

CAUSES = {
    "power": "its machine went down, and what was not on its disk yet may be gone",
    "disk": "its disk failed",
    "damaged": "bytes of its log are damaged",
    "missing": "its log is missing",
    "new-directory": "it came back with a new, empty directory",
    "offline": "its log may be in a directory that is not there now",
    "rolled-back": "the metadata were restored from a backup, and are older than the logs",
}


def cause_words(cause: str) -> str:
    """Why a replica is in doubt, in plain words."""
    return CAUSES.get(cause, f"it is in doubt ({cause})")


@dataclass(frozen=True, slots=True)
class ReplicaDoubt:
    """A replica that may lack records which it acknowledged.  `leader_epoch` and `log_end_offset` are those of its log
    when it reported, -1 when it has no log or did not say."""

    node: int
    leader_epoch: int
    log_end_offset: int
    cause: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`leader` is -1 when there is none.  `eligible`: Kafka's eligible leader replicas.  `awaited`: the brokers whose
    return gives it a leader; when there are none either, an operator has to decide."""

    topic: str
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]
    doubts: tuple[ReplicaDoubt, ...]
    awaited: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """How far the log of a replica reaches.  `epochs`: its newest leader epochs, each with the offset it begins at."""

    log_end_offset: int
    high_watermark: int
    damaged_ranges: int
    epochs: tuple[tuple[int, int], ...]

    @property
    def leader_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else UNKNOWN


async def describe_partitions(
    cluster: Cluster, topics: Collection[str], *, timeout_ms: int
) -> dict[TopicPartition, PartitionState]:
    async def ask(cursor: Cursor | None) -> DescribeTopicPartitionsResponse:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name) for name in topics], cursor=cursor, include_doubts=True
        )
        return await (await cluster.controller()).ask(request, DescribeTopicPartitionsResponse)

    states: dict[TopicPartition, PartitionState] = {}
    cursor: Cursor | None = None
    while topics:
        answer = await cluster.retrying("DescribeTopicPartitions", lambda at=cursor: ask(at), timeout_ms)  # type: ignore[misc]
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code != errors.NONE:
                raise problem_of(topic.error_code, f"topic {name!r}")
            for row in topic.partitions:
                states[TopicPartition(name, row.partition_index)] = _state(name, row)
        cursor = answer.next_cursor
        if cursor is None:
            break
    return states


def _state(topic: str, row: DescribeTopicPartitionsResponsePartition) -> PartitionState:
    return PartitionState(
        topic,
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.eligible_leader_replicas or ()),
        tuple(
            ReplicaDoubt(doubt.node_id, doubt.leader_epoch, doubt.log_end_offset, doubt.cause)
            for doubt in row.doubts
        ),
        tuple(row.awaited_nodes),
    )


async def describe_replica_logs(
    cluster: Cluster, node: int, partitions: Iterable[TopicPartition], *, timeout_ms: int
) -> dict[TopicPartition, ReplicaLog]:
    rows: dict[str, DescribableLogDirTopic] = {}
    for name in partitions:
        rows.setdefault(name.topic, DescribableLogDirTopic(name.topic)).partitions.append(name.partition)
    request = DescribeLogDirsRequest(topics=list(rows.values()), include_log_ends=True)

    async def ask() -> dict[TopicPartition, ReplicaLog]:
        answer = await (await cluster.node(node)).ask(request, DescribeLogDirsResponse)
        check(answer.error_code, f"the logs of broker {node}")
        return {
            TopicPartition(topic.name, row.partition_index): _log(row)
            for result in answer.results
            for topic in result.topics
            for row in topic.partitions
            if not row.is_future_key and row.log_end_offset != UNKNOWN
        }

    return await cluster.retrying("DescribeLogDirs", ask, timeout_ms)


def _log(row: DescribeLogDirsPartition) -> ReplicaLog:
    epochs = tuple((epoch.leader_epoch, epoch.start_offset) for epoch in row.leader_epochs)
    return ReplicaLog(row.log_end_offset, row.high_watermark, row.damaged_ranges, epochs)
