from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.share.assignor import Assignment, assign

TOPICS = [UUID(int=number) for number in range(1, 4)]
members = st.dictionaries(
    st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPICS), min_size=1), max_size=8
)
sizes = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), max_size=3)


def flat(assignment: Assignment) -> frozenset[tuple[UUID, int]]:
    return frozenset((topic, index) for topic, indexes in assignment.items() for index in indexes)


@given(members, sizes)
def test_every_partition_has_a_reader_and_every_member_something(
    wanted: dict[str, frozenset[UUID]], sizes: dict[UUID, int]
) -> None:
    partitions = {topic: frozenset(range(size)) for topic, size in sizes.items()}
    assigned = {member: flat(assignment) for member, assignment in assign(wanted, partitions, {}).items()}
    assert assigned.keys() == wanted.keys()
    read = frozenset().union(*assigned.values())
    for topic, indexes in partitions.items():
        if any(topic in topics for topics in wanted.values()):
            assert {(topic, index) for index in indexes} <= read
    for member, own in assigned.items():
        assert {topic for topic, _ in own} <= wanted[member] & partitions.keys()
        assert own or not wanted[member] & partitions.keys()


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 8))
def test_loads_are_fair_and_who_stays_keeps_what_it_can(before: int, count: int, after: int) -> None:
    topic = TOPICS[0]
    partitions = {topic: frozenset(range(count))}
    current = {
        member: flat(assignment)
        for member, assignment in assign(
            dict.fromkeys("abcdefgh"[:before], frozenset([topic])), partitions, {}
        ).items()
    }
    assigned = {
        member: flat(assignment)
        for member, assignment in assign(
            dict.fromkeys("abcdefgh"[:after], frozenset([topic])), partitions, current
        ).items()
    }
    loads = sorted(len(own) for own in assigned.values())
    assert loads[-1] - loads[0] <= 1
    readers = [sum((topic, index) in own for own in assigned.values()) for index in range(count)]
    assert max(readers) - min(readers) <= 1
    if before == after:
        assert assigned == current
    fair = max(count // after, 1)
    if count >= after >= before:
        assert all(
            len(own & current.get(member, frozenset())) >= fair
            for member, own in assigned.items()
            if member in current
        )
