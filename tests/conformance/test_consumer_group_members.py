"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: who takes part, at which epoch, with which partitions; and what
OffsetCommit, OffsetFetch, ListGroups, DescribeGroups and DeleteGroups make of such groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance import consumer_members as codes
from tests.conformance.consumer_members import (
    NONE,
    ConsumerMember,
    places,
    settle,
    topic_id,
)
from tests.conformance.members import Member, await_coordinator, committed
from tests.conformance.raw import Connection

Members = Callable[..., ConsumerMember]


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[Members]:
    made: list[ConsumerMember] = []

    def make(**options: Any) -> ConsumerMember:
        made.append(
            ConsumerMember(options.pop("bootstrap", bootstrap), options.pop("group", group), **options)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


# Taking part


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_member_gets_everything(version: int, member: Members, topic: Any) -> None:
    first, known = member(version=version), topic(partitions=3)
    if version == 0:
        first.id = ""
    assert first.join(known) == NONE
    wanted = {(topic_id(first.connection, known), partition) for partition in range(3)}
    assert (first.owned, first.epoch) == (wanted, 2)
    assert first.id
    assert first.beat() == NONE
    assert (first.answer.assignment, first.answer.member_epoch) == (None, 2)


def test_a_full_request_is_told_everything_again(member: Members, topic: Any) -> None:
    first, known = member(), topic(partitions=2)
    first.join(known)
    assert (
        first.beat(subscribed_topic_names=[known], rebalance_timeout=1000, topic_partitions=first.said())
        == NONE
    )
    assert first.answer.assignment is not None and len(first.owned) == 2


def test_partitions_are_given_back_before_another_gets_them(member: Members, topic: Any) -> None:
    first, second, known = member(), member(), topic(partitions=4)
    first.join(known)
    everything, epoch = set(first.owned), first.epoch
    assert second.join(known) == NONE
    deadline = time.monotonic() + 10
    while first.answer.assignment is None or len(first.owned) == 4:
        assert second.beat() == NONE and second.owned == set()
        assert first.beat() == NONE and time.monotonic() < deadline
    assert (len(first.owned), first.epoch) == (2, epoch)  # told, and not there yet
    assert second.beat() == NONE and second.owned == set()
    assert first.acknowledge() == NONE and first.epoch > epoch
    settle(first, second)
    assert first.owned | second.owned == everything and not first.owned & second.owned
    assert first.epoch == second.epoch


def test_a_member_that_leaves_hands_its_partitions_on(member: Members, topic: Any) -> None:
    first, second, known = member(), member(), topic(partitions=4)
    first.join(known)
    second.join(known)
    settle(first, second)
    assert second.leave() == NONE
    assert (second.answer.member_epoch, second.answer.member_id) == (-1, second.id)
    settle(first)
    assert len(first.owned) == 4
    assert second.send() == codes.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_assignor_is_the_one_that_members_ask_for(assignor: str, member: Members, topic: Any) -> None:
    first, second = member(), member()
    one, two = topic(partitions=3), topic(partitions=3)
    first.join(one, two, server_assignor=assignor)
    second.join(one, two, server_assignor=assignor)
    settle(first, second)
    assert first.describe().assignor_name == assignor
    assert sorted((len(first.owned), len(second.owned))) == ([3, 3] if assignor == "uniform" else [2, 4])


def test_a_new_subscription_is_followed(member: Members, topic: Any) -> None:
    first, one, two = member(), topic(partitions=1), topic(partitions=2)
    first.join(one)
    assert first.beat(subscribed_topic_names=[two]) == NONE
    settle(first)
    assert first.owned == {(topic_id(first.connection, two), partition) for partition in range(2)}


def test_partitions_that_are_added_are_assigned(member: Members, topic: Any) -> None:
    first, known = member(), topic(partitions=1)
    first.join(known)
    wanted = {"name": known, "count": 3, "assignments": None}
    first.connection.call("create_partitions", 3, topics=[wanted], timeout=10_000, validate_only=False)
    deadline = time.monotonic() + 20
    while len(first.owned) < 3:
        assert first.acknowledge() == NONE and time.monotonic() < deadline
        time.sleep(0.05)


def test_topics_that_do_not_exist_yet_are_assigned_when_they_do(
    member: Members, topic: Any, name: Any
) -> None:
    first, later = member(), name()
    assert first.join(later) == NONE and first.owned == set()
    wanted = {"name": later, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    first.connection.call("create_topics", 7, topics=[wanted], timeout=10_000)
    deadline = time.monotonic() + 20
    while len(first.owned) < 2:
        assert first.acknowledge() == NONE and time.monotonic() < deadline
        time.sleep(0.05)


# Expressions


def test_a_member_subscribes_with_an_expression(member: Members, topic: Any) -> None:
    first, one, two = member(), topic(partitions=1), topic(partitions=2)
    assert first.join(subscribed_topic_names=None, subscribed_topic_regex=f"{one}|{two[:-1]}.") == NONE
    deadline = time.monotonic() + 20
    while len(first.owned) < 3:
        fields = (
            {}
            if first.epoch
            else {"rebalance_timeout": 60_000, "subscribed_topic_regex": f"{one}|{two[:-1]}."}
        )
        assert first.beat(topic_partitions=first.said(), **fields) == NONE, first.answer
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = first.describe().members[0]
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == ((), f"{one}|{two[:-1]}.")


@pytest.mark.parametrize("regex", ["(", "a**", "(?=x)", "[", "a{2000}"])
def test_what_is_no_expression_is_refused(regex: str, member: Members) -> None:
    first = member()
    assert first.join(subscribed_topic_regex=regex) == codes.INVALID_REGULAR_EXPRESSION
    assert first.answer.error_message
    assert first.describe().error_code == codes.GROUP_ID_NOT_FOUND


# Static members


def test_a_static_member_gets_back_what_it_had(member: Members, topic: Any) -> None:
    first, second, known = member(instance="a"), member(instance="b"), topic(partitions=4)
    first.join(known)
    second.join(known)
    settle(first, second)
    had, epoch = set(second.owned), second.epoch
    assert second.leave(-2) == NONE
    again = member(instance="b")
    assert again.join(known) == NONE
    assert (again.owned, again.epoch) == (had, epoch)
    assert second.send() == codes.FENCED_INSTANCE_ID
    assert first.beat() == NONE and first.answer.assignment is None


def test_an_instance_that_is_there_is_not_taken_over(member: Members, topic: Any) -> None:
    first, other, known = member(instance="a"), member(instance="a"), topic()
    first.join(known)
    assert other.join(known) == codes.UNRELEASED_INSTANCE_ID
    other.epoch = 1
    assert other.send() == codes.FENCED_INSTANCE_ID
    assert other.leave(-2) == codes.FENCED_INSTANCE_ID
    assert member(instance="nobody").leave(-2) == codes.UNKNOWN_MEMBER_ID


# Bad requests: Kafka's code, and nothing changes


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, codes.INVALID_REQUEST),
        ({"group_id": ""}, codes.INVALID_REQUEST),
        ({"instance_id": ""}, codes.INVALID_REQUEST),
        ({"rack_id": ""}, codes.INVALID_REQUEST),
        ({"rebalance_timeout": -1}, codes.INVALID_REQUEST),
        ({"topic_partitions": None}, codes.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, codes.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, codes.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": -3}, codes.INVALID_REQUEST),
        ({"member_epoch": -2}, codes.INVALID_REQUEST),
        ({"member_epoch": -1}, codes.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1}, codes.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_wrong_request_to_join_changes_nothing(
    fields: dict[str, Any], code: int, member: Members, topic: Any
) -> None:
    first = member()
    assert first.join(topic(), **fields) == code, first.answer
    assert first.describe().error_code == codes.GROUP_ID_NOT_FOUND


def test_wrong_epochs_and_ids_are_told_off(member: Members, topic: Any) -> None:
    first, known = member(), topic(partitions=2)
    first.join(known)
    second = member()
    second.join(known)
    settle(first, second)
    before = first.describe()
    assert first.send(member_epoch=first.epoch + 1) == codes.FENCED_MEMBER_EPOCH
    assert first.send(member_epoch=first.epoch - 1) == codes.FENCED_MEMBER_EPOCH
    assert first.send(member_id="nobody") == codes.UNKNOWN_MEMBER_ID
    assert first.send(member_id="nobody", member_epoch=-1) == codes.UNKNOWN_MEMBER_ID
    assert first.send(instance_id="nobody") == codes.UNKNOWN_MEMBER_ID
    assert first.describe() == before


def test_a_missed_answer_is_made_up_for(member: Members, topic: Any) -> None:
    first, second, known = member(), member(), topic(partitions=2)
    first.join(known)
    before = first.epoch
    second.join(known)
    settle(first, second)
    # It answers as it was before the last change, with less than it has: it may go on.
    assert first.send(member_epoch=before, topic_partitions=first.said()) in (NONE, codes.FENCED_MEMBER_EPOCH)


def test_a_full_group_takes_nobody(own_broker: Any, member: Members) -> None:
    broker = own_broker({"group.consumer.max.size": "1"})
    first = member(bootstrap=broker.bootstrap, group="g")
    second = member(bootstrap=broker.bootstrap, group="g")
    await_coordinator(first.connection, "g")
    assert first.join("t") == NONE
    assert second.join("t") == codes.GROUP_MAX_SIZE_REACHED
    assert first.beat() == NONE


# Deadlines

SHORT = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


def test_a_silent_member_is_taken_out(own_broker: Any, member: Members) -> None:
    broker = own_broker(SHORT)
    first = member(bootstrap=broker.bootstrap, group="g")
    await_coordinator(first.connection, "g")
    first.join("t")
    deadline = time.monotonic() + 15
    while first.describe().members:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert first.send() == codes.UNKNOWN_MEMBER_ID
    assert first.describe().group_state == "Empty"


def test_a_member_that_does_not_give_partitions_back_is_taken_out(own_broker: Any, member: Members) -> None:
    broker = own_broker(SHORT)
    first = member(bootstrap=broker.bootstrap, group="g")
    second = member(bootstrap=broker.bootstrap, group="g")
    await_coordinator(first.connection, "g")
    wanted = {"name": "t", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    first.connection.call("create_topics", 7, topics=[wanted], timeout=10_000)
    assert first.join("t", rebalance_timeout=1500) == NONE
    while len(first.owned) < 2:
        assert first.beat() == NONE
    had = first.said()
    assert second.join("t", rebalance_timeout=1500) == NONE
    deadline, code = time.monotonic() + 20, NONE
    while code == NONE:  # it is there, and keeps what it has
        code = first.send(topic_partitions=had)
        second.acknowledge()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert code in (codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH)
    while len(second.owned) < 2:
        assert second.acknowledge() == NONE and time.monotonic() < deadline


def test_the_state_outlives_the_broker(own_broker: Any, member: Members) -> None:
    broker = own_broker()
    first = member(bootstrap=broker.bootstrap, group="g", instance="a")
    await_coordinator(first.connection, "g")
    wanted = {"name": "t", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    first.connection.call("create_topics", 7, topics=[wanted], timeout=10_000)
    first.join("t")
    while len(first.owned) < 2:
        assert first.acknowledge() == NONE
    settle(first)
    before = first.describe()
    broker.kill()
    broker.start()
    first.connection = Connection(broker.bootstrap)
    await_coordinator(first.connection, "g")
    after = first.describe()
    assert (after.group_epoch, after.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
    assert after.members == before.members
    assert first.beat() == NONE and first.answer.assignment is None


# Offsets


def commit(member: ConsumerMember, topic: str, epoch: int, version: int = 9, **changes: Any) -> int:
    partition = {
        "partition_index": changes.pop("partition", 0),
        "committed_offset": 5,
        "committed_metadata": "",
    }
    fields = {
        "group_id": member.group,
        "generation_id_or_member_epoch": epoch,
        "member_id": member.id,
        "group_instance_id": member.instance,
        "topics": [{"name": topic, "partitions": [partition]}],
        **changes,
    }
    return int(member.connection.call("offset_commit", version, **fields).topics[0].partitions[0].error_code)


def test_members_commit_with_their_epoch(member: Members, topic: Any) -> None:
    first, known = member(), topic(partitions=2)
    first.join(known)
    settle(first)
    assert commit(first, known, first.epoch) == NONE
    assert commit(first, known, first.epoch + 1) == codes.STALE_MEMBER_EPOCH
    assert commit(first, known, first.epoch, member_id="nobody") == codes.UNKNOWN_MEMBER_ID
    assert commit(first, known, -1, member_id="") == codes.UNKNOWN_MEMBER_ID
    assert commit(first, known, first.epoch, version=8) == codes.UNSUPPORTED_VERSION
    assert committed(first.connection, first.group, known) == 5
    first.leave()
    assert commit(first, known, -1, member_id="") == NONE  # nobody is there to be bypassed


def test_what_was_assigned_before_can_be_committed_at_an_older_epoch(member: Members, topic: Any) -> None:
    first, second, known = member(), member(), topic(partitions=2)
    first.join(known)
    older = first.epoch
    second.join(known)
    settle(first, second)
    ((_, mine),) = first.owned
    ((_, others),) = second.owned
    assert commit(first, known, older, partition=mine) == NONE
    assert commit(first, known, older, partition=others) == codes.STALE_MEMBER_EPOCH
    assert commit(second, known, older, partition=others) == codes.STALE_MEMBER_EPOCH


def test_members_fetch_offsets_with_their_epoch(member: Members, topic: Any) -> None:
    first, known = member(), topic()
    first.join(known)

    def fetched(member_id: str | None, epoch: int) -> int:
        wanted = {
            "group_id": first.group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"name": known, "partition_indexes": [0]}],
        }
        answer = first.connection.call("offset_fetch", 9, groups=[wanted], require_stable=True)
        return int(answer.groups[0].error_code)

    assert fetched(first.id, first.epoch) == NONE
    assert fetched(first.id, first.epoch + 1) == codes.STALE_MEMBER_EPOCH
    assert fetched("nobody", first.epoch) == codes.UNKNOWN_MEMBER_ID
    assert fetched(None, -1) == NONE


# Looking at groups


def test_a_group_is_described_listed_and_deleted(member: Members, topic: Any) -> None:
    first, known = member(instance="i"), topic(partitions=2)
    first.join(known, rack_id="r")
    settle(first)
    told = first.describe()
    assert (told.error_code, told.group_state, told.assignor_name) == (NONE, "Stable", "uniform")
    assert told.group_epoch == told.assignment_epoch == first.epoch
    (one,) = told.members
    assert (one.member_id, one.instance_id, one.rack_id) == (first.id, "i", "r")
    assert (one.client_id, one.client_host, one.member_type) == ("raw", "/127.0.0.1", 1)
    assert one.subscribed_topic_names == (known,)
    assert places(one.assignment) == places(one.target_assignment) == first.owned
    assert {part.topic_name for part in one.assignment.topic_partitions} == {known}

    def listed(**filters: Any) -> list[tuple[str, str, str]]:
        wanted = {"states_filter": [], "types_filter": [], **filters}
        found = first.connection.call("list_groups", 5, **wanted).groups
        return [
            (one.protocol_type, one.group_state, one.group_type)
            for one in found
            if one.group_id == first.group
        ]

    assert listed() == [("consumer", "Stable", "consumer")] or listed() == [
        ("consumer", "Stable", "Consumer")
    ]
    assert len(listed(types_filter=["consumer"])) == 1 and listed(types_filter=["classic"]) == []
    assert len(listed(states_filter=["Stable"])) == 1 and listed(states_filter=["Empty"]) == []
    assert (
        first.connection.call("describe_groups", 6, groups=[first.group]).groups[0].error_code
        == codes.GROUP_ID_NOT_FOUND
    )

    def deleted() -> int:
        answer = first.connection.call("delete_groups", 2, groups_names=[first.group])
        return int(answer.results[0].error_code)

    assert deleted() == codes.NON_EMPTY_GROUP
    first.leave()
    assert first.describe().group_state == "Empty"
    assert deleted() == NONE
    assert first.describe().error_code == codes.GROUP_ID_NOT_FOUND


def test_groups_that_are_not_there_are_not_described(
    connection: Connection, group: str, bootstrap: str
) -> None:
    answer = connection.call(
        "consumer_group_describe", 1, group_ids=[group, ""], include_authorized_operations=True
    )
    assert {one.group_id: one.error_code for one in answer.groups} == {
        group: codes.GROUP_ID_NOT_FOUND,
        "": codes.INVALID_GROUP_ID,
    }


def test_a_classic_group_with_a_foreign_protocol_stays_one(
    member: Members, bootstrap: str, group: str
) -> None:
    other = Member(bootstrap, group, protocol_type="connect", protocols=(("p", b""),))
    try:
        assert other.join().error_code == NONE
        assert other.sync({other.id: b"x"}).error_code == NONE
        assert member().join("t") == codes.GROUP_ID_NOT_FOUND
        assert other.heartbeat() == NONE
    finally:
        other.close()
