"""The sticky assignor: every task runs once, loads are even, standbys are elsewhere, and what can stay stays."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.streams.assignor import AssignableMember, TaskCounts, assign_tasks
from tidelog.groups.streams.tasks import TaskAssignment

processes = st.lists(st.integers(1, 4), min_size=1, max_size=6)
"""Threads of each process."""
counts = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12), min_size=1)


def members(threads: list[int]) -> dict[str, AssignableMember]:
    return {
        f"p{process}-{thread}": AssignableMember(f"p{process}")
        for process, count in enumerate(threads)
        for thread in range(count)
    }


def after(
    members: dict[str, AssignableMember], assignment: dict[str, TaskAssignment]
) -> dict[str, AssignableMember]:
    return {
        id: AssignableMember(member.process_id, assignment.get(id, TaskAssignment()))
        for id, member in members.items()
    }


@given(processes, counts, st.integers(0, 3))
def test_every_task_runs_once_and_standbys_are_in_other_processes(
    threads: list[int], tasks: dict[str, int], replicas: int
) -> None:
    known, wanted = members(threads), TaskCounts(tasks, frozenset("ab"))
    assignment = assign_tasks(known, wanted, replicas)
    active = Counter(task for one in assignment.values() for task in one.active)
    assert set(active) == set(wanted.every()) and set(active.values()) <= {1}
    copies = Counter(
        (task, process)
        for id, one in assignment.items()
        for process in [known[id].process_id]
        for task in (*one.active, *one.standby)
    )
    assert set(copies.values()) <= {1}
    standby = Counter(task for one in assignment.values() for task in one.standby)
    for task in wanted.every():
        expected = min(replicas, len(threads) - 1) if task[0] in wanted.stateful else 0
        assert standby[task] == expected


@given(processes, counts)
def test_a_new_group_is_even(threads: list[int], tasks: dict[str, int]) -> None:
    """Processes have tasks by their threads, and threads of one process differ by one at most."""
    known = members(threads)
    assignment = assign_tasks(known, TaskCounts(tasks), 0)
    for process in range(len(threads)):
        loads = [len(assignment[f"p{process}-{thread}"].active) for thread in range(threads[process])]
        assert max(loads) - min(loads) <= 1
    total = sum(tasks.values())
    if len(set(threads)) == 1:
        loads = [len(one.active) for one in assignment.values()]
        assert max(loads) <= -(-total // len(known))


@given(processes, counts, st.integers(0, 2))
def test_the_same_members_keep_everything(threads: list[int], tasks: dict[str, int], replicas: int) -> None:
    known, wanted = members(threads), TaskCounts(tasks, frozenset("abcd"))
    first = assign_tasks(known, wanted, replicas)
    again = assign_tasks(after(known, first), wanted, replicas)
    assert {id: one.active for id, one in again.items()} == {id: one.active for id, one in first.items()}


@given(st.integers(2, 6), counts)
def test_who_stays_keeps_its_tasks_when_another_goes(count: int, tasks: dict[str, int]) -> None:
    known, wanted = members([1] * count), TaskCounts(tasks, frozenset("abcd"))
    first = assign_tasks(known, wanted, 0)
    gone = sorted(known)[0]
    left = {id: member for id, member in after(known, first).items() if id != gone}
    second = assign_tasks(left, wanted, 0)
    for id in left:
        assert first[id].active <= second[id].active


@given(st.integers(1, 5), counts)
def test_a_new_process_takes_its_share_and_no_other_task_moves(count: int, tasks: dict[str, int]) -> None:
    known, wanted = members([1] * count), TaskCounts(tasks, frozenset("abcd"))
    first = assign_tasks(known, wanted, 0)
    more = {**after(known, first), "new": AssignableMember("new")}
    second = assign_tasks(more, wanted, 0)
    for id in known:
        assert second[id].active <= first[id].active
    loads = [len(one.active) for one in second.values()]
    assert max(loads) <= -(-sum(tasks.values()) // len(more))


def test_a_standby_takes_over() -> None:
    known, wanted = members([1, 1, 1]), TaskCounts({"a": 3}, frozenset("a"))
    first = assign_tasks(known, wanted, 1)
    gone = sorted(known)[0]
    lost = first[gone].active
    left = {id: member for id, member in after(known, first).items() if id != gone}
    second = assign_tasks(left, wanted, 1)
    (took,) = [id for id in left if lost <= second[id].active]
    assert lost <= first[took].standby


def test_nobody_gets_nothing() -> None:
    assert assign_tasks({}, TaskCounts({"a": 2}), 1) == {}
