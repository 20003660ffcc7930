"""Classic members in a consumer group, request by request: how a group moves from one protocol to the other."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import consumer_members as codes
from tests.conformance.consumer_members import NONE, ConsumerMember
from tests.conformance.members import Member, await_coordinator, subscription
from tests.conformance.raw import Connection

PARTITIONS = 4
SECONDS_MAX = 180


def assignment(topic: str, *partitions: int) -> bytes:
    """As consumers tell each other, version 0."""
    name = topic.encode()
    head = struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


def assigned(data: bytes) -> list[int]:
    """The partitions of the one topic."""
    _, topics = struct.unpack_from(">hi", data)
    if topics == 0:
        return []
    (length,) = struct.unpack_from(">h", data, 6)
    (count,) = struct.unpack_from(">i", data, 8 + length)
    return sorted(struct.unpack_from(f">{count}i", data, 12 + length))


class Migrating:
    """A classic member and one of the consumer protocol, in one group."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.topic = topic
        self.old = Member(bootstrap, group, protocols=(("range", subscription(topic)),), session_ms=30_000)
        self.new = ConsumerMember(bootstrap, group)
        assert self.old.join().error_code == NONE
        everything = assignment(topic, *range(PARTITIONS))
        assert self.old.sync({self.old.id: everything}).error_code == NONE
        self.has = list(range(PARTITIONS))

    def close(self) -> None:
        self.old.close()
        self.new.close()

    def upgrade(self) -> None:
        assert self.new.join(self.topic) == NONE, self.new.answer

    def rejoin(self) -> None:
        """The classic member gives up what it has, joins again, and gets what it is to have."""
        answer = self.old.join()
        assert (answer.error_code, answer.protocol_name, answer.leader) == (NONE, "range", "")
        synced = self.old.sync()
        assert synced.error_code == NONE
        self.has = assigned(synced.assignment)

    def settle(self) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.has) + len(self.new.owned) < PARTITIONS or len(self.has) != PARTITIONS // 2:
            assert time.monotonic() < deadline, (self.has, self.new.owned)
            if self.old.heartbeat() == codes.REBALANCE_IN_PROGRESS:
                self.rejoin()
            assert self.new.acknowledge() == NONE
            time.sleep(0.05)


@pytest.fixture
def migrating(bootstrap: str, connection: Connection, name: Any, topic: Any) -> Iterator[Migrating]:
    group = str(name())
    await_coordinator(connection, group)
    made = Migrating(bootstrap, group, topic(partitions=PARTITIONS))
    yield made
    made.close()


def test_a_classic_member_keeps_its_partitions_until_it_rejoined(migrating: Migrating) -> None:
    migrating.upgrade()
    assert migrating.new.owned == set()
    told = migrating.new.describe()
    kinds = {one.member_id: one.member_type for one in told.members}
    assert kinds == {migrating.old.id: 0, migrating.new.id: 1}
    migrating.settle()
    mine = {partition for _, partition in migrating.new.owned}
    assert mine | set(migrating.has) == set(range(PARTITIONS)) and not mine & set(migrating.has)
    assert migrating.old.heartbeat() == NONE
    assert migrating.old.generation == migrating.new.epoch
    assert migrating.old.commit(migrating.topic, 1, partition=migrating.has[0]) == NONE


def test_wrong_requests_of_classic_members_get_their_codes_and_change_nothing(migrating: Migrating) -> None:
    migrating.upgrade()
    migrating.settle()
    old, before = migrating.old, migrating.new.describe()
    assert old.heartbeat(generation=old.generation + 1) == codes.ILLEGAL_GENERATION
    assert old.heartbeat(member_id="nobody") == codes.UNKNOWN_MEMBER_ID
    assert old.heartbeat(member_id=migrating.new.id) == codes.UNKNOWN_MEMBER_ID
    assert old.sync(generation=old.generation + 1).error_code == codes.ILLEGAL_GENERATION
    assert old.commit(migrating.topic, 1, generation=old.generation + 1) == codes.ILLEGAL_GENERATION
    stranger = Member(
        f"{old.connection.socket.getpeername()[0]}:{old.connection.socket.getpeername()[1]}",
        old.group,
        protocols=(("unheard-of", subscription(migrating.topic)),),
    )
    assert stranger.join().error_code == codes.INCONSISTENT_GROUP_PROTOCOL
    stranger.protocols, stranger.protocol_type = (("range", subscription(migrating.topic)),), "connect"
    assert stranger.join().error_code == codes.INCONSISTENT_GROUP_PROTOCOL
    stranger.close()
    assert migrating.new.describe() == before


def test_when_the_last_new_member_leaves_the_group_is_a_classic_one_again(migrating: Migrating) -> None:
    migrating.upgrade()
    migrating.settle()
    old = migrating.old
    assert migrating.new.leave() == NONE
    assert migrating.new.describe().error_code == codes.GROUP_ID_NOT_FOUND
    assert old.heartbeat() == codes.REBALANCE_IN_PROGRESS
    assert old.join().error_code == NONE and old.leads
    assert old.sync({old.id: assignment(migrating.topic, *range(PARTITIONS))}).error_code == NONE
    assert old.heartbeat() == NONE
    (told,) = old.connection.call("describe_groups", 5, groups=[old.group]).groups
    assert (told.group_state, len(told.members)) == ("Stable", 1)


def test_a_classic_member_leaves_a_consumer_group(migrating: Migrating) -> None:
    migrating.upgrade()
    migrating.settle()
    assert migrating.old.leave() == NONE
    deadline = time.monotonic() + SECONDS_MAX
    while len(migrating.new.owned) < PARTITIONS:
        assert migrating.new.acknowledge() == NONE and time.monotonic() < deadline
        time.sleep(0.05)
    assert migrating.old.heartbeat() == codes.UNKNOWN_MEMBER_ID


def test_a_classic_member_joins_a_consumer_group(migrating: Migrating, bootstrap: str) -> None:
    migrating.upgrade()
    migrating.settle()
    migrating.old.leave()
    late = Member(bootstrap, migrating.old.group, protocols=(("range", subscription(migrating.topic)),))
    try:
        late.send_join()
        assert late.receive_join().error_code == 79  # it joins when it knows its id
        answer = late.join()
        assert (answer.error_code, answer.generation_id) == (NONE, late.generation)
        assert {one.member_type for one in migrating.new.describe().members} == {0, 1}
    finally:
        late.close()
