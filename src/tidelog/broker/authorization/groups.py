"""Authorization: groups of all kinds, and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidelog import errors
from tidelog.broker.authorization.guards import (
    CLUSTER,
    GROUP,
    GROUP_REFUSED,
    TOPIC,
    TOPIC_REFUSED,
    Guard,
    Handler,
    Op,
    answered,
    operations,
    split,
    topic_name,
    topic_refusal,
    whole,
)
from tidelog.broker.services import Context
from tidelog.groups.streams.topology import topic_names
from tidelog.wire.acls import CLUSTER_NAME
from tidelog.wire.messages import offset_commit as commit
from tidelog.wire.messages import offset_fetch as fetch
from tidelog.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.describe_groups import DescribedGroup
from tidelog.wire.messages.heartbeat import HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupResponse
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from tidelog.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from tidelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

_COMMIT_IDS_FROM = 10
_FETCH_GROUPS_FROM = 8
_FETCH_IDS_FROM = 10


def _reads_group(refusal: Callable[[int], Any]) -> Guard:
    return whole(Op.READ, GROUP, lambda _, problem: refusal(problem.code), lambda request: request.group_id)


join_group = _reads_group(lambda code: JoinGroupResponse(error_code=code, protocol_name=""))
sync_group = _reads_group(lambda code: SyncGroupResponse(error_code=code))
heartbeat = _reads_group(lambda code: HeartbeatResponse(error_code=code))
leave_group = _reads_group(lambda code: LeaveGroupResponse(error_code=code))


def _subscribing(response: Callable[..., Any], topics: Callable[[Any], Iterable[str]]) -> Guard:
    """A member must be allowed to describe every topic that it names."""

    def guard(request: Any, context: Context, handle: Handler) -> Any:
        try:
            context.check(Op.READ, GROUP, request.group_id)
            for name in topics(request):
                context.check(Op.DESCRIBE, TOPIC, name)
        except errors.TidelogError as problem:
            return response(error_code=problem.code, error_message=str(problem))
        return handle(request, context)

    return guard


def _subscribed(request: Any) -> Iterable[str]:
    return request.subscribed_topic_names or ()


consumer_group_heartbeat = _subscribing(ConsumerGroupHeartbeatResponse, _subscribed)
share_group_heartbeat = _subscribing(ShareGroupHeartbeatResponse, _subscribed)
streams_group_heartbeat = _subscribing(
    StreamsGroupHeartbeatResponse,
    lambda request: () if request.topology is None else sorted(topic_names(request.topology)),
)


async def describe_groups(request: Any, context: Context, handle: Handler) -> Any:
    request.groups, refused = split(context, Op.DESCRIBE, GROUP, request.groups, lambda group: group)
    response = await answered(handle, request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == 0:
                group.authorized_operations = operations(context, GROUP, group.group_id)
    response.groups += [DescribedGroup(error_code=GROUP_REFUSED, group_id=group) for group in refused]
    return response


def _describing(
    described: Callable[..., Any],
    topics: Callable[[Any], Iterable[str]],
    text_of_hidden: str = "The group has described topic(s) that the client is not authorized to describe.",
) -> Guard:
    async def guard(request: Any, context: Context, handle: Handler) -> Any:
        request.group_ids, refused = split(
            context, Op.DESCRIBE, GROUP, request.group_ids, lambda group: group
        )
        response = await answered(handle, request, context)
        shown = []
        for group in response.groups:
            hidden = any(not context.sees(Op.DESCRIBE, TOPIC, name) for name in topics(group))
            if hidden:
                group = described(
                    group_id=group.group_id, error_code=TOPIC_REFUSED, error_message=text_of_hidden
                )
            elif request.include_authorized_operations and group.error_code == 0:
                group.authorized_operations = operations(context, GROUP, group.group_id)
            shown.append(group)
        text = errors.GroupAuthorizationFailed.about
        shown += [
            described(group_id=group, error_code=GROUP_REFUSED, error_message=text) for group in refused
        ]
        response.groups = shown
        return response

    return guard


def _topics_of_consumers(group: Any) -> Iterable[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _topics_of_sharers(group: Any) -> Iterable[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)


consumer_group_describe = _describing(DescribedConsumerGroup, _topics_of_consumers)
share_group_describe = _describing(DescribedShareGroup, _topics_of_sharers)
streams_group_describe = _describing(
    DescribedStreamsGroup,
    lambda group: () if group.topology is None else topic_names(group.topology),
    "The described group uses topics that the client is not authorized to describe.",
)


async def list_groups(request: Any, context: Context, handle: Handler) -> Any:
    response = await answered(handle, request, context)
    if not context.sees(Op.DESCRIBE, CLUSTER, CLUSTER_NAME):
        response.groups, _ = split(
            context, Op.DESCRIBE, GROUP, response.groups, lambda group: group.group_id, named=False
        )
    return response


async def delete_groups(request: Any, context: Context, handle: Handler) -> Any:
    request.groups_names, refused = split(
        context, Op.DELETE, GROUP, request.groups_names, lambda group: group
    )
    response = await answered(handle, request, context)
    response.results += [DeletableGroupResult(group, GROUP_REFUSED) for group in refused]
    return response


# Offsets


async def offset_commit(request: Any, context: Context, handle: Handler) -> Any:
    may_group = context.allows(Op.READ, GROUP, request.group_id)
    by_id = context.version >= _COMMIT_IDS_FROM
    if not may_group:
        code = GROUP_REFUSED
        return commit.OffsetCommitResponse(topics=[_uncommitted(topic, code) for topic in request.topics])
    request.topics, refused = split(
        context, Op.READ, TOPIC, request.topics, lambda topic: topic_name(context, topic, by_id=by_id)
    )
    response = await answered(handle, request, context)
    response.topics += [_uncommitted(topic, topic_refusal(context, topic)) for topic in refused]
    return response


def _uncommitted(topic: Any, code: int) -> commit.OffsetCommitResponseTopic:
    parts = [
        commit.OffsetCommitResponsePartition(partition.partition_index, code)
        for partition in topic.partitions
    ]
    return commit.OffsetCommitResponseTopic(topic.name, topic.topic_id, parts)


async def offset_fetch(request: Any, context: Context, handle: Handler) -> Any:
    if context.version < _FETCH_GROUPS_FROM:
        return await _fetch_of_one_group(request, context, handle)
    request.groups, refused = split(context, Op.DESCRIBE, GROUP, request.groups, lambda group: group.group_id)
    hidden: dict[str, list[Any]] = {}
    by_id = context.version >= _FETCH_IDS_FROM
    for group in request.groups:
        if group.topics is not None:
            group.topics, hidden[group.group_id] = split(
                context,
                Op.DESCRIBE,
                TOPIC,
                group.topics,
                lambda topic: topic_name(context, topic, by_id=by_id),
            )
    response = await answered(handle, request, context)
    for group in response.groups:
        if group.group_id not in hidden:  # it was asked for everything
            group.topics, _ = split(
                context, Op.DESCRIBE, TOPIC, group.topics, lambda topic: topic.name, named=False
            )
        for topic in hidden.get(group.group_id, ()):
            code = topic_refusal(context, topic)
            parts = [
                fetch.OffsetFetchResponsePartitions(index, -1, -1, "", code)
                for index in topic.partition_indexes
            ]
            group.topics.append(fetch.OffsetFetchResponseTopics(topic.name, topic.topic_id, parts))
    response.groups += [
        fetch.OffsetFetchResponseGroup(group.group_id, error_code=GROUP_REFUSED) for group in refused
    ]
    return response


async def _fetch_of_one_group(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.DESCRIBE, GROUP, request.group_id):
        return fetch.OffsetFetchResponse(
            topics=[_unfetched(topic, GROUP_REFUSED) for topic in request.topics or ()],
            error_code=GROUP_REFUSED,
        )
    asks_all = request.topics is None
    refused: list[Any] = []
    if not asks_all:
        request.topics, refused = split(context, Op.DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    if asks_all:
        response.topics, _ = split(
            context, Op.DESCRIBE, TOPIC, response.topics, lambda topic: topic.name, named=False
        )
    response.topics += [_unfetched(topic, TOPIC_REFUSED) for topic in refused]
    return response


def _unfetched(topic: Any, code: int) -> fetch.OffsetFetchResponseTopic:
    parts = [fetch.OffsetFetchResponsePartition(index, -1, -1, "", code) for index in topic.partition_indexes]
    return fetch.OffsetFetchResponseTopic(topic.name, parts)


async def offset_delete(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.DELETE, GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=GROUP_REFUSED)
    request.topics, refused = split(context, Op.READ, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    if response.error_code == 0:
        response.topics += [
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(partition.partition_index, TOPIC_REFUSED)
                    for partition in topic.partitions
                ],
            )
            for topic in refused
        ]
    return response
