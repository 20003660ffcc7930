"""What the description of a streams group says about its members, in partitions instead of tasks.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidelog.types import TopicPartition

STREAMS_ASSIGNOR = "sticky"


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks that a member of a streams group has, as `SUBTOPOLOGY_PARTITION`."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()


def sources_of_subtopologies(group: Any) -> dict[str, list[str]]:
    """The topics that each subtopology of a described group reads."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {
        subtopology.subtopology_id: [
            *subtopology.source_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
        ]
        for subtopology in subtopologies
    }


def member_tasks(assignment: Any) -> MemberTasks:
    roles = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return MemberTasks(*(tuple(_names(role)) for role in roles))


def _names(tasks: Iterable[Any]) -> list[str]:
    return sorted(f"{ids.subtopology_id}_{partition}" for ids in tasks for partition in ids.partitions)


def partitions_of_tasks(tasks: Iterable[Any], sources: dict[str, list[str]]) -> tuple[TopicPartition, ...]:
    """The partitions that tasks read; a topic that has fewer than its subtopology has tasks is named too often here."""
    return tuple(
        sorted(
            TopicPartition(topic, partition)
            for ids in tasks
            for topic in sources.get(ids.subtopology_id, ())
            for partition in ids.partitions
        )
    )
