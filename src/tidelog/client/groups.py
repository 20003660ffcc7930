"""Groups of all kinds, looked at and removed.  `Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelog import errors
from tidelog.client.answers import check, problem_of, raise_all
from tidelog.client.cluster import Cluster
from tidelog.client.consumer_protocol import by_topic, unpack_assignment, unpack_subscription
from tidelog.client.coordinator import Coordinator, Kind
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

T = TypeVar("T")

CONSUMER_TYPE = "consumer"
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
    """`target`: what the coordinator wants it to have, where that is known; `epoch` is -1 in classic groups."""

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
        return next((one for one in self.members if partition in one.assignment), None)


async def list_groups(
    cluster: Cluster, states: Collection[str], types: Collection[str], *, timeout_ms: int
) -> list[GroupListing]:
    async def ask() -> list[GroupListing]:
        await cluster.refresh(())
        found: dict[str, GroupListing] = {}
        for node in sorted(cluster.topology.nodes):
            connection = await cluster.node(node)
            version = connection.version_of(ListGroupsRequest)
            request = ListGroupsRequest()
            if version >= STATES_VERSION_MIN:
                request.states_filter = list(states)
            if version >= TYPES_VERSION_MIN:
                request.types_filter = list(types)
            answer = await connection.ask(request, ListGroupsResponse, version=version)
            check(answer.error_code, f"the groups of broker {node}")
            for one in answer.groups:
                kind = one.group_type.lower() or ""
                found[one.group_id] = GroupListing(one.group_id, kind, one.group_state, one.protocol_type)
        return [found[name] for name in sorted(found)]

    return await cluster.retrying("ListGroups", ask, timeout_ms)


async def at_coordinator(
    cluster: Cluster, group_id: str, what: str, ask: Callable[[Requester], Any], timeout_ms: int
) -> Any:
    """Asks the group's coordinator, whoever that is by then."""
    coordinator = Coordinator(cluster, Kind.GROUP, group_id)

    async def attempt() -> Any:
        try:
            return await ask(await coordinator.connection())
        except errors.TidelogError as problem:
            coordinator.failed(problem)
            raise

    return await cluster.retrying(what, attempt, timeout_ms)


async def describe_groups(
    cluster: Cluster, group_ids: Sequence[str], *, timeout_ms: int
) -> dict[str, GroupDescription]:
    found: dict[str, GroupDescription] = {}
    problems: list[errors.TidelogError] = []
    for group_id in dict.fromkeys(group_ids):
        try:
            found[group_id] = await at_coordinator(
                cluster, group_id, "DescribeGroups", _describe(group_id), timeout_ms
            )
        except errors.TidelogError as problem:
            problems.append(problem)
    raise_all("some groups could not be described", problems)
    return found


def _describe(group_id: str) -> Callable[[Requester], Any]:
    """A group is of one kind, and only the question for its kind is answered."""

    async def ask(connection: Requester) -> GroupDescription:
        for kind, request, response in (
            ("consumer", ConsumerGroupDescribeRequest([group_id]), ConsumerGroupDescribeResponse),
            ("share", ShareGroupDescribeRequest([group_id]), ShareGroupDescribeResponse),
        ):
            if request.API_KEY not in connection.versions:
                continue
            answer: Any = await connection.ask(request, response)
            (group,) = answer.groups
            if group.error_code not in (errors.GroupIdNotFound.code, errors.UnsupportedVersion.code):
                check(group.error_code, f"group {group_id!r}", group.error_message)
                return _assigned_by_coordinator(kind, group, connection.peer)
        classic = await connection.ask(DescribeGroupsRequest([group_id]), DescribeGroupsResponse)
        (plain,) = classic.groups
        check(plain.error_code, f"group {group_id!r}", plain.error_message)
        if plain.group_state == DEAD:
            raise errors.GroupIdNotFound(f"there is no group {group_id!r}: check the name")
        return _classic(plain, connection.peer)

    return ask


def _assigned_by_coordinator(kind: str, group: Any, peer: str) -> GroupDescription:
    members = []
    for one in group.members:
        target = getattr(one, "target_assignment", None)
        members.append(
            GroupMember(
                member_id=one.member_id,
                client_id=one.client_id,
                host=one.client_host.lstrip("/"),
                assignment=_partitions(one.assignment),
                target=None if target is None else _partitions(target),
                instance_id=getattr(one, "instance_id", None),
                rack=one.rack_id,
                epoch=one.member_epoch,
                topics=tuple(one.subscribed_topic_names or ()),
                pattern=getattr(one, "subscribed_topic_regex", None) or None,
            )
        )
    return GroupDescription(
        group.group_id, kind, group.group_state, group.assignor_name, peer, tuple(members), group.group_epoch
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(one.topic_name, index)
            for one in assignment.topic_partitions
            for index in one.partitions
        )
    )


def _classic(group: DescribedGroup, peer: str) -> GroupDescription:
    members = []
    for one in group.members:
        assignment: Iterable[TopicPartition] = ()
        topics: tuple[str, ...] = ()
        # Members of another kind of group (Connect's workers) tell each other something else.
        if group.protocol_type == CONSUMER_TYPE and one.member_metadata:
            topics = unpack_subscription(one.member_id, None, one.member_metadata).topics
            assignment = unpack_assignment(one.member_assignment)
        members.append(
            GroupMember(
                member_id=one.member_id,
                client_id=one.client_id,
                host=one.client_host.lstrip("/"),
                assignment=tuple(sorted(assignment)),
                instance_id=one.group_instance_id,
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
            for one in answer.results:
                check(one.error_code, f"group {group_id!r}")

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
    named = [
        MemberIdentity("" if one.instance_id is not None else one.member_id, one.instance_id, reason)
        for one in members
    ]

    async def ask(connection: Requester) -> None:
        answer = await connection.ask(LeaveGroupRequest(group_id=group_id, members=named), LeaveGroupResponse)
        check(answer.error_code, f"group {group_id!r}")
        problems = [
            problem_of(
                one.error_code, f"member {one.group_instance_id or one.member_id} of group {group_id!r}"
            )
            for one in answer.members
            if one.error_code != errors.NONE
        ]
        raise_all("some members could not be removed", problems)

    await at_coordinator(cluster, group_id, "LeaveGroup", ask, timeout_ms)
