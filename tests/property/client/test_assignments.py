"""Every assignor, any group: nobody is left out who could read something, nothing is read twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.groups.assignors import ASSIGNORS, Assignment, Subscriber
from tidelog.client.groups.sticky_assignor import stick
from tidelog.types import TopicPartition

TOPICS = ["t", "u", "v"]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), min_size=1)
wishes = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=8
)


def check(partitions: dict[str, int], topics: dict[str, set[str]], out: Assignment) -> None:
    dealt = [one for have in out.values() for one in have]
    wanted = {topic for one in topics.values() for topic in one}
    expected = [
        TopicPartition(t, at) for t, count in partitions.items() if t in wanted for at in range(count)
    ]
    assert sorted(dealt) == sorted(expected)
    assert all(one.topic in topics[member] for member, have in out.items() for one in have)


@given(counts, wishes, st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
def test_a_new_group_reads_every_partition_once(
    partitions: dict[str, int], topics: dict[str, set[str]], name: str
) -> None:
    members = [Subscriber(member, tuple(sorted(wanted))) for member, wanted in topics.items()]
    check(partitions, topics, ASSIGNORS[name]().assign(partitions, members))


@st.composite
def groups(
    draw: st.DrawFn,
) -> tuple[dict[str, int], dict[str, set[str]], dict[str, tuple[list[TopicPartition], int]]]:
    partitions, topics = draw(counts), draw(wishes)
    claim = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 10))
    owned = {
        member: (draw(st.lists(claim, unique=True, max_size=12)), draw(st.integers(-1, 2)))
        for member in topics
    }
    return partitions, topics, owned


@given(groups())
def test_sticky_is_complete_and_cannot_be_evened_out_by_a_move(
    group: tuple[dict[str, int], dict[str, set[str]], dict[str, tuple[list[TopicPartition], int]]],
) -> None:
    partitions, topics, owned = group
    out = stick(partitions, topics, owned)
    check(partitions, topics, out)
    for giver, have in out.items():
        for one in have:
            for taker, wanted in topics.items():
                assert one.topic not in wanted or len(out[giver]) - len(out[taker]) <= 1


@given(st.integers(1, 40), st.sets(st.sampled_from("abcdefgh"), min_size=2))
def test_when_one_leaves_the_others_keep_what_they_have(count: int, members: set[str]) -> None:
    topics = {member: {"t"} for member in members}
    before = stick({"t": count}, topics, {})
    gone = min(members)
    after = stick(
        {"t": count},
        {member: {"t"} for member in members - {gone}},
        {member: (have, 1) for member, have in before.items() if member != gone},
    )
    for member in members - {gone}:
        assert set(before[member]) <= set(after[member])


@given(groups())
def test_cooperative_rounds_end_with_everything_dealt_out(
    group: tuple[dict[str, int], dict[str, set[str]], dict[str, tuple[list[TopicPartition], int]]],
) -> None:
    partitions, topics, owned = group
    assignor = ASSIGNORS["cooperative-sticky"]()
    have = {member: set(claims) for member, (claims, _) in owned.items()}
    generation = 3
    for _ in range(4):
        members = [
            Subscriber(member, tuple(sorted(topics[member])), tuple(sorted(have[member])), generation)
            for member in topics
        ]
        out = assignor.assign(partitions, members)
        for member, assigned in out.items():
            # Nobody is given what another has not let go of.
            others = {one for other, theirs in have.items() if other != member for one in theirs}
            assert not set(assigned) & (others - have[member])
        have = {member: set(assigned) for member, assigned in out.items()}
        generation += 1
    check(partitions, topics, {member: sorted(one) for member, one in have.items()})
