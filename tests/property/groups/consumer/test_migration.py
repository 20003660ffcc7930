"""A group that becomes a consumer group and a classic one again: members, partitions and protocols come through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.groups.consumer.consumers import GROUP, Service, places
from tidelog import errors
from tidelog.config import BrokerConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.member import ClassicMember
from tidelog.groups.consumer.embedded_protocol import identified, read_assignment, write_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.migration import check_upgrade, downgraded, may_downgrade, upgraded
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

TOPICS = {"a": 3, "b": 2}


def service() -> Service:
    made = Service()
    for name, partitions in TOPICS.items():
        made.topic(name, partitions)
    return made


def subscription(topics: list[str], version: int) -> bytes:
    return version.to_bytes(2, "big") + ConsumerProtocolSubscription(topics=topics).encode(version)


@st.composite
def classic_groups(draw: st.DrawFn) -> tuple[Service, ClassicGroup]:
    """Stable, with every partition assigned to somebody."""
    world = service()
    group = ClassicGroup(GROUP, ClassicState.STABLE)
    group.generation = draw(st.integers(1, 50))
    ids = draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=4, unique=True))
    owned: dict[str, dict[str, set[int]]] = {member: {} for member in ids}
    for topic, count in TOPICS.items():
        for partition in range(count):
            owned[draw(st.sampled_from(ids))].setdefault(topic, set()).add(partition)
    for member in ids:
        version = draw(st.integers(0, 3))
        names = draw(st.permutations(["range", "roundrobin"]))
        group.add(
            ClassicMember(
                member,
                draw(st.none() | st.just(f"i-{member}")),
                "client",
                "/host",
                30_000,
                10_000,
                tuple((name, subscription(sorted(TOPICS), version)) for name in names),
            ),
            "consumer",
        )
        partitions = {world.id_of(topic): frozenset(some) for topic, some in owned[member].items()}
        group.members[member].assignment = write_assignment(partitions, world.image, version)
    group.protocol = group.choose_protocol()
    group.topics = group.subscribed_topics()
    return world, group


def written(entries: list[CoordinatorRecord]) -> ConsumerGroup | ClassicGroup:
    """What they add up to, read back from their bytes."""
    machine = new_machine()
    for entry in entries:
        again = KINDS.decode(*KINDS.encode(entry))
        assert again is not None
        machine.replay(again, -1)
    (group,) = machine.groups.values()
    assert isinstance(group, ConsumerGroup | ClassicGroup)
    return group


@settings(max_examples=100, deadline=None)
@given(classic_groups())
def test_up_and_down_again_gives_the_same_group(made: tuple[Service, ClassicGroup]) -> None:
    here, group = made
    check_upgrade(group, here.config)
    up = written([group.entry(), *group.tombstones(), *upgraded(group, here.image)])
    assert isinstance(up, ConsumerGroup)
    assert (up.epoch, up.assignment_epoch, up.state_name) == (group.generation, group.generation, "Stable")
    assert {member.instance_id for member in up.members.values()} == {
        member.instance_id for member in group.members.values()
    }
    everything = {
        (here.id_of(topic), partition) for topic, count in TOPICS.items() for partition in range(count)
    }
    owned = [places(member.assigned) for member in up.members.values()]
    assert set().union(*owned) == everything and sum(map(len, owned)) == len(everything)
    assert up.topics == set(TOPICS)

    assert may_downgrade(up, (), here.config)
    down = downgraded(up, (), here.image, 1)
    after = written([*upgraded(group, here.image), *down.entries])
    assert isinstance(after, ClassicGroup)
    assert (after.generation, after.protocol_type, after.state) == (
        group.generation,
        "consumer",
        ClassicState.STABLE,
    )
    assert after.protocol == group.protocol and after.topics == group.topics
    for member in group.members.values():
        same = after.members[member.id]
        assert down.protocols[member.id] == tuple(member.protocols)
        assert (same.instance_id, same.session_timeout_ms) == (member.instance_id, member.session_timeout_ms)
        assert identified(read_assignment(same.assignment), here.image) == identified(
            read_assignment(member.assignment), here.image
        )


def stable(protocol: str = "range", assignment: bytes = b"", protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup(GROUP, ClassicState.STABLE)
    member = ClassicMember("m", None, "c", "/h", 1, 1, ((protocol, subscription(["a"], 0)),), assignment)
    group.add(member, protocol_type)
    group.protocol = protocol
    return group


@pytest.mark.parametrize(
    ("group", "given_settings"),
    [
        (stable(), {"group.consumer.migration.policy": "disabled"}),
        (stable(), {"group.consumer.migration.policy": "downgrade"}),
        (stable(protocol_type="connect"), {}),
    ],
)
def test_what_must_stay_a_classic_group_does(group: ClassicGroup, given_settings: dict[str, str]) -> None:
    with pytest.raises(errors.GroupIdNotFound):
        check_upgrade(group, BrokerConfig.of(given_settings))


def test_assignments_that_are_not_understood_are_not_lost() -> None:
    own = (0).to_bytes(2, "big") + ConsumerProtocolAssignment(user_data=b"mine").encode(0)
    for group in (stable("custom", own), stable(assignment=b"?"), stable(assignment=b"\0\0\0")):
        with pytest.raises(errors.GroupIdNotFound):
            upgraded(group, service().image)
    assert upgraded(stable("cooperative-sticky", own), service().image)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_a_consumer_group_stays_one_where_the_way_back_is_closed(policy: str) -> None:
    world = service()
    up = written(upgraded(stable(), world.image))
    assert isinstance(up, ConsumerGroup)
    assert may_downgrade(up, (), world.config)
    assert not may_downgrade(up, (), BrokerConfig.of({"group.consumer.migration.policy": policy}))
    assert not may_downgrade(up, ["m"], world.config)  # nobody would be left
