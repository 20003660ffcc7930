"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup while the group migrates.

To such a member the group looks like a classic group that another member leads: it is told to rejoin when its assignment
changes, its generation is its member epoch, and SyncGroup's answer holds its partitions.  Checks come in Kafka's order.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.classic.consumer_protocol import PROTOCOL_TYPE
from tidelog.groups.classic.join import protocols_of
from tidelog.groups.consumer.assignors import Partitions
from tidelog.groups.consumer.embedded_protocol import (
    identified,
    read_subscription,
    read_version,
    write_assignment,
)
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import (
    check_instance,
    check_room,
    follow,
    replace_static,
    subscribe,
)
from tidelog.groups.consumer.member import ClassicTraits, ConsumerMember, MemberState, without_epochs
from tidelog.groups.consumer.migration import DISABLED
from tidelog.groups.consumer.reconciliation import waits_for_others
from tidelog.groups.consumer.target_assignment import GroupDraft, GroupFacts, assign, goal_of
from tidelog.metadata.image.image import Image
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest
from tidelog.wire.primitives import Malformed

ID_REQUIRED_FROM = 4


class ClassicJoin(NamedTuple):
    """`member` None: the client must join again under `member_id`."""

    member_id: str
    member: ConsumerMember | None


def join(
    draft: GroupDraft,
    request: JoinGroupRequest,
    version: int,
    client_id: str,
    client_host: str,
    facts: GroupFacts,
) -> ClassicJoin:
    """A classic member joins or rejoins.  The driver then checks whether the group can be downgraded."""
    group = draft.group
    if facts.config.group_consumer_migration_policy == DISABLED:
        raise errors.InconsistentGroupProtocol(
            f"group {group.id} uses the consumer protocol, and group.consumer.migration.policy is disabled"
        )
    member_id = request.member_id or facts.new_id()
    check_room(group, member_id, facts)
    if not _supports(group, request):
        raise errors.InconsistentGroupProtocol(f"group {group.id} has no protocol in common with {member_id}")
    if not request.member_id and request.group_instance_id is None and version >= ID_REQUIRED_FROM:
        return ClassicJoin(member_id, None)
    subscription = _subscription(request)
    before = _found(draft, request, member_id)
    member = replace(
        before,
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack=subscription.rack_id or before.rack,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=client_id,
        client_host=client_host,
        classic=ClassicTraits(request.session_timeout_ms, tuple(protocols_of(request))),
    )
    owned = identified(subscription, facts.image)
    resubscribed = subscribe(draft, before, member, facts)
    assign(draft, facts)
    member = follow(draft, member, owned, resubscribed, facts)
    return ClassicJoin(member.id, member)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except Malformed as problem:
        raise errors.InconsistentGroupProtocol(f"the subscription cannot be decoded: {problem}") from None


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """True if all classic members of the group support one of the request's protocols."""
    if request.protocol_type != PROTOCOL_TYPE or not request.protocols:
        return False
    names = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.classic is not None:
            names &= {name for name, _ in member.classic.protocols}
    return bool(names)


def _found(draft: GroupDraft, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    group = draft.group
    if request.group_instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    static_member = group.static_member(request.group_instance_id)
    if request.member_id:
        return check_instance(static_member, group.id, member_id, request.group_instance_id)
    if static_member is None:
        return ConsumerMember(member_id)
    return replace_static(draft, static_member, member_id)


def protocol_of(member: ConsumerMember) -> str:
    assert member.classic is not None
    return member.classic.protocols[0][0]


# The rest of a classic member's life


def find(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_instance(group.static_member(instance_id), group.id, member_id, instance_id)
    if member.classic is None:
        raise errors.UnknownMemberId(f"member {member_id} of group {group.id} uses the consumer protocol")
    if generation != member.epoch:
        raise errors.IllegalGeneration(
            f"member {member_id} of group {group.id} is at {member.epoch}, not {generation}"
        )
    return member


def sync(group: ConsumerGroup, request: SyncGroupRequest, image: Image) -> bytes:
    """The member's assignment in the embedded consumer protocol."""
    member = find(group, request.member_id, request.group_instance_id, request.generation_id)
    if request.protocol_type is not None and request.protocol_type != PROTOCOL_TYPE:
        raise errors.InconsistentGroupProtocol(f"the group's protocol type is {PROTOCOL_TYPE}")
    if request.protocol_name is not None and request.protocol_name != protocol_of(member):
        raise errors.InconsistentGroupProtocol(f"the member joined with protocol {protocol_of(member)}")
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        raise errors.RebalanceInProgress(f"group {group.id} has a new assignment: join again")
    assert member.classic is not None
    version = read_version(member.classic.protocols[0][1])
    partitions: Partitions = without_epochs(member.assigned)
    return write_assignment(partitions, image, version)


def must_rejoin(group: ConsumerGroup, member: ConsumerMember, image: Image) -> bool:
    """True if the member must revoke partitions, or if all that it waits for is free: both are rebalances to it."""
    if member.state is MemberState.UNREVOKED or member.epoch < group.assignment_epoch:
        return True
    return member.state is MemberState.UNRELEASED and not waits_for_others(
        member, goal_of(group, member, image)
    )


def leave(
    group: ConsumerGroup, leaving: Sequence[MemberIdentity]
) -> tuple[list[MemberResponse], dict[str, ConsumerMember]]:
    """An answer for each identity, and the members that leave."""
    answers, gone = [], {}
    for identity in leaving:
        answer = MemberResponse(identity.member_id, identity.group_instance_id)
        try:
            if identity.group_instance_id is None:
                member = group.member(identity.member_id)
            else:
                static_member = group.static_member(identity.group_instance_id)
                wanted = identity.member_id or (static_member.id if static_member is not None else "")
                member = check_instance(static_member, group.id, wanted, identity.group_instance_id)
            gone[member.id] = member
        except errors.TidelogError as problem:
            answer.error_code = problem.code
        answers.append(answer)
    return answers, gone
