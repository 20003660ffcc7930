"""The topics behind a topology: how many tasks each subtopology has, and which internal topics are missing.

An internal topic is a repartition topic or the changelog of a store.  Where the topology leaves its number of partitions
open, the topics that it is copartitioned with decide, then the topics that are written to it from.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tidelog import errors
from tidelog.groups.streams.topology import StreamsTopology, sources_of
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.wire.messages.streams_group_topology_record import Subtopology, TopicInfo

NAMES_SHOWN_MAX = 3

PartitionCount = Callable[[str], int | None]
"""The partitions of a topic; None if the topic does not exist."""


class StreamsStatus(IntEnum):
    """The numbers are those of the heartbeat's answer."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicsProblem(Exception):
    """The topics of the cluster do not fit the topology, yet."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with the topics that exist now.  `problem` None: tasks can run."""

    tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each subtopology has."""
    stateful: frozenset[str] = frozenset()
    """The subtopologies with stores, which can have standby tasks."""
    internal_partitions: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[TopicSpec, ...] = ()
    problem: TopicsProblem | None = None


def configure(topology: StreamsTopology, partitions: PartitionCount) -> ConfiguredTopology:
    """Raises StreamsInvalidTopology if no topics can make the topology right."""
    try:
        _check_sources(topology, partitions)
        decided = _decided(topology, partitions)

        def count(name: str) -> int:
            existing = partitions(name)
            return decided[name] if existing is None else existing

        tasks = {
            subtopology.subtopology_id: max(count(name) for name in sources_of(subtopology))
            for subtopology in topology.subtopologies
        }
        internal = _internal(topology, decided)
        missing = _missing(topology, internal, partitions)
    except TopicsProblem as problem:
        return ConfiguredTopology(problem=problem)
    lacking = None
    if missing:
        text = f"Internal topics are missing: {summary(topic.name for topic in missing)}"
        lacking = TopicsProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, text)
    stateful = frozenset(
        subtopology.subtopology_id
        for subtopology in topology.subtopologies
        if subtopology.state_changelog_topics
    )
    return ConfiguredTopology(tasks, stateful, internal, missing, lacking)


def summary(names: Iterable[str]) -> str:
    shown = sorted(names)
    text = ", ".join(shown[:NAMES_SHOWN_MAX])
    more = len(shown) - NAMES_SHOWN_MAX
    return f"{text} and {more} additional topics" if more > 0 else text


def _check_sources(topology: StreamsTopology, partitions: PartitionCount) -> None:
    gone = {
        name
        for subtopology in topology.subtopologies
        for name in subtopology.source_topics
        if partitions(name) is None
    }
    if gone:
        raise TopicsProblem(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {summary(gone)} are missing."
        )


# Numbers of partitions


def _decided(topology: StreamsTopology, partitions: PartitionCount) -> dict[str, int]:
    """The partitions that each internal topic should have."""
    decided = _repartition_counts(topology, partitions)

    def count(name: str) -> int:
        existing = partitions(name)
        if existing is None and name not in decided:
            raise errors.StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
                "never used as a sink topic."
            )
        return decided[name] if existing is None else existing

    fixed = {topic.name for topic in _repartition_topics(topology) if topic.partitions}
    flexible = {topic.name for topic in _repartition_topics(topology)} - fixed
    for subtopology in topology.subtopologies:
        for copartitioned in _copartition_groups(subtopology):
            decided.update(_copartitioned(copartitioned, fixed, flexible, count))
    for subtopology in topology.subtopologies:
        most = max(count(name) for name in sources_of(subtopology))
        decided.update({topic.name: most for topic in subtopology.state_changelog_topics})
    return decided


def _repartition_topics(topology: StreamsTopology) -> list[TopicInfo]:
    return [
        topic for subtopology in topology.subtopologies for topic in subtopology.repartition_source_topics
    ]


def _repartition_counts(topology: StreamsTopology, partitions: PartitionCount) -> dict[str, int]:
    """A repartition topic gets as many partitions as the largest topic of a subtopology that writes to it.  What a
    subtopology reads may be a repartition topic itself, so the counts are found one after the other."""
    counts = {topic.name: topic.partitions for topic in _repartition_topics(topology) if topic.partitions}
    writing = [subtopology for subtopology in topology.subtopologies if subtopology.repartition_sink_topics]
    while writing := [
        subtopology
        for subtopology in writing
        if not counts.keys() >= set(subtopology.repartition_sink_topics)
    ]:
        progressed = False
        for subtopology in writing:
            read = [
                *(counts.get(topic.name) for topic in subtopology.repartition_source_topics),
                *(partitions(name) for name in subtopology.source_topics),
            ]
            sizes = [count for count in read if count is not None]
            for sink in subtopology.repartition_sink_topics if sizes else ():
                if sink not in counts:
                    counts[sink], progressed = max(sizes), True
        if not progressed:
            raise errors.StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that "
                "cannot be resolved."
            )
    if any(topic.name not in counts for topic in _repartition_topics(topology)):
        raise errors.StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never "
            "used as a sink topic."
        )
    return counts


def _copartition_groups(subtopology: Subtopology) -> list[frozenset[str]]:
    return [
        frozenset(
            [
                *(subtopology.source_topics[place] for place in group.source_topics),
                *(subtopology.repartition_source_topics[i].name for i in group.repartition_source_topics),
            ]
        )
        for group in subtopology.copartition_groups
    ]


def _copartitioned(
    names: frozenset[str], fixed: set[str], flexible: set[str], count: Callable[[str], int]
) -> dict[str, int]:
    """The partitions of the repartition topics of one copartition group."""
    internal = {name: count(name) for name in names if name in fixed or name in flexible}
    external = {name: count(name) for name in names if name not in internal}
    if external:
        most = _same(external)
    elif names & fixed:
        most = _same({name: internal[name] for name in names & fixed})
    else:
        most = max(internal.values(), default=0)
    for name in sorted(internal.keys() & fixed):
        if internal[name] != most:
            raise TopicsProblem(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{internal[name]}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{most}] of the source topic.",
            )
    return dict.fromkeys(internal, most)


def _same(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
        raise TopicsProblem(
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts.values()))


# Internal topics


def _internal_infos(topology: StreamsTopology) -> dict[str, TopicInfo]:
    return {
        topic.name: topic
        for subtopology in topology.subtopologies
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }


def _internal(topology: StreamsTopology, decided: Mapping[str, int]) -> dict[str, int]:
    return {name: info.partitions or decided[name] for name, info in _internal_infos(topology).items()}


def _missing(
    topology: StreamsTopology, internal: Mapping[str, int], partitions: PartitionCount
) -> tuple[TopicSpec, ...]:
    """The internal topics to be created; a topic that exists must have the right number of partitions."""
    missing = []
    for name, info in sorted(_internal_infos(topology).items()):
        existing = partitions(name)
        if existing is None:
            configs = {config.key: config.value for config in info.topic_configs}
            missing.append(TopicSpec(name, internal[name], info.replication_factor or -1, configs=configs))
        elif existing != internal[name]:
            raise TopicsProblem(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {internal[name]}, found {existing}",
            )
    return tuple(missing)
