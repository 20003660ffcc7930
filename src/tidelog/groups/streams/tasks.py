"""Tasks of a streams group: a task is one partition number of one subtopology.

A member runs a task actively, as a standby (its state follows the changelog), or warms it up.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

TaskId = tuple[str, int]
"""(subtopology, partition)"""
Tasks = frozenset[TaskId]

NO_TASKS: Tasks = frozenset()


class TaskAssignment(NamedTuple):
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def shares_any(self, other: TaskAssignment) -> bool:
        """True if a task is in both, in the same role."""
        return any(not mine.isdisjoint(others) for mine, others in zip(self, other, strict=True))

    def within(self, other: TaskAssignment) -> bool:
        """True if every task is in `other`, in the same role."""
        return all(mine <= others for mine, others in zip(self, other, strict=True))


NOTHING_ASSIGNED = TaskAssignment()


class TaskIdsMessage(Protocol):
    """What every message has for the tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


def tasks_of(messages: Iterable[TaskIdsMessage]) -> Tasks:
    return frozenset((ids.subtopology_id, partition) for ids in messages for partition in ids.partitions)


def by_subtopology(tasks: Iterable[TaskId]) -> list[tuple[str, list[int]]]:
    """The partitions of each subtopology, both sorted."""
    grouped: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        grouped.setdefault(subtopology, []).append(partition)
    return list(grouped.items())
