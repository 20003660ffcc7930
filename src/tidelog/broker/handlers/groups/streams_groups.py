"""StreamsGroupHeartbeat (api 88), version 0, and StreamsGroupDescribe (api 89), version 0.

A heartbeat without news may be held until there is some; the next request of its connection ends that.  Static members
and changed topologies are refused, as Kafka 4.3 refuses them; offsets of tasks are not used."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.handlers.groups.classic import caller_of
from tidelog.broker.handlers.groups.groups_admin import ALL_OPERATIONS
from tidelog.broker.handlers.groups.protocols import check_protocol
from tidelog.broker.services import Context
from tidelog.groups.group import STREAMS
from tidelog.groups.streams.coordinator import StreamsAnswer
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.internal_topics import StreamsStatus
from tidelog.groups.streams.member import JOINING_EPOCH, StreamsMember
from tidelog.groups.streams.tasks import TaskAssignment, by_subtopology
from tidelog.groups.streams.topology import topic_names
from tidelog.metadata.topics.names import INTERNAL, check_topic_name
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType
from tidelog.wire.messages import streams_group_describe as describe
from tidelog.wire.messages import streams_group_heartbeat as heartbeat
from tidelog.wire.messages.streams_group_topology_record import TopicInfo


async def streams_group_heartbeat(
    request: heartbeat.StreamsGroupHeartbeatRequest, context: Context
) -> heartbeat.StreamsGroupHeartbeatResponse:
    try:
        check_protocol(STREAMS, context)
        if request.topology is not None:
            _check_names(request.topology)
        answer = await context.services.streams_groups.heartbeat(request, caller_of(context))
        created = bool(answer.missing) and await _create(request.group_id, answer, context)
        if created and request.member_epoch == JOINING_EPOCH:
            # A client would hear of the topics with its next heartbeat, and joining again changes nothing.
            answer = await context.services.streams_groups.heartbeat(request, caller_of(context))
    except errors.TidelogError as problem:
        return heartbeat.StreamsGroupHeartbeatResponse(error_code=problem.code, error_message=str(problem))
    return answer.response


def _check_names(topology: heartbeat.Topology) -> None:
    names = topic_names(topology)
    if prohibited := sorted(names & INTERNAL):
        raise errors.StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    if invalid := sorted(name for name in names if not _is_valid(name)):
        raise errors.StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except errors.InvalidTopicException:
        return False
    return True


async def _create(group_id: str, answer: StreamsAnswer, context: Context) -> bool:
    """Has the missing internal topics created, if the member may create them."""
    refused = []
    if not context.sees(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME):
        names = [topic.name for topic in answer.missing]
        refused = [
            name for name in names if not context.allows(AclOperation.CREATE, AclResourceType.TOPIC, name)
        ]
    if not refused:
        await context.services.streams_groups.create_topics(group_id, answer.missing)
        return True
    for status in answer.response.status or ():
        if status.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; Unauthorized to CREATE on topics {', '.join(refused)}."
    return False


# Describing


async def streams_group_describe(
    request: describe.StreamsGroupDescribeRequest, context: Context
) -> describe.StreamsGroupDescribeResponse:
    response = describe.StreamsGroupDescribeResponse()
    for group_id in request.group_ids:
        try:
            check_protocol(STREAMS, context)
            if not group_id:
                raise errors.InvalidGroupId("the group id is empty")
            group = await context.services.streams_groups.described(group_id)
            described = _described(group)
            if request.include_authorized_operations:
                described.authorized_operations = ALL_OPERATIONS
        except errors.TidelogError as problem:
            described = describe.DescribedGroup(
                group_id=group_id, error_code=problem.code, error_message=str(problem)
            )
        response.groups.append(described)
    return response


def _described(group: StreamsGroup) -> describe.DescribedGroup:
    return describe.DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> describe.Topology | None:
    """Internal topics have the number of partitions that was decided for them, once that is known."""
    if group.topology is None:
        return None
    partitions = {} if group.configured is None else group.configured.internal_partitions

    def topic(info: TopicInfo) -> describe.TopicInfo:
        return describe.TopicInfo(
            name=info.name,
            partitions=partitions.get(info.name, info.partitions),
            replication_factor=info.replication_factor,
            topic_configs=[describe.KeyValue(config.key, config.value) for config in info.topic_configs],
        )

    return describe.Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            describe.Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                repartition_sink_topics=subtopology.repartition_sink_topics,
                state_changelog_topics=[topic(info) for info in subtopology.state_changelog_topics],
                repartition_source_topics=[topic(info) for info in subtopology.repartition_source_topics],
            )
            for subtopology in group.topology.subtopologies
        ],
    )


def _member(group: StreamsGroup, member: StreamsMember) -> describe.Member:
    return describe.Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else describe.Endpoint(*member.endpoint),
        client_tags=[describe.KeyValue(key, value) for key, value in member.tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.id)),
    )


def _assignment(tasks: TaskAssignment) -> describe.Assignment:
    return describe.Assignment(*([describe.TaskIds(*ids) for ids in by_subtopology(role)] for role in tasks))
