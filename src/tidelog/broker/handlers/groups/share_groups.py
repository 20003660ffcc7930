"""ShareGroupHeartbeat (api 76, version 1), ShareGroupDescribe (77, 1), DescribeShareGroupOffsets (90, 0-1),
AlterShareGroupOffsets (91, 0) and DeleteShareGroupOffsets (92, 0)."""

from __future__ import annotations

from uuid import UUID

from tidelog import errors
from tidelog.broker.handlers.groups.groups_admin import ALL_OPERATIONS
from tidelog.broker.services import Context
from tidelog.groups.share.group import ShareGroup
from tidelog.wire.messages import alter_share_group_offsets as alter
from tidelog.wire.messages import delete_share_group_offsets as delete
from tidelog.wire.messages import describe_share_group_offsets as offsets
from tidelog.wire.messages import share_group_describe as describe
from tidelog.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.wire.primitives import ZERO_UUID

ASSIGNOR = "simple"
_LAG_FROM = 1


async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse:
    client = (context.client_id or "", "/" + context.peer.rpartition(":")[0])
    try:
        return await context.services.share_groups.heartbeat(request, client)
    except errors.TidelogError as problem:
        return ShareGroupHeartbeatResponse(error_code=problem.code, error_message=str(problem))


# Describing


async def share_group_describe(
    request: describe.ShareGroupDescribeRequest, context: Context
) -> describe.ShareGroupDescribeResponse:
    response = describe.ShareGroupDescribeResponse()
    for group_id in request.group_ids:
        try:
            group = await context.services.share_groups.described(group_id)
            described = _described(group, context)
        except errors.TidelogError as problem:
            described = describe.DescribedGroup(
                error_code=problem.code, error_message=str(problem), group_id=group_id
            )
        else:
            if request.include_authorized_operations:
                described.authorized_operations = ALL_OPERATIONS
        response.groups.append(described)
    return response


def _described(group: ShareGroup, context: Context) -> describe.DescribedGroup:
    topics = {topic for member in group.members.values() for topic, _ in member.assigned}
    names = context.services.share_groups.topic_names(topics)
    return describe.DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[
            describe.Member(
                member_id=member.id,
                rack_id=member.rack,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                assignment=describe.Assignment(
                    [
                        describe.TopicPartitions(
                            topic, names[topic], sorted(i for t, i in member.assigned if t == topic)
                        )
                        for topic in sorted({topic for topic, _ in member.assigned}, key=str)
                        if topic in names
                    ]
                ),
            )
            for member in group.members.values()
        ],
    )


# Offsets


async def describe_share_group_offsets(
    request: offsets.DescribeShareGroupOffsetsRequest, context: Context
) -> offsets.DescribeShareGroupOffsetsResponse:
    response = offsets.DescribeShareGroupOffsetsResponse()
    for requested in request.groups:
        try:
            described = offsets.DescribeShareGroupOffsetsResponseGroup(
                requested.group_id, await _offsets_of(requested, context)
            )
        except errors.TidelogError as problem:
            described = offsets.DescribeShareGroupOffsetsResponseGroup(
                group_id=requested.group_id, error_code=problem.code, error_message=str(problem)
            )
        response.groups.append(described)
    return response


async def _offsets_of(
    requested: offsets.DescribeShareGroupOffsetsRequestGroup, context: Context
) -> list[offsets.DescribeShareGroupOffsetsResponseTopic]:
    service, image = context.services.share_offsets, context.services.image()
    kept = await service.kept(requested.group_id)
    wanted: list[tuple[str, UUID | None, list[int]]]
    if requested.topics is None:
        wanted = [
            (kept_topic.name, topic_id, sorted(kept_topic.partitions))
            for topic_id, kept_topic in kept.items()
        ]
    else:
        wanted = []
        for requested_topic in requested.topics:
            topic = image.topics.get(requested_topic.topic_name)
            wanted.append(
                (requested_topic.topic_name, None if topic is None else topic.id, requested_topic.partitions)
            )
    topics = []
    for name, topic_id, indexes in wanted:
        described = offsets.DescribeShareGroupOffsetsResponseTopic(name, topic_id or ZERO_UUID)
        for index in indexes:
            described.partitions.append(await _offset_of(requested.group_id, topic_id, index, context))
        topics.append(described)
    return topics


async def _offset_of(
    group_id: str, topic_id: UUID | None, index: int, context: Context
) -> offsets.DescribeShareGroupOffsetsResponsePartition:
    answer = offsets.DescribeShareGroupOffsetsResponsePartition(index, -1)
    if topic_id is None:
        return answer
    try:
        position = await context.services.share_offsets.position(group_id, topic_id, index)
    except errors.TidelogError as problem:
        answer.error_code, answer.error_message = problem.code, str(problem)
        return answer
    answer.start_offset, answer.leader_epoch = position.start, position.leader_epoch
    if context.version >= _LAG_FROM:
        answer.lag = position.lag
    return answer


async def alter_share_group_offsets(
    request: alter.AlterShareGroupOffsetsRequest, context: Context
) -> alter.AlterShareGroupOffsetsResponse:
    response = alter.AlterShareGroupOffsetsResponse()
    wanted = {
        topic.topic_name: {
            partition.partition_index: partition.start_offset for partition in topic.partitions
        }
        for topic in request.topics
    }
    try:
        results = await context.services.share_offsets.alter(request.group_id, wanted)
    except errors.TidelogError as problem:
        response.error_code, response.error_message = problem.code, str(problem)
        return response
    for name, partitions in results.items():
        topic = context.services.image().topics.get(name)
        answered = alter.AlterShareGroupOffsetsResponseTopic(name, ZERO_UUID if topic is None else topic.id)
        for index, refusal in partitions.items():
            answer = alter.AlterShareGroupOffsetsResponsePartition(index)
            if refusal is not None:
                answer.error_code, answer.error_message = refusal.code, str(refusal)
            answered.partitions.append(answer)
        response.responses.append(answered)
    return response


async def delete_share_group_offsets(
    request: delete.DeleteShareGroupOffsetsRequest, context: Context
) -> delete.DeleteShareGroupOffsetsResponse:
    response = delete.DeleteShareGroupOffsetsResponse()
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    try:
        results = await context.services.share_offsets.delete(request.group_id, names)
    except errors.TidelogError as problem:
        response.error_code, response.error_message = problem.code, str(problem)
        return response
    for name, (topic_id, refusal) in results.items():
        answer = delete.DeleteShareGroupOffsetsResponseTopic(name, topic_id or ZERO_UUID)
        if refusal is not None:
            answer.error_code, answer.error_message = refusal.code, str(refusal)
        response.responses.append(answer)
    return response
