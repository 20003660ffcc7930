"""SyncGroup, Heartbeat and LeaveGroup of a classic group.  Pure; see `rebalance`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.rebalance import GroupStep, SetSession, SetSyncDeadline, synced
from tidelog.wire.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Assignment(NamedTuple):
    """The leader has handed out assignments: once `entry` is written the group is stable."""

    entry: CoordinatorRecord
    generation: int


Outcome = SyncGroupResponse | Assignment | None
"""An answer for now, or something to write first; None: the request waits for the leader's."""


def sync(turn: GroupStep, request: SyncGroupRequest, waiter: Hashable) -> Outcome:
    """Raises the protocol's error."""
    group, member_id = turn.group, request.member_id
    _check(group, member_id, request.group_instance_id, request.generation_id)
    _check_protocol(request.protocol_type, group.protocol_type)
    _check_protocol(request.protocol_name, group.protocol)
    if group.state is ClassicState.PREPARING:
        raise errors.RebalanceInProgress(f"group {group.id} is rebalancing: join again")
    member = group.members[member_id]
    group.unsynced.discard(member_id)
    if not group.unsynced:
        turn.effects.append(SetSyncDeadline(None))
    if group.state is ClassicState.STABLE:
        return synced(group, member)
    turn.answer_sync(member, errors.RebalanceInProgress.code)  # an earlier one of it that still waits
    member.syncing = waiter
    if group.leader != member_id:
        return None
    # What the leader assigns to strangers is passed over; whom it forgot gets nothing.
    given = {one.member_id: one.assignment for one in request.assignments}
    return Assignment(group.entry(given), group.generation)


def _check(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    if group.state is ClassicState.DEAD:
        raise errors.CoordinatorNotAvailable(f"group {group.id} is being deleted")
    group.check_member(member_id, instance_id)
    if generation != group.generation:
        raise errors.IllegalGeneration(
            f"group {group.id} is in generation {group.generation}, not {generation}"
        )


def _check_protocol(given: str | None, known: str | None) -> None:
    if given is not None and known is not None and given != known:
        raise errors.InconsistentGroupProtocol(f"the group's protocol is {known}, not {given}")


def assignment_failed(turn: GroupStep, generation: int, error_code: int) -> None:
    """The assignments could not be written: whoever waits for one is told, and joins again."""
    group = turn.group
    if group.state is not ClassicState.COMPLETING or group.generation != generation:
        return
    for member in group.members.values():
        member.assignment = b""
    turn.answer_syncs(error_code)
    turn.prepare()


def assigned(turn: GroupStep) -> None:
    """The assignments are written, and the group has them."""
    if turn.group.state is ClassicState.STABLE:
        turn.assigned()


def assignment_settled(turn: GroupStep, generation: int, error_code: int) -> None:
    """The assignments are safe (or, with an error, nobody knows yet): whoever still waits for one gets it."""
    if turn.group.state is ClassicState.STABLE and turn.group.generation == generation:
        turn.answer_syncs(error_code)


def heartbeat(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> int:
    """Checks it, and says how long the member's session lasts from now on; the state says what to answer."""
    _check(group, member_id, instance_id, generation)
    if group.state is ClassicState.EMPTY:
        raise errors.UnknownMemberId(f"group {group.id} has no members")
    return group.members[member_id].session_timeout_ms


def leave(turn: GroupStep, leaving: Sequence[MemberIdentity]) -> list[MemberResponse]:
    group = turn.group
    if group.state is ClassicState.DEAD:
        raise errors.CoordinatorNotAvailable(f"group {group.id} is being deleted")
    answers = [MemberResponse(one.member_id, one.group_instance_id, _leave_one(turn, one)) for one in leaving]
    if any(answer.error_code == errors.NONE for answer in answers):
        if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
            turn.prepare_or_complete()
        else:
            turn.complete_if_all_joined()
    return answers


def _leave_one(turn: GroupStep, one: MemberIdentity) -> int:
    group, member_id = turn.group, one.member_id
    if not member_id:
        known = None if one.group_instance_id is None else group.static.get(one.group_instance_id)
        if known is None:
            return errors.UnknownMemberId.code
        member_id = known
    elif member_id in group.promised:
        group.remove(member_id)
        turn.effects.append(SetSession(member_id, None))
        return errors.NONE
    else:
        try:
            group.check_member(member_id, one.group_instance_id)
        except errors.TidelogError as problem:
            return problem.code
    turn.drop(group.members[member_id])
    return errors.NONE
