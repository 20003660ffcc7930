"""ConsumerGroupHeartbeat (api 68), versions 0-1, and ConsumerGroupDescribe (api 69), versions 0-1.

A heartbeat without news may be held until there is some; the next request of its connection ends that."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog import errors
from tidelog.broker.handlers.groups.classic import caller_of
from tidelog.broker.handlers.groups.groups_admin import ALL_OPERATIONS
from tidelog.broker.handlers.groups.protocols import check_protocol
from tidelog.broker.services import Context
from tidelog.groups.consumer.group import NO_PARTITIONS, ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.target_assignment import assignor_of
from tidelog.groups.group import CONSUMER
from tidelog.metadata.image.image import Image
from tidelog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    try:
        check_protocol(CONSUMER, context)
        return await context.services.consumer_groups.heartbeat(request, caller_of(context))
    except errors.TidelogError as problem:
        return ConsumerGroupHeartbeatResponse(error_code=problem.code, error_message=str(problem))


async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse()
    for group_id in request.group_ids:
        try:
            check_protocol(CONSUMER, context)
            if not group_id:
                raise errors.InvalidGroupId("the group id is empty")
            group = await context.services.consumer_groups.described(group_id)
            described = _described(group, context)
            if request.include_authorized_operations:
                described.authorized_operations = ALL_OPERATIONS
        except errors.TidelogError as problem:
            described = DescribedGroup(group_id=group_id, error_code=problem.code, error_message=str(problem))
        response.groups.append(described)
    return response


def _described(group: ConsumerGroup, context: Context) -> DescribedGroup:
    image = context.services.image()
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, context.services.config()),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: Image) -> Member:
    current: dict[UUID, set[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic, partitions in owned.items():
            current.setdefault(topic, set()).update(partitions)
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(current, image),
        target_assignment=_assignment(group.targets.get(member.id, NO_PARTITIONS), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[UUID, set[int]] | Mapping[UUID, frozenset[int]], image: Image
) -> Assignment:
    """Topics that are gone are left out."""
    topics = []
    for topic_id, some in partitions.items():
        name = image.names.get(topic_id)
        if name is not None:
            topics.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(some)))
    return Assignment(topic_partitions=topics)
