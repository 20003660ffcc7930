"""Authorization: members of share groups, their offsets, and the state of share groups that brokers exchange."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tidelog import errors
from tidelog.broker.authorization.guards import (
    CLUSTER,
    GROUP,
    GROUP_REFUSED,
    TOPIC,
    TOPIC_REFUSED,
    TRANSACTION_REFUSED,
    TRANSACTIONAL_ID,
    Guard,
    Handler,
    Op,
    answered,
    split,
    topic_name,
    topic_refusal,
    whole,
)
from tidelog.broker.services import Context
from tidelog.wire.messages import alter_share_group_offsets as alter
from tidelog.wire.messages import delete_share_group_offsets as delete
from tidelog.wire.messages import describe_share_group_offsets as describe
from tidelog.wire.messages import share_acknowledge as acknowledge
from tidelog.wire.messages import share_fetch as fetch

_REFUSED = errors.TopicAuthorizationFailed.about


async def share_fetch(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.READ, GROUP, request.group_id or ""):
        return fetch.ShareFetchResponse(
            error_code=GROUP_REFUSED, error_message=errors.GroupAuthorizationFailed.about
        )
    _forget_unreadable(request, context)
    request.topics, refused = split(
        context, Op.READ, TOPIC, request.topics, lambda topic: topic_name(context, topic, by_id=True)
    )
    response = await answered(handle, request, context)
    response.responses += [
        fetch.ShareFetchableTopicResponse(
            topic.topic_id,
            [
                fetch.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=(code := topic_refusal(context, topic)),
                    error_message=_REFUSED,
                    acknowledge_error_code=code if partition.acknowledgement_batches else 0,
                    acknowledge_error_message=None,
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


def _forget_unreadable(request: Any, context: Context) -> None:
    """A session goes on without the topics whose ACLs have changed since it began."""
    session = context.services.shares.sessions.get((request.group_id or "", request.member_id or ""))
    if session is None:
        return
    image = context.services.image()
    for topic_id, index in list(session.parts):
        topic = image.topic_by_id(topic_id)
        if topic is not None and not context.allows(Op.READ, TOPIC, topic.name):
            session.parts.pop((topic_id, index), None)


async def share_acknowledge(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.READ, GROUP, request.group_id or ""):
        return acknowledge.ShareAcknowledgeResponse(
            error_code=GROUP_REFUSED, error_message=errors.GroupAuthorizationFailed.about
        )
    transactional_id = request.transactional_id
    if transactional_id is not None and not context.allows(Op.WRITE, TRANSACTIONAL_ID, transactional_id):
        return acknowledge.ShareAcknowledgeResponse(
            error_code=TRANSACTION_REFUSED, error_message=errors.TransactionalIdAuthorizationFailed.about
        )
    request.topics, refused = split(
        context, Op.READ, TOPIC, request.topics, lambda topic: topic_name(context, topic, by_id=True)
    )
    response = await answered(handle, request, context)
    response.responses += [
        acknowledge.ShareAcknowledgeTopicResponse(
            topic.topic_id,
            [
                acknowledge.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=topic_refusal(context, topic),
                    error_message=_REFUSED,
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


async def describe_share_group_offsets(request: Any, context: Context, handle: Handler) -> Any:
    request.groups, refused = split(context, Op.DESCRIBE, GROUP, request.groups, lambda group: group.group_id)
    hidden: dict[str, list[Any]] = {}
    for group in request.groups:
        if group.topics is not None:
            group.topics, hidden[group.group_id] = split(
                context, Op.DESCRIBE, TOPIC, group.topics, lambda topic: topic.topic_name
            )
    response = await answered(handle, request, context)
    for group in response.groups:
        if group.group_id not in hidden:
            group.topics, _ = split(context, Op.DESCRIBE, TOPIC, group.topics, lambda topic: topic.topic_name)
        for topic in hidden.get(group.group_id, ()):
            group.topics.append(
                describe.DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    partitions=[
                        describe.DescribeShareGroupOffsetsResponsePartition(
                            partition_index=index, error_code=TOPIC_REFUSED, error_message=_REFUSED
                        )
                        for index in topic.partitions
                    ],
                )
            )
    response.groups += [
        describe.DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id,
            error_code=GROUP_REFUSED,
            error_message=errors.GroupAuthorizationFailed.about,
        )
        for group in refused
    ]
    return response


async def alter_share_group_offsets(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.READ, GROUP, request.group_id):
        return alter.AlterShareGroupOffsetsResponse(
            error_code=GROUP_REFUSED, error_message=errors.GroupAuthorizationFailed.about
        )
    request.topics, refused = split(context, Op.READ, TOPIC, request.topics, lambda topic: topic.topic_name)
    response = await answered(handle, request, context)
    response.responses += [
        alter.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                alter.AlterShareGroupOffsetsResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=TOPIC_REFUSED,
                    error_message=_REFUSED,
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


async def delete_share_group_offsets(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.DELETE, GROUP, request.group_id):
        return delete.DeleteShareGroupOffsetsResponse(
            error_code=GROUP_REFUSED, error_message=errors.GroupAuthorizationFailed.about
        )
    request.topics, refused = split(context, Op.READ, TOPIC, request.topics, lambda topic: topic.topic_name)
    response = await answered(handle, request, context)
    response.responses += [
        delete.DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, error_code=TOPIC_REFUSED, error_message=_REFUSED
        )
        for topic in refused
    ]
    return response


def _among_brokers(module: str, response: str, row: str) -> Guard:
    """Only brokers read and write the state of share groups."""

    def refusal(request: Any, problem: errors.TidelogError) -> Any:
        messages = import_module(f"tidelog.wire.messages.{module}")
        part: Callable[..., Any] = messages.PartitionResult
        return getattr(messages, response)(
            results=[
                getattr(messages, row)(
                    topic.topic_id,
                    [
                        part(
                            partition=partition.partition, error_code=problem.code, error_message=str(problem)
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return whole(Op.CLUSTER_ACTION, CLUSTER, refusal)


initialize_share_group_state = _among_brokers(
    "initialize_share_group_state", "InitializeShareGroupStateResponse", "InitializeStateResult"
)
read_share_group_state = _among_brokers(
    "read_share_group_state", "ReadShareGroupStateResponse", "ReadStateResult"
)
write_share_group_state = _among_brokers(
    "write_share_group_state", "WriteShareGroupStateResponse", "WriteStateResult"
)
delete_share_group_state = _among_brokers(
    "delete_share_group_state", "DeleteShareGroupStateResponse", "DeleteStateResult"
)
read_share_group_state_summary = _among_brokers(
    "read_share_group_state_summary", "ReadShareGroupStateSummaryResponse", "ReadStateSummaryResult"
)
