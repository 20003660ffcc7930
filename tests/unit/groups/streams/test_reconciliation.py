"""A member gets what is free, and nothing that its process still has."""

from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.groups.streams.member import StreamsMember, StreamsMemberState
from tidelog.groups.streams.reconciliation import reconciled, taken_tasks
from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment

TASK = ("0", 0)
ACTIVE = TaskAssignment(active=frozenset([TASK]))
STANDBY = TaskAssignment(standby=frozenset([TASK]))


@pytest.mark.parametrize("has", [ACTIVE, STANDBY])
@pytest.mark.parametrize("wants", [ACTIVE, STANDBY])
@pytest.mark.parametrize("same_process", [True, False])
def test_what_another_member_has_is_waited_for(
    has: TaskAssignment, wants: TaskAssignment, same_process: bool
) -> None:
    other = StreamsMember("m1", process_id="p", epoch=2, revoking=has)
    member = StreamsMember("m2", process_id="p" if same_process else "q", epoch=2)
    after = reconciled(member, 3, wants, taken_tasks(member, [other, member]), None)
    free = not same_process and not (has is ACTIVE and wants is ACTIVE)
    assert after.assigned == (wants if free else NOTHING_ASSIGNED)
    assert after.state is (StreamsMemberState.STABLE if free else StreamsMemberState.UNRELEASED)
    assert after.epoch == 3


def test_a_task_that_changes_its_role_is_given_back_first() -> None:
    member = StreamsMember("m", process_id="p", epoch=2, assigned=STANDBY)
    taken = taken_tasks(member, [member])
    waits = reconciled(member, 3, ACTIVE, taken, STANDBY)
    assert (waits.state, waits.epoch) == (StreamsMemberState.UNREVOKED, 2)
    assert (waits.assigned, waits.revoking) == (NOTHING_ASSIGNED, STANDBY)
    assert reconciled(waits, 3, ACTIVE, taken, None) is waits  # it does not say what it has
    after = reconciled(waits, 3, ACTIVE, taken, NOTHING_ASSIGNED)
    assert (after.state, after.epoch, after.assigned) == (StreamsMemberState.STABLE, 3, ACTIVE)
    assert after.since == {TASK: 3}


def test_a_task_keeps_the_epoch_since_which_the_member_has_it() -> None:
    more = TaskAssignment(active=frozenset([TASK, ("0", 1)]))
    member = StreamsMember("m", process_id="p", epoch=2, assigned=ACTIVE, since={TASK: 2})
    after = reconciled(member, 5, more, taken_tasks(member, [member]), None)
    assert after.since == {TASK: 2, ("0", 1): 5}


def test_a_member_in_a_state_of_a_newer_broker_begins_anew() -> None:
    member = StreamsMember("m", epoch=2, state=StreamsMemberState.UNKNOWN, assigned=ACTIVE)
    taken = taken_tasks(member, [member])
    with pytest.raises(errors.FencedMemberEpoch):
        reconciled(member, 3, ACTIVE, taken, None)
    assert reconciled(member, 3, ACTIVE, taken, NOTHING_ASSIGNED).epoch == 3
