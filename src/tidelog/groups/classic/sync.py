"""SyncGroup, Heartbeat and LeaveGroup of a classic group: how each is answered.  Pure; see `rebalance`."""

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
    """The leader has sent the assignments: once `entry` is written, the group is stable."""

    entry: CoordinatorRecord
    generation: int


Outcome = SyncGroupResponse | Assignment | None
"""An immediate answer, or a record to write first; None: the request waits for the leader's SyncGroup."""


def sync(step: GroupStep, request: SyncGroupRequest, waiter: Hashable) -> Outcome:
    """Raises the protocol's error."""
    group, member_id = step.group, request.member_id
    _check(group, member_id, request.group_instance_id, request.generation_id)
    _check_protocol(request.protocol_type, group.protocol_type)
    _check_protocol(request.protocol_name, group.protocol)
    if group.state is ClassicState.PREPARING:
        raise errors.RebalanceInProgress(f"group {group.id} is rebalancing: join again")
    member = group.members[member_id]
    group.unsynced.discard(member_id)
    if not group.unsynced:
        step.effects.append(SetSyncDeadline(None))
    if group.state is ClassicState.STABLE:
        return synced(group, member)
    step.answer_sync(
        member, errors.RebalanceInProgress.code
    )  # an earlier SyncGroup of this member that still waits
    member.syncing = waiter
    if group.leader != member_id:
        return None
    # Assignments to unknown members are ignored; a member that the leader left out gets no partitions.
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    return Assignment(group.entry(given), group.generation)


def _check(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    if group.state is ClassicState.DEAD:
        raise errors.CoordinatorNotAvailable(f"group {group.id} is being deleted")
    group.check_member(member_id, instance_id)
    if generation != group.generation:
        raise errors.IllegalGeneration(
            f"group {group.id} is in generation {group.generation}, not {generation}"
        )


def _check_protocol(given: str | None, expected: str | None) -> None:
    if given is not None and expected is not None and given != expected:
        raise errors.InconsistentGroupProtocol(f"the group's protocol is {expected}, not {given}")


def assignment_failed(step: GroupStep, generation: int, error_code: int) -> None:
    """The assignments could not be written: waiting members get the error and join again."""
    group = step.group
    if group.state is not ClassicState.COMPLETING or group.generation != generation:
        return
    for member in group.members.values():
        member.assignment = b""
    step.answer_syncs(error_code)
    step.prepare()


def assigned(step: GroupStep) -> None:
    """The assignments are written, and are in the group."""
    if step.group.state is ClassicState.STABLE:
        step.assigned()


def assignment_settled(step: GroupStep, generation: int, error_code: int) -> None:
    """The assignments are committed (or, with an error, not confirmed): members that still wait get their answer."""
    if step.group.state is ClassicState.STABLE and step.group.generation == generation:
        step.answer_syncs(error_code)


def heartbeat(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> int:
    """Checks the heartbeat and returns the member's session timeout; the answer depends on the group's state."""
    _check(group, member_id, instance_id, generation)
    if group.state is ClassicState.EMPTY:
        raise errors.UnknownMemberId(f"group {group.id} has no members")
    return group.members[member_id].session_timeout_ms


def leave(step: GroupStep, leaving: Sequence[MemberIdentity]) -> list[MemberResponse]:
    group = step.group
    if group.state is ClassicState.DEAD:
        raise errors.CoordinatorNotAvailable(f"group {group.id} is being deleted")
    answers = [
        MemberResponse(identity.member_id, identity.group_instance_id, _leave_one(step, identity))
        for identity in leaving
    ]
    if any(answer.error_code == errors.NONE for answer in answers):
        if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
            step.prepare_or_complete()
        else:
            step.complete_if_all_joined()
    return answers


def _leave_one(step: GroupStep, identity: MemberIdentity) -> int:
    group, member_id = step.group, identity.member_id
    if not member_id:
        current_id = (
            None if identity.group_instance_id is None else group.static.get(identity.group_instance_id)
        )
        if current_id is None:
            return errors.UnknownMemberId.code
        member_id = current_id
    elif member_id in group.promised:
        group.remove(member_id)
        step.effects.append(SetSession(member_id, None))
        return errors.NONE
    else:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except errors.TidelogError as problem:
            return problem.code
    step.drop(group.members[member_id])
    return errors.NONE
