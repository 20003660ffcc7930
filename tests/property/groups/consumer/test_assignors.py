"""The assignors against what any assignment must be, against plain models, and with the cases of Kafka's own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.groups.consumer.assignors import (
    ASSIGNORS,
    MemberSubscription,
    Partitions,
    assign_range,
    assign_uniform,
)

TOPICS = [UUID(int=number) for number in range(1, 5)]
A, B, C, D = TOPICS

counts_of_topics = st.fixed_dictionaries({topic: st.integers(1, 7) for topic in TOPICS})
ids = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True)


@st.composite
def groups(draw: st.DrawFn, alike: bool) -> tuple[list[MemberSubscription], dict[UUID, int]]:
    """Members with what they held before: maybe of topics that shrank, that they left, or that two claim."""
    counts = draw(counts_of_topics)
    wanted = st.frozensets(st.sampled_from(TOPICS), max_size=4)
    same = draw(wanted)
    members = [
        MemberSubscription(
            member,
            draw(st.none() | st.just(f"i{member}")),
            same if alike else draw(wanted),
            draw(
                st.dictionaries(
                    st.sampled_from(TOPICS), st.frozensets(st.integers(0, 8), max_size=6), max_size=4
                )
            ),
        )
        for member in draw(ids)
    ]
    return members, counts


def sizes(assignment: Mapping[str, Partitions]) -> dict[str, int]:
    return {member: sum(map(len, topics.values())) for member, topics in assignment.items()}


def owners(assignment: Mapping[str, Partitions]) -> dict[tuple[UUID, int], list[str]]:
    by_partition: dict[tuple[UUID, int], list[str]] = {}
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                by_partition.setdefault((topic, partition), []).append(member)
    return by_partition


def kept(members: Sequence[MemberSubscription], assignment: Mapping[str, Partitions]) -> int:
    return sum(
        len(partitions & member.held.get(topic, frozenset()))
        for member in members
        for topic, partitions in assignment[member.id].items()
    )


def holding(
    members: Sequence[MemberSubscription], assignment: Mapping[str, Partitions]
) -> list[MemberSubscription]:
    return [member._replace(held=assignment[member.id]) for member in members]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=200, deadline=None)
@given(data=st.data(), alike=st.booleans())
def test_every_partition_goes_to_one_subscriber_of_its_topic(
    name: str, data: st.DataObject, alike: bool
) -> None:
    members, counts = data.draw(groups(alike))
    assignment = ASSIGNORS[name](members, counts)
    assert set(assignment) == {subscriber.id for subscriber in members}
    wanted = {topic for subscriber in members for topic in subscriber.topics}
    by_partition = owners(assignment)
    assert set(by_partition) == {(topic, at) for topic in wanted for at in range(counts[topic])}
    topics = {subscriber.id: subscriber.topics for subscriber in members}
    for (topic, _), holders in by_partition.items():
        assert len(holders) == 1 and topic in topics[holders[0]]
    assert all(partitions for given in assignment.values() for partitions in given.values())


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=100, deadline=None)
@given(data=st.data(), alike=st.booleans())
def test_the_order_of_members_changes_nothing(name: str, data: st.DataObject, alike: bool) -> None:
    members, counts = data.draw(groups(alike))
    mixed = data.draw(st.permutations(members))
    assert ASSIGNORS[name](mixed, counts) == ASSIGNORS[name](members, counts)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=100, deadline=None)
@given(data=st.data(), alike=st.booleans())
def test_nothing_moves_when_nothing_changed(name: str, data: st.DataObject, alike: bool) -> None:
    members, counts = data.draw(groups(alike))
    first = ASSIGNORS[name](members, counts)
    assert ASSIGNORS[name](holding(members, first), counts) == first


@settings(max_examples=300, deadline=None)
@given(groups(alike=True))
def test_uniform_is_even_and_moves_as_little_as_that_takes(
    group: tuple[list[MemberSubscription], dict[UUID, int]],
) -> None:
    members, counts = group
    assignment = assign_uniform(members, counts)
    loads = sizes(assignment)
    assert max(loads.values()) - min(loads.values()) <= 1
    share, extra = divmod(sum(counts[topic] for topic in members[0].topics), len(members))
    taken: set[tuple[UUID, int]] = set()
    could_keep = []
    for subscriber in sorted(members, key=lambda subscriber: subscriber.id):
        mine = {
            (topic, at)
            for topic, partitions in subscriber.held.items()
            for at in partitions
            if topic in subscriber.topics and at < counts[topic]
        } - taken
        taken |= mine
        could_keep.append(len(mine))
    most = sum(min(count, share) for count in could_keep)
    most += min(extra, sum(count > share for count in could_keep))
    assert kept(members, assignment) >= most


@settings(max_examples=300, deadline=None)
@given(groups(alike=False))
def test_uniform_leaves_no_move_that_would_even_it_out(
    group: tuple[list[MemberSubscription], dict[UUID, int]],
) -> None:
    members, counts = group
    assignment = assign_uniform(members, counts)
    loads = sizes(assignment)
    for subscriber in members:
        for topic in assignment[subscriber.id]:
            for other in members:
                if topic in other.topics:
                    assert loads[subscriber.id] - loads[other.id] <= 1


@settings(max_examples=200, deadline=None)
@given(groups(alike=False))
def test_range_gives_runs_in_the_order_of_members_static_ones_first(
    group: tuple[list[MemberSubscription], dict[UUID, int]],
) -> None:
    members, counts = group
    assignment = assign_range(members, counts)
    static = sorted(
        (subscriber for subscriber in members if subscriber.instance_id),
        key=lambda subscriber: subscriber.instance_id or "",
    )
    others = sorted(
        (subscriber for subscriber in members if not subscriber.instance_id),
        key=lambda subscriber: subscriber.id,
    )
    for topic in TOPICS:
        wanting = [subscriber.id for subscriber in static + others if topic in subscriber.topics]
        runs = [sorted(assignment[member].get(topic, ())) for member in wanting]
        assert [at for run in runs for at in run] == (list(range(counts[topic])) if wanting else [])
        lengths = [len(run) for run in runs]
        assert lengths == sorted(lengths, reverse=True) and (not lengths or lengths[0] - lengths[-1] <= 1)


# Cases of Apache Kafka's own tests of its assignors


def member(name: str, *topics: UUID, instance: str | None = None, **held: Partitions) -> MemberSubscription:
    return MemberSubscription(name, instance, frozenset(topics), held.get("held", {}))


def plain(assignment: Mapping[str, Partitions]) -> dict[str, dict[int, set[int]]]:
    return {
        member_id: {topic.int: set(partitions) for topic, partitions in topics.items()}
        for member_id, topics in assignment.items()
    }


def test_range_as_kafka_two_members_two_topics() -> None:
    assignment = assign_range([member("A", A, C), member("B", A, C)], {A: 3, C: 2})
    assert plain(assignment) == {"A": {1: {0, 1}, 3: {0}}, "B": {1: {2}, 3: {1}}}


def test_range_as_kafka_three_members_three_topics_with_different_subscriptions() -> None:
    assignment = assign_range([member("A", A, B), member("B", C), member("C", B, C)], {A: 3, B: 3, C: 2})
    assert plain(assignment) == {"A": {1: {0, 1, 2}, 2: {0, 1}}, "B": {3: {0}}, "C": {2: {2}, 3: {1}}}


def test_range_as_kafka_more_members_than_partitions() -> None:
    assignment = assign_range([member("A", C), member("B", C), member("C", C)], {C: 2})
    assert plain(assignment) == {"A": {3: {0}}, "B": {3: {1}}, "C": {}}


def test_range_as_kafka_static_members_keep_their_ranges_under_new_ids() -> None:
    before = [member("A", A, instance="x"), member("B", A, instance="y"), member("C", A)]
    after = [member("Z", A, instance="x"), member("B", A, instance="y"), member("C", A)]
    assignment = assign_range(before, {A: 3})
    assert plain(assignment) == {"A": {1: {0}}, "B": {1: {1}}, "C": {1: {2}}}
    assert plain(assign_range(after, {A: 3}))["Z"] == {1: {0}}


def test_range_as_kafka_topics_of_one_size_are_split_at_the_same_places() -> None:
    assignment = assign_range([member(name, A, B) for name in "ABC"], {A: 6, B: 6})
    assert all(topics[A] == topics[B] for topics in assignment.values())


def test_uniform_as_kafka_first_assignment() -> None:
    assignment = assign_uniform([member("A", A, C), member("B", A, C)], {A: 3, C: 2})
    assert sorted(sizes(assignment).values()) == [2, 3]
    crowded = assign_uniform([member(name, C) for name in "ABC"], {C: 2})
    assert sorted(sizes(crowded).values()) == [0, 1, 1]


def test_uniform_as_kafka_a_new_member_gets_only_what_others_have_too_much() -> None:
    first = assign_uniform([member("A", A, B), member("B", A, B)], {A: 3, B: 3})
    members = [*holding([member("A", A, B), member("B", A, B)], first), member("C", A, B)]
    second = assign_uniform(members, {A: 3, B: 3})
    assert sizes(second) == {"A": 2, "B": 2, "C": 2}
    assert kept(members, second) == 4


def test_uniform_as_kafka_a_member_that_leaves_hands_its_partitions_on() -> None:
    three = [member(name, A, B) for name in "ABC"]
    first = assign_uniform(three, {A: 3, B: 3})
    two = holding(three, first)[:2]
    second = assign_uniform(two, {A: 3, B: 3})
    assert sizes(second) == {"A": 3, "B": 3}
    assert kept(two, second) == 4


def test_uniform_as_kafka_partitions_that_are_added_are_shared_out() -> None:
    members = [member("A", A, held={A: frozenset({0, 2})}), member("B", A, held={A: frozenset({1})})]
    second = assign_uniform(members, {A: 6})
    assert sizes(second) == {"A": 3, "B": 3} and kept(members, second) == 3


def test_uniform_as_kafka_with_different_subscriptions() -> None:
    assignment = assign_uniform(
        [member("A", A, B), member("B", C), member("C", B, C, D)], {A: 3, B: 3, C: 3, D: 3}
    )
    assert plain(assignment)["A"][1] == {0, 1, 2} and plain(assignment)["C"][4] == {0, 1, 2}
    assert max(sizes(assignment).values()) == 5


def test_an_assignment_of_a_large_group_takes_a_moment() -> None:
    members = [member(f"m{at:04}", A) for at in range(1000)]
    assignment = assign_uniform(members, {A: 10_000})
    assert set(sizes(assignment).values()) == {10}
