"""Topologies that no application has: they are refused before anything is computed for them."""

from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.groups.streams.internal_topics import configure
from tidelog.groups.streams.topology import ENTRIES_MAX, SUBTOPOLOGIES_MAX, check_topology, topology_of
from tidelog.wire.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, TopicInfo, Topology


def subtopology(name: int, **fields: list[object]) -> Subtopology:
    given = {"source_topics": ["orders"], **fields}
    return Subtopology(subtopology_id=str(name), **given)


def test_a_topology_has_a_bounded_number_of_subtopologies() -> None:
    check_topology(Topology(1, [subtopology(number) for number in range(SUBTOPOLOGIES_MAX)]))
    with pytest.raises(errors.StreamsInvalidTopology, match="1001 subtopologies, and may have 1000"):
        check_topology(Topology(1, [subtopology(number) for number in range(SUBTOPOLOGIES_MAX + 1)]))


def test_a_subtopology_that_comes_twice_is_refused() -> None:
    with pytest.raises(errors.StreamsInvalidTopology, match="Subtopology 7 is in the topology twice"):
        check_topology(Topology(1, [subtopology(7), subtopology(8), subtopology(7)]))


@pytest.mark.parametrize(
    "fields",
    [
        {"source_topics": ["orders"] * (ENTRIES_MAX + 1)},
        {"repartition_sink_topics": ["moved"] * ENTRIES_MAX},
        {"state_changelog_topics": [TopicInfo(name="store")] * ENTRIES_MAX},
        {"copartition_groups": [CopartitionGroup(source_topics=[0] * 1_000)] * 11},
    ],
)
def test_a_topology_names_a_bounded_number_of_topics(fields: dict[str, list[object]]) -> None:
    with pytest.raises(errors.StreamsInvalidTopology, match=f"may name {ENTRIES_MAX}"):
        check_topology(Topology(1, [subtopology(1, **fields)]))


def test_counts_of_partitions_pass_along_the_longest_chain() -> None:
    """The last subtopology reads the topic of users, and each one writes to the topic that the one before it reads."""
    last = SUBTOPOLOGIES_MAX - 1
    chain = [
        subtopology(
            number,
            source_topics=["orders"] if number == last else [],
            repartition_source_topics=[] if number == last else [TopicInfo(name=f"moved-{number + 1}")],
            repartition_sink_topics=[f"moved-{number}"] if number else [],
        )
        for number in range(SUBTOPOLOGIES_MAX)
    ]
    topology = Topology(1, chain)
    check_topology(topology)
    configured = configure(topology_of(topology), {"orders": 3}.get)
    assert set(configured.tasks.values()) == {3}
    assert len(configured.internal_partitions) == last
