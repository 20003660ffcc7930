"""The sticky assignor of streams groups: which member runs which task, and who keeps standbys of it.

Every task has one active member.  Loads of members differ by one at most when a group starts; later, members keep their
tasks as far as that is fair, because moving a task means restoring its store.  A standby is in another process than the
active task and other standbys of it; without enough processes there are fewer standbys.  No task is warmed up: members
do not report how far their stores are, so a standby is what takes over.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment, TaskId


class AssignableMember(NamedTuple):
    process_id: str
    previous: TaskAssignment = NOTHING_ASSIGNED


class TaskCounts(NamedTuple):
    """How many tasks each subtopology has, and which subtopologies have stores."""

    tasks: Mapping[str, int]
    stateful: frozenset[str] = frozenset()

    def every(self) -> list[TaskId]:
        return [(name, index) for name, count in self.tasks.items() for index in range(count)]


def assign_tasks(
    members: Mapping[str, AssignableMember], counts: TaskCounts, standby_replicas: int
) -> dict[str, TaskAssignment]:
    if not members:
        return {}
    draft = _TaskDraft(members)
    tasks = counts.every()
    stateful = [task for task in tasks if task[0] in counts.stateful]
    _assign_active(draft, tasks)
    if standby_replicas:
        _assign_standby(draft, stateful, standby_replicas, len(tasks) + len(stateful) * standby_replicas)
    return {
        member: TaskAssignment(frozenset(draft.active[member]), frozenset(draft.standby[member]))
        for member in members
    }


class _TaskDraft:
    """The assignment so far, and what each member had before."""

    def __init__(self, members: Mapping[str, AssignableMember]) -> None:
        self.process_of = {member: members[member].process_id for member in sorted(members)}
        self.active: dict[str, set[TaskId]] = {member: set() for member in self.process_of}
        self.standby: dict[str, set[TaskId]] = {member: set() for member in self.process_of}
        self.load = dict.fromkeys(self.process_of, 0)
        self.threads: dict[str, list[str]] = defaultdict(list)
        self.process_tasks: dict[str, int] = defaultdict(int)
        self.in_process: dict[str, set[TaskId]] = {}
        self.ran: dict[TaskId, str] = {}
        self.stood_by: dict[TaskId, list[str]] = defaultdict(list)
        for member, process in self.process_of.items():
            self.threads[process].append(member)
            self.in_process[process] = set()
            for task in members[member].previous.active:
                self.ran[task] = member
            for task in members[member].previous.standby:
                self.stood_by[task].append(member)

    def process_load(self, process: str) -> float:
        """Tasks for each member: a process with more threads takes more."""
        return self.process_tasks[process] / len(self.threads[process])

    def has(self, member: str, task: TaskId) -> bool:
        return task in self.in_process[self.process_of[member]]

    def least_loaded(self, members: Iterable[str]) -> str | None:
        return min(
            members,
            key=lambda member: (self.process_load(self.process_of[member]), self.load[member]),
            default=None,
        )

    def give(self, task: TaskId, member: str, active: bool) -> None:
        (self.active if active else self.standby)[member].add(task)
        self.in_process[self.process_of[member]].add(task)
        self.load[member] += 1
        self.process_tasks[self.process_of[member]] += 1


class _TaskQuota:
    """The fair number of tasks for each member.  Members that have reached it no longer count, so that the others share
    the rest fairly."""

    def __init__(self, tasks: int, loads: Iterable[int]) -> None:
        self._tasks, self._members = tasks, 0
        for _ in loads:
            self._members += 1
        self._settle()
        for load in loads:
            if load >= self.most:
                self._full(load)

    def _settle(self) -> None:
        self.most = -(-self._tasks // self._members) if self._members else 0

    def _full(self, load: int) -> None:
        self._members -= 1
        self._tasks -= load
        self._settle()

    def given(self, load: int) -> None:
        """A member has `load` tasks now."""
        if load == self.most:
            self._full(load)


def _assign_active(draft: _TaskDraft, tasks: list[TaskId]) -> None:
    quota = _TaskQuota(len(tasks), list(draft.load.values()))

    def give(task: TaskId, member: str) -> None:
        draft.give(task, member, active=True)
        quota.given(draft.load[member])

    # Tasks with the same partition number first: members that have them share the work of one partition.
    left = []
    for task in sorted(tasks, key=lambda task: (task[1], task[0])):
        member = draft.ran.get(task)
        if member is not None and draft.load[member] < quota.most:
            give(task, member)
        else:
            left.append(task)
    new = []
    for task in left:
        member = draft.least_loaded(draft.stood_by.get(task, ()))
        if member is not None and draft.load[member] < quota.most:
            give(task, member)
        else:
            new.append(task)
    queue = [(draft.process_load(process), process) for process in draft.threads]
    heapify(queue)
    for task in sorted(new):
        _, process = heappop(queue)
        give(task, min(draft.threads[process], key=lambda member: draft.load[member]))
        heappush(queue, (draft.process_load(process), process))


def _assign_standby(draft: _TaskDraft, tasks: list[TaskId], replicas: int, total: int) -> None:
    quota = _TaskQuota(total, list(draft.load.values()))

    def give(task: TaskId, member: str) -> None:
        draft.give(task, member, active=False)
        quota.given(draft.load[member])

    left = []
    for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
        for replica in range(replicas):
            member = draft.ran.get(task)
            if member is None or draft.has(member, task) or draft.load[member] >= quota.most:
                stood_by = [
                    stand_by for stand_by in draft.stood_by.get(task, ()) if not draft.has(stand_by, task)
                ]
                member = draft.least_loaded(stood_by)
            if member is None or draft.load[member] >= quota.most:
                left.append((task, replicas - replica))
                break
            give(task, member)
    for task, missing in sorted(left, reverse=True):
        for _ in range(missing):
            processes = [process for process in draft.threads if task not in draft.in_process[process]]
            if not processes:
                break
            process = min(processes, key=draft.process_load)
            give(task, min(draft.threads[process], key=lambda member: draft.load[member]))
