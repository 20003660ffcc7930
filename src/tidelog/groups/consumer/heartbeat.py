"""ConsumerGroupHeartbeat, decided: how members join, follow the assignment, leave, and are told off.

Checks come in Kafka's order, so that a wrong request gets Kafka's code.  Pure: nothing changes here; the draft's
entries are what changes, and they are replayed once they are written."""

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
from tidelog.groups.consumer.target_assignment import GroupDraft, GroupFacts, assign, goal_of, refresh
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_NOTHING_SAID = (None,) * 5
VERSION_WITH_CLIENTS_IDS = 1  # from here on a member brings an id of its own


class HeartbeatResult(NamedTuple):
    """What came of a heartbeat.  `assigned` None: nothing new to tell about partitions."""

    member: ConsumerMember
    assigned: Owned | None


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """What is wrong whatever the group is."""
    epoch = request.member_epoch
    refuse = errors.InvalidRequest
    needs_id = version >= VERSION_WITH_CLIENTS_IDS or epoch > 0 or epoch == LEFT_EPOCH
    if needs_id and not request.member_id.strip():
        raise refuse("the member id is empty")
    if not request.group_id.strip():
        raise refuse("the group id is empty")
    if request.instance_id is not None and not request.instance_id.strip():
        raise refuse("the instance id is empty")
    if request.rack_id is not None and not request.rack_id.strip():
        raise refuse("the rack is empty")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise refuse("a member that joins must give its rebalance timeout")
        if request.topic_partitions is None or request.topic_partitions:
            raise refuse("a member that joins must say that it owns no partitions")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise refuse("a member that joins must subscribe to topics, or to an expression")
    elif epoch == STATIC_LEFT_EPOCH:
        if request.instance_id is None:
            raise refuse("only a static member goes away for a while: the instance id is missing")
    elif epoch < STATIC_LEFT_EPOCH:
        raise refuse(f"there is no member epoch {epoch}")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise errors.UnsupportedAssignor(
            f"there is no assignor {request.server_assignor!r}: there are {', '.join(assignors)}"
        )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Everything about the member is in it: it may have lost an answer, and wants all of it again."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {one.topic_id: frozenset(one.partitions) for one in request.topic_partitions}


def member_heartbeat(
    draft: GroupDraft,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
    world: GroupFacts,
) -> HeartbeatResult:
    """A member joins, or is still there."""
    check_room(draft.group, request.member_id, world)
    owned = owned_partitions(request)
    before = _found(draft, request, owned, world)
    member = _as_it_says(before, request, client_id, client_host)
    resubscribed = subscribe(draft, before, member, world)
    assign(draft, world)
    member = follow(draft, member, owned, resubscribed, world)
    tell = request.member_epoch == JOINING_EPOCH or is_full(request) or member.assigned != before.assigned
    return HeartbeatResult(member, member.assigned if tell else None)


