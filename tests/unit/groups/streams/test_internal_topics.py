"""How many partitions and tasks a topology gets from the topics that exist."""

from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.groups.streams.internal_topics import StreamsStatus, configure, summary
from tidelog.groups.streams.topology import check_topology, topology_of
from tidelog.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)


def store(name: str) -> TopicInfo:
    return TopicInfo(name, topic_configs=[KeyValue("cleanup.policy", "compact")])


def configured(existing: dict[str, int], *subtopologies: Subtopology):  # type: ignore[no-untyped-def]
    return configure(topology_of(Topology(0, list(subtopologies))), existing.get)


def test_a_subtopology_has_a_task_for_each_partition_of_its_largest_topic() -> None:
    found = configured({"a": 2, "b": 5}, Subtopology("0", ["a", "b"]), Subtopology("1", ["a"]))
    assert (found.tasks, found.problem, found.missing) == ({"0": 5, "1": 2}, None, ())


def test_a_changelog_is_created_as_wide_as_what_its_subtopology_reads() -> None:
    found = configured({"a": 3}, Subtopology("0", ["a"], state_changelog_topics=[store("app-s-changelog")]))
    (missing,) = found.missing
    assert (missing.name, missing.partitions, missing.replication) == ("app-s-changelog", 3, -1)
    assert missing.configs == {"cleanup.policy": "compact"}
    assert found.problem is not None and found.problem.status is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert str(found.problem) == "Internal topics are missing: app-s-changelog"
    assert found.stateful == {"0"}


def test_a_repartition_topic_is_as_wide_as_the_largest_topic_that_is_read_before_it() -> None:
    found = configured(
        {"a": 4},
        Subtopology("2", repartition_source_topics=[TopicInfo("second")]),
        Subtopology("1", repartition_source_topics=[TopicInfo("first")], repartition_sink_topics=["second"]),
        Subtopology("0", ["a"], repartition_sink_topics=["first"]),
    )
    assert found.tasks == {"0": 4, "1": 4, "2": 4}
    assert found.internal_partitions == {"first": 4, "second": 4}


def test_what_is_joined_with_a_topic_gets_its_number_of_partitions() -> None:
    found = configured(
        {"a": 8, "b": 3},
        Subtopology("0", ["a"], repartition_sink_topics=["r"]),
        Subtopology(
            "1",
            ["b"],
            repartition_source_topics=[TopicInfo("r")],
            copartition_groups=[CopartitionGroup([0], [], [0])],
        ),
    )
    assert found.internal_partitions == {"r": 3} and found.tasks == {"0": 8, "1": 3}


def test_joined_topics_with_different_numbers_of_partitions_do_not_fit() -> None:
    together = [CopartitionGroup([0, 1])]
    found = configured({"a": 2, "b": 3}, Subtopology("0", ["a", "b"], copartition_groups=together))
    assert found.problem is not None
    assert found.problem.status is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert "do not have the same number of partitions: [{a=2, b=3}]" in str(found.problem)


def test_a_fixed_number_of_partitions_must_fit_what_it_is_joined_with() -> None:
    found = configured(
        {"a": 2},
        Subtopology(
            "0",
            ["a"],
            repartition_sink_topics=["r"],
            repartition_source_topics=[TopicInfo("r", 7)],
            copartition_groups=[CopartitionGroup([0], [], [0])],
        ),
    )
    assert found.problem is not None and "Number of partitions [7] of repartition topic [r]" in str(
        found.problem
    )


def test_repartition_topics_that_are_joined_have_the_number_that_is_fixed_for_one() -> None:
    found = configured(
        {"a": 2},
        Subtopology("0", ["a"], repartition_sink_topics=["r", "s"]),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo("r", 6), TopicInfo("s")],
            copartition_groups=[CopartitionGroup([], [], [0, 1])],
        ),
    )
    assert found.internal_partitions == {"r": 6, "s": 6} and found.tasks == {"0": 2, "1": 6}


def test_an_internal_topic_of_another_width_is_wrong() -> None:
    found = configured({"a": 3, "c": 2}, Subtopology("0", ["a"], state_changelog_topics=[store("c")]))
    assert str(found.problem) == "Existing topic c has different number of partitions: expected 3, found 2"


def test_missing_source_topics_are_named_up_to_three() -> None:
    found = configured({}, Subtopology("0", ["d", "c", "b", "a"]))
    assert found.problem is not None and found.problem.status is StreamsStatus.MISSING_SOURCE_TOPICS
    assert str(found.problem) == "Source topics a, b, c and 1 additional topics are missing."
    assert summary(["x"]) == "x"


def test_loops_and_repartition_topics_that_nobody_writes_are_refused() -> None:
    loop = Subtopology("0", repartition_sink_topics=["r"], repartition_source_topics=[TopicInfo("r")])
    with pytest.raises(errors.StreamsInvalidTopology, match="loops in the topology"):
        configured({}, loop)
    with pytest.raises(errors.StreamsInvalidTopology, match="never used as a sink"):
        configured({"a": 1}, Subtopology("0", ["a"], repartition_source_topics=[TopicInfo("r")]))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Subtopology("0", ["a"], state_changelog_topics=[TopicInfo("c", 3)]), "undefined partition count"),
        (Subtopology("0", ["a"], repartition_source_topics=[TopicInfo("r", -2)]), "negative"),
        (Subtopology("0"), "No source topics found for subtopology 0"),
        (Subtopology("0", ["a"], copartition_groups=[CopartitionGroup([1])]), "does not read"),
        (Subtopology("0", ["a"], copartition_groups=[CopartitionGroup([], [], [-1])]), "does not read"),
    ],
)
def test_a_topology_that_no_topics_make_right_is_refused(wrong: Subtopology, text: str) -> None:
    with pytest.raises(errors.StreamsInvalidTopology, match=text):
        check_topology(Topology(0, [wrong]))


def test_a_subtopology_is_there_once() -> None:
    with pytest.raises(errors.StreamsInvalidTopology, match="twice"):
        check_topology(Topology(0, [Subtopology("0", ["a"]), Subtopology("0", ["b"])]))


def test_the_order_of_subtopologies_does_not_matter() -> None:
    first, second = Subtopology("0", ["a"]), Subtopology("1", ["b"])
    assert topology_of(Topology(0, [first, second])) == topology_of(Topology(0, [second, first]))
    assert topology_of(Topology(0, [first])) != topology_of(Topology(1, [first]))
