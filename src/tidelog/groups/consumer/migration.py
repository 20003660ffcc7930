"""Migration of a group between the classic and the consumer protocol while its members keep reading.

Upgrade: the first member with the consumer protocol turns a classic group into a consumer group; the classic members
stay with their partitions.  Downgrade: when the last member with the consumer protocol leaves, the remaining classic
members become a classic group again.  `group.consumer.migration.policy` says which directions are allowed.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog import errors
from tidelog.config import BrokerConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic import member as classic_member
from tidelog.groups.classic.consumer_protocol import PROTOCOL_TYPE
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.member import Protocols
from tidelog.groups.consumer.embedded_protocol import (
    identified,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from tidelog.groups.consumer.group import ConsumerGroup, epoch_entry, target_entry, target_epoch_entry
from tidelog.groups.consumer.member import ClassicTraits, ConsumerMember, at_epoch
from tidelog.groups.consumer.target_assignment import metadata_hash
from tidelog.metadata.image.image import Image
from tidelog.wire.primitives import Malformed

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")
DISABLED = "disabled"
# Assignors whose user data in an assignment only repeat the previous assignment, and can be dropped.
FORGETFUL = ("range", "roundrobin", "sticky", "cooperative-sticky")


# Upgrade


def check_upgrade(group: ClassicGroup, config: BrokerConfig) -> None:
    """Raises GroupIdNotFound, as Kafka does, if this classic group cannot become a consumer group."""
    refuse = errors.GroupIdNotFound
    if config.group_consumer_migration_policy not in UPGRADES:
        raise refuse(
            f"group {group.id} is a classic group, and group.consumer.migration.policy does not allow upgrades"
        )
    if group.protocol_type != PROTOCOL_TYPE:
        raise refuse(f"group {group.id} is a classic group of {group.protocol_type!r}, not of consumers")
    if len(group.members) > config.group_consumer_max_size:
        raise refuse(f"group {group.id} has more members than group.consumer.max.size allows")


def upgraded(group: ClassicGroup, image: Image) -> list[CoordinatorRecord]:
    """The records of the consumer group that a classic group becomes."""
    try:
        members = [_upgraded_member(group, member, image) for member in group.members.values()]
    except Malformed as problem:
        raise errors.GroupIdNotFound(
            f"group {group.id} cannot become a consumer group: {problem}"
        ) from problem
    topics = frozenset[str]().union(*(member.topics for member in members))
    return [
        *(member.subscription_entry(group.id) for member in members),
        epoch_entry(group.id, group.generation, metadata_hash(topics, image)),
        *(
            target_entry(
                group.id, member.id, {topic: frozenset(some) for topic, some in member.assigned.items()}
            )
            for member in members
        ),
        target_epoch_entry(group.id, group.generation, 0),
        *(member.assignment_entry(group.id) for member in members),
    ]


def _upgraded_member(
    group: ClassicGroup, member: classic_member.ClassicMember, image: Image
) -> ConsumerMember:
    chosen = group.protocol if group.protocol is not None else next(iter(member.protocols))[0]
    subscription = read_subscription(member.metadata(chosen))
    assignment = read_assignment(member.assignment)
    if assignment.user_data and chosen not in FORGETFUL:
        raise Malformed(f"its assignor {chosen!r} keeps user data that would be lost")
    return ConsumerMember(
        id=member.id,
        instance_id=member.instance_id,
        rack=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        classic=ClassicTraits(member.session_timeout_ms, tuple(member.protocols)),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=at_epoch(identified(assignment, image), group.generation),
    )


# Downgrade


class Downgrade(NamedTuple):
    """The records of a downgrade; `protocols` of the members are not in a classic group's record."""

    entries: list[CoordinatorRecord]
    protocols: Mapping[str, Protocols]


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], config: BrokerConfig) -> bool:
    """True if all members except `leaving` are classic ones, and the policy allows a downgrade."""
    left = [member for member in group.members.values() if member.id not in leaving]
    if not left or any(member.classic is None for member in left):
        return False
    if config.group_consumer_migration_policy not in DOWNGRADES:
        return False
    return len(left) <= config.group_max_size


def downgraded(group: ConsumerGroup, leaving: Collection[str], image: Image, now_ms: int) -> Downgrade:
    """The records that turn the remaining classic members into a classic group."""
    entries = group.tombstones()
    after = ClassicGroup(group.id, since_ms=now_ms)
    after.generation = group.epoch
    left = [member for member in group.members.values() if member.id not in leaving]
    for member in left:
        assert member.classic is not None
        after.add(
            classic_member.ClassicMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                member.classic.protocols,
            ),
            PROTOCOL_TYPE,
        )
    after.protocol = after.choose_protocol()
    for classic in after.members.values():
        try:
            version = read_version(classic.metadata(after.protocol))
        except Malformed as problem:
            raise errors.GroupIdNotFound(
                f"group {group.id} cannot become a classic group: {problem}"
            ) from None
        classic.assignment = write_assignment(group.targets.get(classic.id, {}), image, version)
    entries.append(after.entry())
    return Downgrade(entries, {classic.id: classic.protocols for classic in after.members.values()})
