"""JoinGroup of a classic group: decides which member may join, what changes, and whether the request waits.

The checks come in Kafka's order.  Pure: `coordinator` performs the effects."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.member import ClassicMember, Protocols
from tidelog.groups.classic.rebalance import GroupStep, SetSession, joined, listed
from tidelog.wire.messages.group_metadata_record import GroupMetadataValue
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NEW_MEMBER_MS = 5 * 60 * 1000
"""The session timeout of a new member until its first JoinGroup is answered."""

_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9


class Joiner(NamedTuple):
    """The sender of the request.  `new_id` is the member id that it gets if it needs one; `waiter` stands for the
    request."""

    client_id: str
    client_host: str
    version: int
    new_id: str
    waiter: Hashable


class Replacement(NamedTuple):
    """A static member comes back and nothing else changes: the driver writes `entry`, then calls `replaced`."""

    entry: CoordinatorRecord
    old: ClassicMember
    new: ClassicMember


Outcome = JoinGroupResponse | Replacement | None
"""An immediate answer, or a record to write first; None: the request waits."""


def join(step: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group, member_id = step.group, request.member_id
    if not _fits(group, member_id, step.settings.size_max):
        group.remove(member_id)
        return refused("", errors.GroupMaxSizeReached)
    if group.state is ClassicState.DEAD:
        return refused(member_id, errors.CoordinatorNotAvailable)
    if not group.supports(request.protocol_type, protocols_of(request)):
        return refused(member_id, errors.InconsistentGroupProtocol)
    return _join_known(step, request, joiner) if member_id else _join_new(step, request, joiner)


def refused(member_id: str, why: type[errors.TidelogError]) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=why.code)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _fits(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    member = group.members.get(member_id)
    if group.state is ClassicState.PREPARING:
        if member is not None and member.joining is not None:
            return True
        return sum(other.joining is not None for other in group.members.values()) < size_max
    if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
        return member is not None or len(group.members) < size_max
    return True


def _join_new(step: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group = step.group
    if request.group_instance_id is not None:
        current_id = group.static.get(request.group_instance_id)
        if current_id is not None:
            return _replace_static(step, request, joiner, group.members[current_id])
        return _add(step, request, joiner, joiner.new_id)
    if joiner.version < _ID_REQUIRED_FROM:
        return _add(step, request, joiner, joiner.new_id)
    # A client that gives up and tries again must not become a second member: it joins once it knows its member id.
    group.promised.add(joiner.new_id)
    step.effects.append(SetSession(joiner.new_id, request.session_timeout_ms))
    return refused(joiner.new_id, errors.MemberIdRequired)


def _join_known(step: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group, member_id = step.group, request.member_id
    if member_id in group.promised:
        if request.group_instance_id is not None:
            return refused(member_id, errors.UnknownServerError)
        return _add(step, request, joiner, member_id)
    try:
        group.check_member(member_id, request.group_instance_id)
    except errors.TidelogError as problem:
        return JoinGroupResponse(member_id=member_id, error_code=problem.code, protocol_name=None)
    member = group.members[member_id]
    if group.state is ClassicState.EMPTY:
        return refused(member_id, errors.UnknownMemberId)
    unchanged = tuple(member.protocols) == protocols_of(request)
    if member_id in group.withheld and unchanged:
        _update(step, member, request, joiner.waiter)
        return None
    if group.state is ClassicState.COMPLETING and unchanged:
        # The earlier answer was lost on its way: send it again.
        return joined(group, member)
    if group.state is ClassicState.STABLE and unchanged and group.leader != member_id:
        return joined(group, member)
    _update(step, member, request, joiner.waiter)
    step.prepare_or_complete()
    return None


def _add(step: GroupStep, request: JoinGroupRequest, joiner: Joiner, member_id: str) -> Outcome:
    group = step.group
    if group.state is ClassicState.PREPARING and group.initial:
        group.joined_lately = True
    member = ClassicMember(
        member_id,
        request.group_instance_id,
        joiner.client_id,
        joiner.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        protocols_of(request),
        joining=joiner.waiter,
        new=True,
    )
    group.add(member, request.protocol_type)
    step.effects.append(SetSession(member_id, NEW_MEMBER_MS))
    step.prepare_or_complete()
    return None


def _update(step: GroupStep, member: ClassicMember, request: JoinGroupRequest, waiter: Hashable) -> None:
    # An earlier request of this member still waits.  Kafka forgets it, and no client reads its answer; but answers of
    # one connection are sent in order, so the request must get one.
    step.answer_join(member, refused(member.id, errors.RebalanceInProgress))
    member.protocols = protocols_of(request)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.joining = waiter


def _replace_static(
    step: GroupStep, request: JoinGroupRequest, joiner: Joiner, old: ClassicMember
) -> Outcome:
    group = step.group
    new = replace(
        old,
        id=joiner.new_id,
        protocols=protocols_of(request),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        joining=None,
        syncing=None,
    )
    if group.state is ClassicState.STABLE and _protocol_with(group, old, new) == group.protocol:
        return Replacement(_replaced_entry(group, old, new), old, new)
    _fence(step, old)
    group.replace(old.id, new)
    new.joining = joiner.waiter
    step.effects.append(SetSession(new.id, new.session_timeout_ms))
    if group.state is ClassicState.PREPARING:
        step.complete_if_all_joined()
    else:
        step.prepare()
    return None


def _protocol_with(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> str | None:
    names = {other.id: other for other in group.members.values()}
    names[old.id] = new
    probe = ClassicGroup(group.id)
    probe.members = names
    return probe.choose_protocol()


def _replaced_entry(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> CoordinatorRecord:
    entry = group.entry()
    value: GroupMetadataValue = entry.value
    value.members = [
        new.recorded(group.protocol) if stored.member_id == old.id else stored for stored in value.members
    ]
    if value.leader == old.id:
        value.leader = new.id
    return entry


def _fence(step: GroupStep, old: ClassicMember) -> None:
    step.answer_join(
        old,
        JoinGroupResponse(member_id=old.id, error_code=errors.FencedInstanceId.code, protocol_name=None),
    )
    step.answer_sync(old, errors.FencedInstanceId.code)
    step.effects.append(SetSession(old.id, None))


def replaced(
    step: GroupStep, replacement: Replacement, was_leader: str | None, version: int
) -> JoinGroupResponse:
    """The record is written and the group has the new member: fences the old one and returns the answer."""
    group = step.group
    _fence(step, replacement.old)
    group.unsynced.discard(replacement.old.id)
    member = group.members[replacement.new.id]
    member.protocols = replacement.new.protocols  # the record holds only the chosen protocol
    step.effects.append(SetSession(member.id, member.session_timeout_ms))
    answer = joined(group, member)
    leads = group.leader == member.id
    if version >= _SKIP_ASSIGNMENT_FROM:
        answer.members = listed(group) if leads else []
        answer.skip_assignment = leads
    else:
        # A client that sees its own new id as the leader's would compute an assignment for a finished generation.
        answer.members = []
        answer.leader = was_leader or ""
    return answer
