"""Lists, describes and deletes groups of all types.  `Admin` is the face of this."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from tidelog import errors
from tidelog.client.admin.many_groups import ask_coordinators
from tidelog.client.admin.streams_groups import (
    STREAMS_ASSIGNOR,
    MemberTasks,
    member_tasks,
    partitions_of_tasks,
    sources_of_subtopologies,
)
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.response_errors import check, problem_of, raise_all
from tidelog.client.groups.consumer_protocol import by_topic, unpack_assignment, unpack_subscription
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from tidelog.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

T = TypeVar("T")

CONSUMER_TYPE, STREAMS_TYPE = "consumer", "streams"
DEAD = "Dead"
STATES_VERSION_MIN, TYPES_VERSION_MIN = 4, 5


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`type` is "classic", "consumer", "share" or "streams", and `state` Kafka's name for it; both are empty
    where an old broker does not say."""

    group_id: str
    type: str
    state: str
    protocol_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`target`: what the coordinator wants it to have, where that is known; `epoch` is -1 in classic groups; `tasks` are
    those of a member of a streams group."""

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    instance_id: str | None = None
    rack: str | None = None
    epoch: int = -1
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    tasks: MemberTasks | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """`assignor` is who deals out the partitions; `coordinator` the address of the broker in charge."""

    group_id: str
    type: str
    state: str
    assignor: str
    coordinator: str
    members: tuple[GroupMember, ...]
    epoch: int = -1

    def owner(self, partition: TopicPartition) -> GroupMember | None:
        return next((member for member in self.members if partition in member.assignment), None)


async def list_groups(
    cluster: Cluster,
    states: Collection[str],
    types: Collection[str],
    brokers: Collection[int] | None = None,
    *,
    timeout_ms: int,
) -> list[GroupListing]:
    async def ask() -> list[GroupListing]:
        await cluster.refresh(())
        listings: dict[str, GroupListing] = {}
        for node in sorted(cluster.topology.nodes if brokers is None else brokers):
            connection = await cluster.node(node)
            version = connection.version_of(ListGroupsRequest)
            request = ListGroupsRequest()
            if version >= STATES_VERSION_MIN:
                request.states_filter = list(states)
            if version >= TYPES_VERSION_MIN:
                request.types_filter = list(types)
            answer = await connection.ask(request, ListGroupsResponse, version=version)
            check(answer.error_code, f"the groups of broker {node}")
            for group in answer.groups:
                kind = group.group_type.lower() or ""
                listings[group.group_id] = GroupListing(
                    group.group_id, kind, group.group_state, group.protocol_type
                )
        return [listings[name] for name in sorted(listings)]

    return await cluster.retrying("ListGroups", ask, timeout_ms)


async def at_coordinator(
    cluster: Cluster, group_id: str, purpose: str, ask: Callable[[Requester], Any], timeout_ms: int
) -> Any:
    """Asks the group's coordinator; each attempt looks for the current one."""
    coordinator = CoordinatorLookup(cluster, CoordinatorType.GROUP, group_id)

    async def attempt() -> Any:
        try:
            return await ask(await coordinator.connection())
        except errors.TidelogError as problem:
            coordinator.failed(problem)
            raise

    return await cluster.retrying(purpose, attempt, timeout_ms)


async def describe_groups(
    cluster: Cluster, group_ids: Sequence[str], *, missing_ok: bool = False, timeout_ms: int
) -> dict[str, GroupDescription]:
    """`missing_ok`: groups that are gone are left out."""
    descriptions, problems = await ask_coordinators(
        cluster, group_ids, "DescribeGroups", _describe, timeout_ms=timeout_ms
    )
    reported = dict.fromkeys(problems.values())
    if missing_ok:
        reported = {problem: None for problem in reported if not isinstance(problem, errors.GroupIdNotFound)}
    raise_all("some groups could not be described", list(reported))
    await _drop_partitions_that_do_not_exist(cluster, descriptions)
    return {group_id: descriptions[group_id] for group_id in group_ids if group_id in descriptions}


async def _drop_partitions_that_do_not_exist(
    cluster: Cluster, descriptions: dict[str, GroupDescription]
) -> None:
    """A task of a streams group reads its partition of each topic that has as many."""
    streams = [group for group in descriptions.values() if group.type == STREAMS_TYPE]
    topics = {place.topic for group in streams for member in group.members for place in member.assignment}
    if not topics:
        return
    known_topics = (await cluster.refresh(topics)).partition
    for group in streams:
        members = tuple(
            replace(
                member,
                assignment=tuple(place for place in member.assignment if known_topics(place) is not None),
            )
            for member in group.members
        )
        descriptions[group.group_id] = replace(group, members=members)


