"""The topology of a streams application, as its group keeps it: subtopologies with their topics.

`StreamsTopology` wraps the record's value.  Two topologies are the same if their records are.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.wire.messages import streams_group_heartbeat as wire
from tidelog.wire.messages.streams_group_topology_record import (
    CopartitionGroup,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

SUBTOPOLOGIES_MAX = 1_000
ENTRIES_MAX = 10_000


class StreamsTopology:
    __slots__ = ("_encoded", "required_topics", "subtopology_of_source", "value")

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self._encoded = value.encode(0)
        self.required_topics = frozenset(_required(value))
        """The topics that must exist before a task can run."""
        self.subtopology_of_source = {
            name: subtopology.subtopology_id
            for subtopology in value.subtopologies
            for name in sources_of(subtopology)
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamsTopology) and self._encoded == other._encoded

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StreamsTopology(epoch {self.epoch}, {len(self.subtopologies)} subtopologies)"

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @property
    def subtopologies(self) -> list[Subtopology]:
        return self.value.subtopologies


def topology_of(request: wire.Topology) -> StreamsTopology:
    """The topology that a member sends; subtopologies are sorted, because clients send them in any order."""
    return StreamsTopology(
        StreamsGroupTopologyValue(
            epoch=request.epoch,
            subtopologies=sorted(
                (_kept(subtopology) for subtopology in request.subtopologies),
                key=lambda subtopology: subtopology.subtopology_id,
            ),
        )
    )


def topology_entry(group: str, topology: StreamsTopology) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group), topology.value)


def check_topology(request: wire.Topology) -> None:
    """Raises StreamsInvalidTopology for what no state of the cluster can make right."""
    _check_size(request)
    names: set[str] = set()
    for subtopology in request.subtopologies:
        name = subtopology.subtopology_id
        if name in names:
            raise errors.StreamsInvalidTopology(f"Subtopology {name} is in the topology twice.")
        names.add(name)
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise errors.StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
        for topic in (*subtopology.state_changelog_topics, *subtopology.repartition_source_topics):
            if topic.partitions < 0 or topic.replication_factor < -1:
                raise errors.StreamsInvalidTopology(
                    f"Internal topic {topic.name} has a negative partition count or replication factor."
                )
        if not subtopology.source_topics and not subtopology.repartition_source_topics:
            raise errors.StreamsInvalidTopology(f"No source topics found for subtopology {name}")
        for group in subtopology.copartition_groups:
            _check_places(name, group.source_topics, len(subtopology.source_topics))
            _check_places(name, group.repartition_source_topics, len(subtopology.repartition_source_topics))


def _check_size(request: wire.Topology) -> None:
    """A topology is looked at with each change of the group, while other requests wait."""
    subtopologies = len(request.subtopologies)
    if subtopologies > SUBTOPOLOGIES_MAX:
        raise errors.StreamsInvalidTopology(
            f"The topology has {subtopologies} subtopologies, and may have {SUBTOPOLOGIES_MAX}."
        )
    entries = sum(map(_entries, request.subtopologies))
    if entries > ENTRIES_MAX:
        raise errors.StreamsInvalidTopology(
            f"The topology names {entries} topics, settings and members of copartition groups, and may name {ENTRIES_MAX}."
        )


def _entries(subtopology: wire.Subtopology) -> int:
    internal = (*subtopology.state_changelog_topics, *subtopology.repartition_source_topics)
    groups = subtopology.copartition_groups
    return (
        sum(1 + len(topic.topic_configs) for topic in internal)
        + len(subtopology.source_topics)
        + len(subtopology.source_topic_regex)
        + len(subtopology.repartition_sink_topics)
        + sum(1 + len(group.source_topics) + len(group.repartition_source_topics) for group in groups)
    )


def topic_names(request: wire.Topology) -> set[str]:
    """Every topic that a topology names."""
    names: set[str] = set()
    for subtopology in request.subtopologies:
        names.update(subtopology.source_topics, subtopology.repartition_sink_topics)
        names.update(topic.name for topic in subtopology.repartition_source_topics)
        names.update(topic.name for topic in subtopology.state_changelog_topics)
    return names


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology reads: those of users, and those that the application repartitions through."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _required(value: StreamsGroupTopologyValue) -> Iterator[str]:
    for subtopology in value.subtopologies:
        yield from sources_of(subtopology)
        yield from (topic.name for topic in subtopology.state_changelog_topics)


def _check_places(subtopology: str, places: list[int], count: int) -> None:
    if any(not 0 <= place < count for place in places):
        raise errors.StreamsInvalidTopology(
            f"A copartition group of subtopology {subtopology} names a topic that the subtopology does not read."
        )


def _kept(subtopology: wire.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=[_topic(topic) for topic in subtopology.state_changelog_topics],
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in subtopology.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
            for group in subtopology.copartition_groups
        ],
    )


def _topic(topic: wire.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(config.key, config.value) for config in topic.topic_configs],
    )
