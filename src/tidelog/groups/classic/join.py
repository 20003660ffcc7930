"""JoinGroup of a classic group: who may join, what it changes, who is answered now and who waits.

In the order of Kafka's checks.  Pure: `coordinator` performs the effects."""

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
"""How long a new member is waited for: it has no session before the answer to its first JoinGroup."""

_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9


class Joiner(NamedTuple):
    """Who sends the request.  `new_id` is the member id it gets if it needs one, `waiter` stands for the request."""

    client_id: str
    client_host: str
    version: int
    new_id: str
    waiter: Hashable


class Replacement(NamedTuple):
    """A static member comes back and nothing else changes: write `entry`, then `replaced` makes it so."""

    entry: CoordinatorRecord
    old: ClassicMember
    new: ClassicMember


Outcome = JoinGroupResponse | Replacement | None
"""An answer for now, or something to write first; None: the request waits."""


def join(turn: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group, member_id = turn.group, request.member_id
    if not _fits(group, member_id, turn.settings.size_max):
        group.remove(member_id)
        return refused("", errors.GroupMaxSizeReached)
    if group.state is ClassicState.DEAD:
        return refused(member_id, errors.CoordinatorNotAvailable)
    if not group.supports(request.protocol_type, protocols_of(request)):
        return refused(member_id, errors.InconsistentGroupProtocol)
    return _join_known(turn, request, joiner) if member_id else _join_new(turn, request, joiner)


def refused(member_id: str, why: type[errors.TidelogError]) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=why.code)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _fits(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    member = group.members.get(member_id)
    if group.state is ClassicState.PREPARING:
        if member is not None and member.joining is not None:
            return True
        return sum(one.joining is not None for one in group.members.values()) < size_max
    if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
        return member is not None or len(group.members) < size_max
    return True


def _join_new(turn: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group = turn.group
    if request.group_instance_id is not None:
        known = group.static.get(request.group_instance_id)
        if known is not None:
            return _replace_static(turn, request, joiner, group.members[known])
        return _add(turn, request, joiner, joiner.new_id)
    if joiner.version < _ID_REQUIRED_FROM:
        return _add(turn, request, joiner, joiner.new_id)
    # A client that gives up now and tries again would be a second member: it joins when it knows its id.
    group.promised.add(joiner.new_id)
    turn.effects.append(SetSession(joiner.new_id, request.session_timeout_ms))
    return refused(joiner.new_id, errors.MemberIdRequired)


def _join_known(turn: GroupStep, request: JoinGroupRequest, joiner: Joiner) -> Outcome:
    group, member_id = turn.group, request.member_id
    if member_id in group.promised:
        if request.group_instance_id is not None:
            return refused(member_id, errors.UnknownServerError)
        return _add(turn, request, joiner, member_id)
    try:
        group.check_member(member_id, request.group_instance_id)
    except errors.TidelogError as problem:
        return JoinGroupResponse(member_id=member_id, error_code=problem.code, protocol_name=None)
    member = group.members[member_id]
    if group.state is ClassicState.EMPTY:
        return refused(member_id, errors.UnknownMemberId)
    unchanged = tuple(member.protocols) == protocols_of(request)
    if member_id in group.withheld and unchanged:
        _update(turn, member, request, joiner.waiter)
        return None
    if group.state is ClassicState.COMPLETING and unchanged:
        # Its answer was lost on the way: here it is again.
        return joined(group, member)
    if group.state is ClassicState.STABLE and unchanged and group.leader != member_id:
        return joined(group, member)
    _update(turn, member, request, joiner.waiter)
    turn.prepare_or_complete()
    return None


def _add(turn: GroupStep, request: JoinGroupRequest, joiner: Joiner, member_id: str) -> Outcome:
    group = turn.group
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
    turn.effects.append(SetSession(member_id, NEW_MEMBER_MS))
    turn.prepare_or_complete()
    return None


def _update(turn: GroupStep, member: ClassicMember, request: JoinGroupRequest, waiter: Hashable) -> None:
    # An earlier request of this member that still waits is given up: Kafka forgets it, and no client reads the
    # answer; but answers of one connection are sent in order, so it must have one.
    turn.answer_join(member, refused(member.id, errors.RebalanceInProgress))
    member.protocols = protocols_of(request)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.joining = waiter


def _replace_static(
    turn: GroupStep, request: JoinGroupRequest, joiner: Joiner, old: ClassicMember
) -> Outcome:
    group = turn.group
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
    _fence(turn, old)
    group.replace(old.id, new)
    new.joining = joiner.waiter
    turn.effects.append(SetSession(new.id, new.session_timeout_ms))
    if group.state is ClassicState.PREPARING:
        turn.complete_if_all_joined()
    else:
        turn.prepare()
    return None


def _protocol_with(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> str | None:
    names = {one.id: one for one in group.members.values()}
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


def _fence(turn: GroupStep, old: ClassicMember) -> None:
    turn.answer_join(
        old,
        JoinGroupResponse(member_id=old.id, error_code=errors.FencedInstanceId.code, protocol_name=None),
    )
    turn.answer_sync(old, errors.FencedInstanceId.code)
    turn.effects.append(SetSession(old.id, None))


def replaced(turn: GroupStep, it: Replacement, was_leader: str | None, version: int) -> JoinGroupResponse:
    """The entry is written and the group has the new member: the rest of it, and the answer."""
    group = turn.group
    _fence(turn, it.old)
    group.unsynced.discard(it.old.id)
    member = group.members[it.new.id]
    member.protocols = it.new.protocols  # the record holds but the chosen one
    turn.effects.append(SetSession(member.id, member.session_timeout_ms))
    answer = joined(group, member)
    leads = group.leader == member.id
    if version >= _SKIP_ASSIGNMENT_FROM:
        answer.members = listed(group) if leads else []
        answer.skip_assignment = leads
    else:
        # Told of its own new id it would take itself for the leader, and assign for a generation that is settled.
        answer.members = []
        answer.leader = was_leader or ""
    return answer