def _as_it_says(
    before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """With what the request says about it, which is nothing, nearly always."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    said = (names, regex, request.rack_id, request.server_assignor, before.classic)
    same = before.client_id == client_id and before.client_host == client_host
    alone = request.rebalance_timeout_ms in (-1, before.rebalance_timeout_ms)
    if said == _NOTHING_SAID and same and alone and before.instance_id == request.instance_id:
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


def check_room(group: ConsumerGroup, member_id: str, world: GroupFacts) -> None:
    most = world.config.group_consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise errors.GroupMaxSizeReached(f"group {group.id} has {most} members, and may have no more")


def _found(
    draft: GroupDraft, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None, world: GroupFacts
) -> ConsumerMember:
    """The member as it is known, or a new one."""
    group, epoch = draft.group, request.member_epoch
    member_id = request.member_id or world.new_id()
    if request.instance_id is None:
        known = group.members.get(member_id)
        if known is None:
            if epoch != JOINING_EPOCH:
                return group.member(member_id)  # raises
            return ConsumerMember(member_id)
    else:
        known = group.static_member(request.instance_id)
        if epoch == JOINING_EPOCH:
            if known is None:
                return group.members.get(member_id) or ConsumerMember(member_id)
            if known.classic is None and known.epoch != STATIC_LEFT_EPOCH:
                raise errors.UnreleasedInstanceId(
                    f"instance {request.instance_id} of group {group.id} is member {known.id}, which is still there"
                )
            return replace_static(draft, known, member_id)
        known = check_instance(known, group.id, member_id, request.instance_id)
    _check_epoch(known, epoch, owned)
    return known


def check_instance(
    known: ConsumerMember | None, group: str, member_id: str, instance_id: str
) -> ConsumerMember:
    if known is None:
        raise errors.UnknownMemberId(f"group {group} has no member with instance id {instance_id}")
    if known.id != member_id:
        raise errors.FencedInstanceId(f"instance {instance_id} of group {group} is another member by now")
    return known


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise errors.FencedMemberEpoch(
            f"member {member.id} is at epoch {member.epoch}, not {epoch}: it must give up its partitions and rejoin"
        )
    # It may have missed the answer that told it of its epoch; what it owns then is still its own.
    missed = owned is not None and all(
        partitions <= member.assigned.get(topic, {}).keys() for topic, partitions in owned.items()
    )
    if epoch != member.previous_epoch or not missed:
        raise errors.FencedMemberEpoch(
            f"member {member.id} is at epoch {member.epoch} already: at {epoch} it must give up its partitions and rejoin"
        )


def replace_static(draft: GroupDraft, known: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member is back under a new id, with all that it had."""
    group = draft.group
    member = replace(known, id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = group.targets.get(known.id, {})
    draft.add(*gone_entries(group.id, known.id))
    draft.add(member.subscription_entry(group.id), target_entry(group.id, member_id, target))
    draft.add(member.assignment_entry(group.id))
    return member


def subscribe(draft: GroupDraft, before: ConsumerMember, member: ConsumerMember, world: GroupFacts) -> bool:
    """Notes what is new about the member; true if it subscribes to something else."""
    group = draft.group
    topics_changed, regex_changed = member.topics != before.topics, member.regex != before.regex
    if regex_changed and member.regex and member.regex not in group.resolved:
        world.expressions.check(member.regex)
    if before.id not in group.members or member != before:
        draft.add(member.subscription_entry(group.id))
    if regex_changed and before.regex:
        drop_unused(draft, before.regex)
    refresh(draft, world, topics_changed or regex_changed)
    return topics_changed or regex_changed


def drop_unused(draft: GroupDraft, regex: str) -> None:
    group = draft.group
    if regex in group.resolved and all(member.regex != regex for member in group.members.values()):
        draft.add(regex_entry(group.id, regex, None))


def follow(
    draft: GroupDraft, member: ConsumerMember, owned: Partitions | None, resubscribed: bool, world: GroupFacts
) -> ConsumerMember:
    """One step of the member towards its target."""
    group = draft.group
    if not resubscribed and member.is_reconciled(group.assignment_epoch):
        return member
    after = reconciled(member, goal_of(group, member, world.image, owned, resubscribed))
    if after != member:
        draft.add(after.assignment_entry(group.id))
    return after


# Leaving


def leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member that says goodbye."""
    if request.instance_id is None:
        return group.member(request.member_id)
    known = group.static_member(request.instance_id)
    return check_instance(known, group.id, request.member_id, request.instance_id)


def step_out(draft: GroupDraft, member: ConsumerMember) -> None:
    """A static member goes away, and its partitions wait for it until its session ends."""
    out = replace(
        member,
        epoch=STATIC_LEFT_EPOCH,
        revoking={},
        assigned={topic: dict.fromkeys(some, 0) for topic, some in member.assigned.items()},
    )
    draft.add(out.assignment_entry(draft.group.id))


def remove(draft: GroupDraft, members: Collection[ConsumerMember], world: GroupFacts) -> None:
    """They left, or are taken for dead."""
    for member in members:
        draft.add(*gone_entries(draft.group.id, member.id))
    for regex in sorted({member.regex for member in members if member.regex}):
        drop_unused(draft, regex)
    refresh(draft, world, changed=True)