async def _describe(
    connection: Requester, groups: list[str]
) -> dict[str, GroupDescription | errors.TidelogError]:
    """A group has one type, and brokers describe it only in answer to the request for that type."""
    descriptions: dict[str, GroupDescription | errors.TidelogError] = {}
    for kind, question, response in (
        ("consumer", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        ("share", ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        (STREAMS_TYPE, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    ):
        rest = [group_id for group_id in groups if group_id not in descriptions]
        if not rest or question.API_KEY not in connection.versions:
            continue
        answer: Any = await connection.ask(question(rest), response)
        for group in answer.groups:
            if group.error_code == errors.NONE:
                described = _of_streams if kind == STREAMS_TYPE else partial(_assigned_by_coordinator, kind)
                descriptions[group.group_id] = described(group, connection.peer)
            elif group.error_code not in (errors.GroupIdNotFound.code, errors.UnsupportedVersion.code):
                descriptions[group.group_id] = _group_problem(group)
    rest = [group_id for group_id in groups if group_id not in descriptions]
    if rest:
        classic = await connection.ask(DescribeGroupsRequest(rest), DescribeGroupsResponse)
        for plain in classic.groups:
            if plain.error_code != errors.NONE:
                descriptions[plain.group_id] = _group_problem(plain)
            elif plain.group_state == DEAD:
                gone = errors.GroupIdNotFound(f"there is no group {plain.group_id!r}: check the name")
                descriptions[plain.group_id] = gone
            else:
                descriptions[plain.group_id] = _classic(plain, connection.peer)
    return descriptions


def _group_problem(group: Any) -> errors.TidelogError:
    return problem_of(group.error_code, f"group {group.group_id!r}", group.error_message)


def _assigned_by_coordinator(kind: str, group: Any, peer: str) -> GroupDescription:
    members = []
    for member in group.members:
        target = getattr(member, "target_assignment", None)
        members.append(
            GroupMember(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host.lstrip("/"),
                assignment=_partitions(member.assignment),
                target=None if target is None else _partitions(target),
                instance_id=getattr(member, "instance_id", None),
                rack=member.rack_id,
                epoch=member.member_epoch,
                topics=tuple(member.subscribed_topic_names or ()),
                pattern=getattr(member, "subscribed_topic_regex", None) or None,
            )
        )
    return GroupDescription(
        group.group_id, kind, group.group_state, group.assignor_name, peer, tuple(members), group.group_epoch
    )


def _of_streams(group: Any, peer: str) -> GroupDescription:
    sources = sources_of_subtopologies(group)
    topics = tuple(sorted({topic for names in sources.values() for topic in names}))
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            assignment=partitions_of_tasks(member.assignment.active_tasks, sources),
            target=partitions_of_tasks(member.target_assignment.active_tasks, sources),
            instance_id=member.instance_id,
            rack=member.rack_id,
            epoch=member.member_epoch,
            topics=topics,
            tasks=member_tasks(member.assignment),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id, STREAMS_TYPE, group.group_state, STREAMS_ASSIGNOR, peer, members, group.group_epoch
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def _classic(group: DescribedGroup, peer: str) -> GroupDescription:
    members = []
    for member in group.members:
        assignment: Iterable[TopicPartition] = ()
        topics: tuple[str, ...] = ()
        # Members of other kinds of groups (Connect's workers) have metadata of another format, and brokers do not check
        # it: a member whose metadata cannot be read is listed all the same, without topics.
        if group.protocol_type == CONSUMER_TYPE and member.member_metadata:
            with contextlib.suppress(errors.TidelogError):
                topics = unpack_subscription(member.member_id, None, member.member_metadata).topics
                assignment = unpack_assignment(member.member_assignment)
        members.append(
            GroupMember(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host.lstrip("/"),
                assignment=tuple(sorted(assignment)),
                instance_id=member.group_instance_id,
                topics=topics,
            )
        )
    return GroupDescription(
        group.group_id, "classic", group.group_state, group.protocol_data, peer, tuple(members)
    )


async def delete_groups(cluster: Cluster, group_ids: Sequence[str], *, timeout_ms: int) -> None:
    problems: list[errors.TidelogError] = []
    for group_id in dict.fromkeys(group_ids):

        async def ask(connection: Requester, group_id: str = group_id) -> None:
            answer = await connection.ask(DeleteGroupsRequest([group_id]), DeleteGroupsResponse)
            for result in answer.results:
                check(result.error_code, f"group {group_id!r}")

        try:
            await at_coordinator(cluster, group_id, "DeleteGroups", ask, timeout_ms)
        except errors.TidelogError as problem:
            problems.append(problem)
    raise_all("some groups could not be deleted", problems)


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int
) -> None:
    request = OffsetDeleteRequest(
        group_id,
        [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
            for topic, indexes in by_topic(partitions).items()
        ],
    )

    async def ask(connection: Requester) -> None:
        answer = await connection.ask(request, OffsetDeleteResponse)
        check(answer.error_code, f"the offsets of group {group_id!r}")
        problems = [
            problem_of(
                part.error_code, f"the offset of group {group_id!r} for {topic.name}-{part.partition_index}"
            )
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code != errors.NONE
        ]
        raise_all("some offsets could not be deleted", problems)

    await at_coordinator(cluster, group_id, "OffsetDelete", ask, timeout_ms)


async def remove_members(
    cluster: Cluster, group_id: str, members: Iterable[GroupMember], reason: str, *, timeout_ms: int
) -> None:
    """From a classic group; they join again unless they have ended."""
    identities = [
        MemberIdentity("" if member.instance_id is not None else member.member_id, member.instance_id, reason)
        for member in members
    ]

    async def ask(connection: Requester) -> None:
        answer = await connection.ask(
            LeaveGroupRequest(group_id=group_id, members=identities), LeaveGroupResponse
        )
        check(answer.error_code, f"group {group_id!r}")
        problems = [
            problem_of(
                member.error_code,
                f"member {member.group_instance_id or member.member_id} of group {group_id!r}",
            )
            for member in answer.members
            if member.error_code != errors.NONE
        ]
        raise_all("some members could not be removed", problems)

    await at_coordinator(cluster, group_id, "LeaveGroup", ask, timeout_ms)
