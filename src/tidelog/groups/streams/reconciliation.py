"""Reconciliation of a streams member: how it moves from its current to its target tasks.

As in consumer groups, a member keeps its epoch until it has given back every task that is not in its target; then it
gets the tasks that are free.  An active task is free when no member runs it.  Besides, no task is in one process in two
roles, or in two members: they share the folder of its store.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.streams.member import StreamsMember, StreamsMemberState
from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment, TaskId, Tasks


class TakenTasks(NamedTuple):
    """The tasks that other members have, or have not given back yet."""

    active: Tasks
    """Anywhere."""
    in_process: Tasks
    """In any role, in members of the same process."""


def taken_tasks(member: StreamsMember, others: Iterable[StreamsMember]) -> TakenTasks:
    active: set[TaskId] = set()
    in_process: set[TaskId] = set()
    for other in others:
        if other.id == member.id:
            continue
        active |= other.assigned.active | other.revoking.active
        if other.process_id == member.process_id:
            in_process.update(*other.assigned, *other.revoking)
    return TakenTasks(frozenset(active), frozenset(in_process))


def reconciled(
    member: StreamsMember,
    epoch: int,
    target: TaskAssignment,
    taken: TakenTasks,
    owned: TaskAssignment | None,
) -> StreamsMember:
    """The member after its heartbeat; unchanged if there is nothing to do, or if it must give tasks back first.  `owned`
    are the tasks that the member says it has; None if it does not say."""
    state = member.state
    if member.is_reconciled(epoch):
        return member
    if state is StreamsMemberState.UNREVOKED and (owned is None or owned.shares_any(member.revoking)):
        return member
    if state is StreamsMemberState.UNKNOWN and (owned is None or not owned.is_empty):
        raise errors.FencedMemberEpoch(
            f"member {member.id} has a state that this broker does not know: it must abandon its tasks and rejoin"
        )
    kept = _both(member.assigned, target)
    leaving = _without(member.assigned, target)
    if not leaving.is_empty and (owned is None or owned.shares_any(leaving)):
        # Of tasks that it confirmed to have given back nothing is left.
        return _moved(member, member.epoch, StreamsMemberState.UNREVOKED, kept, leaving, epoch)
    blocked = TaskAssignment(taken.active | taken.in_process, taken.in_process, taken.in_process)
    coming = _without(target, kept)
    free = _without(coming, blocked)
    after = TaskAssignment(*(mine | new for mine, new in zip(kept, free, strict=True)))
    waits = StreamsMemberState.STABLE if free == coming else StreamsMemberState.UNRELEASED
    return _moved(member, epoch, waits, after, NOTHING_ASSIGNED, epoch)


def _moved(
    member: StreamsMember,
    epoch: int,
    state: StreamsMemberState,
    assigned: TaskAssignment,
    revoking: TaskAssignment,
    new_since: int,
) -> StreamsMember:
    since = {
        task: member.since.get(task, new_since) if task in member.assigned.active else new_since
        for task in assigned.active | revoking.active
    }
    same = member.state is state and member.epoch == epoch
    if same and (member.assigned, member.revoking) == (assigned, revoking):
        return member
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        since=since,
    )


def _both(tasks: TaskAssignment, other: TaskAssignment) -> TaskAssignment:
    return TaskAssignment(*(mine & others for mine, others in zip(tasks, other, strict=True)))


def _without(tasks: TaskAssignment, other: TaskAssignment) -> TaskAssignment:
    return TaskAssignment(*(mine - others for mine, others in zip(tasks, other, strict=True)))
