"""The start offsets of share groups: describes, alters and deletes them.  `Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tidelog import errors
from tidelog.client.admin.groups import at_coordinator
from tidelog.client.admin.many_groups import ask_coordinators, offsets_by_group
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of, raise_all
from tidelog.client.groups.consumer_protocol import by_topic
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from tidelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tidelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)

UNKNOWN = -1


class ShareOffset(NamedTuple):
    """`offset`: below it everything is done with.  `lag`: how many records wait to be delivered and
    acknowledged, None where the broker does not say."""

    offset: int
    lag: int | None
    leader_epoch: int


async def describe(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition] | None, *, timeout_ms: int
) -> dict[TopicPartition, ShareOffset]:
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic, indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, topics)])

    async def ask(connection: Requester) -> dict[TopicPartition, ShareOffset]:
        answer = await connection.ask(request, DescribeShareGroupOffsetsResponse)
        return {where: offset for group in answer.groups for where, offset in _offsets(group).items()}

    offsets: dict[TopicPartition, ShareOffset] = await at_coordinator(
        cluster, group_id, "DescribeShareGroupOffsets", ask, timeout_ms
    )
    return offsets


async def describe_all(
    cluster: Cluster, group_ids: Sequence[str], *, timeout_ms: int
) -> dict[str, dict[TopicPartition, ShareOffset]]:
    """The offsets of many groups; groups that do not exist have none.  Partitions whose state is unavailable now are
    left out: one leader that is away must not hide all groups."""

    async def ask(
        connection: Requester, groups: list[str]
    ) -> dict[str, dict[TopicPartition, ShareOffset] | errors.TidelogError]:
        request = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup(group_id, None) for group_id in groups]
        )
        answer = await connection.ask(request, DescribeShareGroupOffsetsResponse)
        return offsets_by_group(answer.groups, partial(_offsets, some=True))

    purpose = "DescribeShareGroupOffsets"
    offsets, problems = await ask_coordinators(cluster, group_ids, purpose, ask, timeout_ms=timeout_ms)
    raise_all("some offsets could not be fetched", list(dict.fromkeys(problems.values())))
    return offsets


def _offsets(
    group: DescribeShareGroupOffsetsResponseGroup, some: bool = False
) -> dict[TopicPartition, ShareOffset]:
    """`some`: leaves out partitions with an error."""
    check(group.error_code, f"share group {group.group_id!r}", group.error_message)
    offsets = {}
    for topic in group.topics:
        for part in topic.partitions:
            where = TopicPartition(topic.topic_name, part.partition_index)
            if some and part.error_code != errors.NONE:
                continue
            check(part.error_code, f"share group {group.group_id!r}, {where}", part.error_message)
            if part.start_offset != UNKNOWN:
                lag = part.lag if part.lag != UNKNOWN else None
                offsets[where] = ShareOffset(part.start_offset, lag, part.leader_epoch)
    return offsets


async def alter(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int
) -> None:
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(index, offset))
    request = AlterShareGroupOffsetsRequest(
        group_id, [AlterShareGroupOffsetsRequestTopic(name, parts) for name, parts in topics.items()]
    )

    async def ask(connection: Requester) -> None:
        answer = await connection.ask(request, AlterShareGroupOffsetsResponse)
        check(answer.error_code, f"share group {group_id!r}", answer.error_message)
        problems = [
            problem_of(
                part.error_code,
                f"share group {group_id!r}, {topic.topic_name}-{part.partition_index}",
                part.error_message,
            )
            for topic in answer.responses
            for part in topic.partitions
            if part.error_code != errors.NONE
        ]
        raise_all("some offsets could not be set", problems)

    await at_coordinator(cluster, group_id, "AlterShareGroupOffsets", ask, timeout_ms)


async def delete(cluster: Cluster, group_id: str, topics: Collection[str], *, timeout_ms: int) -> None:
    request = DeleteShareGroupOffsetsRequest(
        group_id, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
    )

    async def ask(connection: Requester) -> None:
        answer = await connection.ask(request, DeleteShareGroupOffsetsResponse)
        check(answer.error_code, f"share group {group_id!r}", answer.error_message)
        problems = [
            problem_of(
                result.error_code,
                f"share group {group_id!r}, topic {result.topic_name!r}",
                result.error_message,
            )
            for result in answer.responses
            if result.error_code != errors.NONE
        ]
        raise_all("some offsets could not be deleted", problems)

    await at_coordinator(cluster, group_id, "DeleteShareGroupOffsets", ask, timeout_ms)
