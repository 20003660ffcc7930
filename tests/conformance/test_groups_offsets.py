"""What many groups have committed, asked at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.members import Member, await_coordinator
from tests.conformance.raw import Connection
from tidelog import Admin, Consumer, TopicPartition
from tidelog.errors import GroupIdNotFound


def test_offsets_of_many_groups(bootstrap: str, topic: Callable[..., str], name: Callable[[], str]) -> None:
    read = topic(partitions=2)
    first, second, unknown = name(), name(), name()
    zero, one = TopicPartition(read, 0), TopicPartition(read, 1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(first, {zero: 3, one: 5})
        admin.alter_group_offsets(second, {one: 7})
        many = [name() for _ in range(250)]  # more than one request takes
        found = admin.list_groups_offsets([first, *many, second, unknown, first])
        assert found.pop(first) == admin.list_group_offsets(first)
        assert {where: offset.offset for where, offset in found.pop(second).items()} == {one: 7}
        assert found == {group: {} for group in [*many, unknown]}
        assert admin.list_groups_offsets([]) == {}


def test_many_groups_are_described_at_once_and_those_that_are_gone_are_told(
    bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    read, unknown = topic(), name()
    many = [name() for _ in range(3)]
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Consumer(read, bootstrap_servers=bootstrap, group_id=name(), group_protocol="consumer") as consumer,
    ):
        for group in many:
            admin.alter_group_offsets(group, {TopicPartition(read, 0): 0})
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        member = consumer.group_metadata().group_id
        found = admin.describe_groups([*many, member, unknown, *many], missing_ok=True)
        assert list(found) == [*many, member]
        assert [found[one].type for one in (*many, member)] == ["classic"] * 3 + ["consumer"]
        assert [len(found[one].members) for one in (*many, member)] == [0, 0, 0, 1]
        with pytest.raises(GroupIdNotFound, match=unknown):
            admin.describe_groups([*many, unknown])
        with pytest.raises(ExceptionGroup) as refused:
            admin.describe_groups([unknown, name()])
        assert {type(one) for one in refused.value.exceptions} == {GroupIdNotFound}


def test_groups_are_listed_by_the_broker_that_coordinates_them(
    bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    group = name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic(), 0): 0})
        (node,) = admin.describe_cluster().nodes
        assert group in [one.group_id for one in admin.list_groups(brokers=[node])]
        assert admin.list_groups(brokers=[]) == []


def test_a_member_that_sends_nonsense_hides_nobody(
    bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    good, odd = name(), name()
    with Connection(bootstrap) as connection:
        await_coordinator(connection, odd)
    member = Member(bootstrap, odd, session_ms=30_000, protocols=(("range", b"data"),))
    member.join()
    member.sync({member.id: b"\xff"})
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(good, {TopicPartition(topic(), 0): 0})
        found = admin.describe_groups([good, odd])
        (seen,) = found[odd].members
        assert (found[good].state, found[odd].state, seen.assignment, seen.topics) == (
            "Empty",
            "Stable",
            (),
            (),
        )
    member.leave()
    member.close()
