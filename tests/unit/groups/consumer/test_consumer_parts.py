"""The small parts of consumer groups: expressions, the pace of heartbeats, the hash of topics, old records."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.property.groups.consumer.consumers import Client, Service
from tidelog import errors
from tidelog.groups.consumer.group import ConsumerGroup, take_record
from tidelog.groups.consumer.heartbeat_interval import HeartbeatOutcome, hold_ms, next_ms
from tidelog.groups.consumer.member import MemberState
from tidelog.groups.consumer.regex import REFRESH_MS, Expressions
from tidelog.groups.consumer.target_assignment import metadata_hash
from tidelog.wire.messages.consumer_group_current_member_assignment_record import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)

TOPIC = UUID(int=7)


def names(*topics: str) -> dict[UUID, str]:
    return {UUID(int=at): topic for at, topic in enumerate(topics)}


def test_an_expression_stands_for_the_topics_whose_whole_name_matches() -> None:
    resolved = Expressions().find("a.*|b", names("a", "ab", "b", "ba", "bb"), 0)
    assert resolved.topics == {"a", "ab", "b"}


def test_an_expression_that_would_take_ages_elsewhere_takes_none() -> None:
    assert Expressions().find("(a*)*(a*)*(a|b)*c", names("a" * 249), 0).topics == frozenset()


@pytest.mark.parametrize("regex", ["(", "a**", "(?=b)", r"\1", "a{1001}", "[b-a]"])
def test_what_is_no_expression_says_why(regex: str) -> None:
    with pytest.raises(errors.InvalidRegularExpression, match="is not a valid regular expression: "):
        Expressions().check(regex)


def test_topics_are_looked_through_at_most_once_a_second_for_an_expression() -> None:
    expressions, before, after = Expressions(), names("a"), names("a", "ab")
    assert expressions.find("a.*", before, 0).topics == {"a"}
    early = expressions.find("a.*", after, REFRESH_MS - 1)
    assert early.topics == {"a"} and early.names is before
    assert expressions.find("a.*", after, REFRESH_MS).topics == {"a", "ab"}


@pytest.mark.parametrize(
    ("told", "came", "expected"),
    [
        (5000, HeartbeatOutcome(news=True, waiting=False, held_ms=0, expired=False), 100),
        (100, HeartbeatOutcome(news=False, waiting=False, held_ms=90, expired=True), 150),
        (4000, HeartbeatOutcome(news=False, waiting=False, held_ms=3600, expired=True), 5000),
        (4000, HeartbeatOutcome(news=False, waiting=True, held_ms=3600, expired=True), 1000),
        (5000, HeartbeatOutcome(news=False, waiting=False, held_ms=2000, expired=False), 2250),
        (5000, HeartbeatOutcome(news=False, waiting=False, held_ms=10, expired=False), 500),
        (0, HeartbeatOutcome(news=False, waiting=False, held_ms=0, expired=False), 500),
    ],
)
def test_members_with_news_come_back_soon_and_then_ever_less_often(
    told: int, came: HeartbeatOutcome, expected: int
) -> None:
    assert next_ms(told, 5000, came) == expected


def test_a_heartbeat_is_held_for_less_than_the_interval_that_was_told() -> None:
    assert all(hold_ms(told) < told for told in (100, 150, 5000))
    assert hold_ms(0) == 0


def test_the_hash_tells_when_topics_come_grow_go_or_are_made_anew() -> None:
    service = Service()
    seen = [metadata_hash(["a", "b"], service.image)]
    for name, partitions in (("a", 1), ("a", 2), ("b", 1), ("b", 0), ("b", 1)):
        service.topic(name, partitions)
        seen.append(metadata_hash(["a", "b"], service.image))
    assert seen[0] == 0
    assert len(set(seen)) == 5 and seen[2] == seen[4]  # without b again
    service.topic("c", 1)
    assert metadata_hash(["a", "b"], service.image) == seen[-1]
    assert all(-(1 << 63) <= one < 1 << 63 for one in seen)


def test_records_of_brokers_that_wrote_no_epochs_of_partitions_are_read() -> None:
    group = ConsumerGroup("g")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        previous_member_epoch=3,
        state=1,
        assigned_partitions=[TopicPartitions(TOPIC, [0, 1])],
        partitions_pending_revocation=[TopicPartitions(TOPIC, [2], [3, 3])],
    )
    take_record(group, ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
    member = group.members["m"]
    assert (member.epoch, member.state) == (4, MemberState.UNREVOKED)
    assert (member.assigned, member.revoking) == ({TOPIC: {0: 4, 1: 4}}, {TOPIC: {2: 4}})
    value.state = 99
    take_record(group, ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
    assert group.members["m"].state is MemberState.UNKNOWN


def test_a_member_in_a_state_that_is_not_known_gives_up_what_it_has() -> None:
    service = Service()
    service.topic("a", 2)
    client = Client(service, "m")
    client.join(["a"])
    client.follow()
    entry = service.group.members["m"].assignment_entry("g")
    entry.value.state = 99
    service.machine.replay(entry, -1)
    with pytest.raises(errors.FencedMemberEpoch):
        client.beat()
    with pytest.raises(errors.FencedMemberEpoch):
        client.send()
    client.join(["a"])
    client.follow()
    assert len(client.owned) == 2
