"""ConsumerGroupHeartbeat: decides how members join, reconcile with their target, leave, and are fenced.

Checks come in Kafka's order, so that a wrong request gets Kafka's error code.  Pure: the decisions are records in the
draft; they change the group when the driver has written and replayed them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.consumer.assignors import Partitions
from tidelog.groups.consumer.group import ConsumerGroup, gone_entries, regex_entry, target_entry
from tidelog.groups.consumer.member import (
    JOINING_EPOCH,
    LEFT_EPOCH,
    STATIC_LEFT_EPOCH,
    ConsumerMember,
    Owned,
)
from tidelog.groups.consumer.reconciliation import reconciled
from tidelog.groups.consumer.target_assignment import (
    GroupDraft,
    GroupFacts,
    assign,
    goal_of,
    refresh,
)
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_NOTHING_SAID = (None,) * 5
VERSION_WITH_CLIENTS_IDS = 1  # from this version on, a member creates its own member id


class HeartbeatResult(NamedTuple):
    """The result of a heartbeat.  `assigned` None: the answer carries no assignment, because it has not changed."""

    member: ConsumerMember
    assigned: Owned | None


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises errors that do not depend on the group."""
    epoch = request.member_epoch
    refuse = errors.InvalidRequest
    needs_id = version >= VERSION_WITH_CLIENTS_IDS or epoch > 0 or epoch == LEFT_EPOCH
    if needs_id and not request.member_id.strip():
        raise refuse("MemberId can't be empty.")
    if not request.group_id.strip():
        raise refuse("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise refuse("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise refuse("RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise refuse("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise refuse("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise refuse(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEFT_EPOCH:
        if request.instance_id is None:
            raise refuse("InstanceId can't be null.")
    elif epoch < STATIC_LEFT_EPOCH:
        raise refuse("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise errors.UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if the request holds everything about the member: it may have missed an answer, and asks for all of it."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions}


def member_heartbeat(
    draft: GroupDraft,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
    facts: GroupFacts,
    viewer: TopicViewer | None = None,
) -> HeartbeatResult:
    """The heartbeat of a member that joins or stays."""
    check_room(draft.group, request.member_id, facts)
    owned = owned_partitions(request)
    before = _found(draft, request, owned, facts)
    member = _as_it_says(before, request, client_id, client_host)
    facts = facts.seen_by(member.id, viewer)
    resubscribed = subscribe(draft, before, member, facts)
    assign(draft, facts)
    member = follow(draft, member, owned, resubscribed, facts)
    tell = request.member_epoch == JOINING_EPOCH or is_full(request) or member.assigned != before.assigned
    return HeartbeatResult(member, member.assigned if tell else None)


def _as_it_says(
    before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """The member with the fields that the request changes; most requests change none."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    described = (names, regex, request.rack_id, request.server_assignor, before.classic)
    same = before.client_id == client_id and before.client_host == client_host
    alone = request.rebalance_timeout_ms in (-1, before.rebalance_timeout_ms)
    if described == _NOTHING_SAID and same and alone and before.instance_id == request.instance_id:
        return before
    return replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack=before.rack if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        assignor=before.assignor if request.server_assignor is None else request.server_assignor,
        topics=before.topics if names is None else frozenset(names),
        regex=before.regex if regex is None else regex,
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def check_room(group: ConsumerGroup, member_id: str, facts: GroupFacts) -> None:
    most = facts.config.group_consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise errors.GroupMaxSizeReached(
            f"group {group.id} has {most} members: group.consumer.max.size of the broker allows no more"
        )


def _found(
    draft: GroupDraft, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None, facts: GroupFacts
) -> ConsumerMember:
    """The existing member, or a new one."""
    group, epoch = draft.group, request.member_epoch
    member_id = request.member_id or facts.new_id()
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if epoch != JOINING_EPOCH:
                return group.member(member_id)  # raises
            return ConsumerMember(member_id)
    else:
        member = group.static_member(request.instance_id)
        if epoch == JOINING_EPOCH:
            if member is None:
                return group.members.get(member_id) or ConsumerMember(member_id)
            if member.classic is None and member.epoch != STATIC_LEFT_EPOCH:
                raise errors.UnreleasedInstanceId(
                    f"member {member.id} of group {group.id} still uses instance id {request.instance_id}"
                )
            return replace_static(draft, member, member_id)
        member = check_instance(member, group.id, member_id, request.instance_id)
    _check_epoch(member, epoch, owned)
    return member


def check_instance(
    member: ConsumerMember | None, group: str, member_id: str, instance_id: str
) -> ConsumerMember:
    if member is None:
        raise errors.UnknownMemberId(f"group {group} has no member with instance id {instance_id}")
    if member.id != member_id:
        raise errors.FencedInstanceId(
            f"another member of group {group} has taken over instance id {instance_id}"
        )
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise errors.FencedMemberEpoch(
            f"member {member.id} is at epoch {member.epoch}, not {epoch}: it must revoke its partitions and rejoin"
        )
    # The member may have missed the answer with its new epoch; it then still owns only partitions that are its own.
    missed = owned is not None and all(
        partitions <= member.assigned.get(topic, {}).keys() for topic, partitions in owned.items()
    )
    if epoch != member.previous_epoch or not missed:
        raise errors.FencedMemberEpoch(
            f"member {member.id} is at epoch {member.epoch} already, not {epoch}: it must revoke its partitions and rejoin"
        )


def replace_static(draft: GroupDraft, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member is back under a new member id, and gets the old id's assignment."""
    group = draft.group
    member = replace(old, id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = group.targets.get(old.id, {})
    draft.add(*gone_entries(group.id, old.id))
    draft.add(member.subscription_entry(group.id), target_entry(group.id, member_id, target))
    draft.add(member.assignment_entry(group.id))
    return member


def subscribe(draft: GroupDraft, before: ConsumerMember, member: ConsumerMember, facts: GroupFacts) -> bool:
    """Records changes of the member; true if its subscription changed."""
    group = draft.group
    topics_changed, regex_changed = member.topics != before.topics, member.regex != before.regex
    if regex_changed and member.regex and member.regex not in group.resolved:
        facts.expressions.check(member.regex)
    if before.id not in group.members or member != before:
        draft.add(member.subscription_entry(group.id))
    if regex_changed and before.regex:
        drop_unused(draft, before.regex)
    refresh(draft, facts, topics_changed or regex_changed)
    return topics_changed or regex_changed


def drop_unused(draft: GroupDraft, regex: str) -> None:
    group = draft.group
    if regex in group.resolved and all(member.regex != regex for member in group.members.values()):
        draft.add(regex_entry(group.id, regex, None))


def follow(
    draft: GroupDraft, member: ConsumerMember, owned: Partitions | None, resubscribed: bool, facts: GroupFacts
) -> ConsumerMember:
    """Moves the member one step towards its target assignment."""
    group = draft.group
    if not resubscribed and member.is_reconciled(group.assignment_epoch):
        return member
    after = reconciled(member, goal_of(group, member, facts.image, owned, resubscribed))
    if after != member:
        draft.add(after.assignment_entry(group.id))
    return after


# Leaving


def leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member that leaves."""
    if request.instance_id is None:
        return group.member(request.member_id)
    member = group.static_member(request.instance_id)
    return check_instance(member, group.id, request.member_id, request.instance_id)


def step_out(draft: GroupDraft, member: ConsumerMember) -> None:
    """A static member leaves for now; its partitions stay reserved for it until its session ends."""
    out = replace(
        member,
        epoch=STATIC_LEFT_EPOCH,
        revoking={},
        assigned={topic: dict.fromkeys(some, 0) for topic, some in member.assigned.items()},
    )
    draft.add(out.assignment_entry(draft.group.id))


def remove(draft: GroupDraft, members: Collection[ConsumerMember], facts: GroupFacts) -> None:
    """Removes members that left or whose session expired."""
    for member in members:
        draft.add(*gone_entries(draft.group.id, member.id))
    for regex in sorted({member.regex for member in members if member.regex}):
        drop_unused(draft, regex)
    refresh(draft, facts, changed=True)
