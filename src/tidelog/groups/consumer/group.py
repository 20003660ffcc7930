"""A consumer group (KIP-848): its members, the target assignment, and each member's current assignment.

It has three epochs.  The group epoch grows when members, subscriptions or subscribed topics change; the assignment epoch
is the group epoch that the target assignment was computed for; the member epoch is the assignment epoch that the member
has reconciled to.  All state is in records.  Pure.  `heartbeat` decides, `coordinator` drives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import replayed_group
from tidelog.groups.consumer.assignors import Partitions
from tidelog.groups.consumer.member import (
    LEFT_EPOCH,
    NOTHING,
    ConsumerMember,
    Owned,
    assignment_of,
    subscription_of,
)
from tidelog.groups.group import CONSUMER, CheckPartition
from tidelog.wire.messages.consumer_group_current_member_assignment_record import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from tidelog.wire.messages.consumer_group_member_metadata_record import ConsumerGroupMemberMetadataKey
from tidelog.wire.messages.consumer_group_metadata_record import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tidelog.wire.messages.consumer_group_partition_metadata_record import ConsumerGroupPartitionMetadataKey
from tidelog.wire.messages.consumer_group_regular_expression_record import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tidelog.wire.messages.consumer_group_target_assignment_member_record import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from tidelog.wire.messages.consumer_group_target_assignment_metadata_record import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from tidelog.groups.state_machine import GroupStateMachine

EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
OFFSET_COMMIT_WITH_EPOCHS = 9
NO_PARTITIONS: Partitions = {}


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, at a revision of the metadata and a time."""

    topics: frozenset[str]
    version: int = 0
    timestamp: int = 0


class ConsumerGroup:
    kind = CONSUMER
    protocol_type = "consumer"
    expires = True

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 1  # not 0: member epoch 0 means that the member joins
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Partitions] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.owners: dict[
            UUID, dict[int, str]
        ] = {}  # the member that owns a partition, or has not revoked it yet
        self.has_old_metadata = False  # a record of a broker before Kafka 4.1, to be deleted
        self._topics: frozenset[str] | None = None
        self.seen: tuple[object, ...] = ()
        """The metadata that the group's subscriptions were last compared with; in no record."""

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.id!r}, {self.state_name}, epoch {self.epoch}, {len(self.members)} members)"
        )

    # As a Group

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return STABLE
        return RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> CheckPartition | None:
        if epoch < 0 and not self.members:
            return None  # an admin client, or a consumer that assigns its partitions itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None  # a producer that does not name a member
        member = self.member(member_id)
        if not transactional and member.classic is None and version < OFFSET_COMMIT_WITH_EPOCHS:
            raise errors.UnsupportedVersion(
                f"members of consumer groups commit with OffsetCommit {OFFSET_COMMIT_WITH_EPOCHS} or newer"
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"epoch {epoch} is ahead of {member.epoch}, that of member {member_id}")

        def check(topic: str, topic_id: UUID, partition: int) -> None:
            since = member.owns(topic_id, partition)
            if since is None:
                raise _stale(member, f"{topic}-{partition} is not assigned to member {member_id}")
            if epoch < since:
                raise _stale(member, f"{topic}-{partition} was assigned at epoch {since}, after {epoch}")

        return check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(member, f"member {member_id} is at epoch {member.epoch}, not {epoch}")

    def check_offset_delete(self) -> None:
        """Always allowed: the caller checks the subscription of each topic."""

    def check_delete(self) -> None:
        if self.members:
            raise errors.NonEmptyGroup(f"group {self.id} has members: stop them before deleting the group")

    def tombstones(self) -> list[CoordinatorRecord]:
        entries = [
            *(
                CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(self.id, member), None)
                for member in self.members
            ),
            *(
                CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(self.id, member), None)
                for member in self.members
            ),
            CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(self.id), None),
            *(
                CoordinatorRecord(ConsumerGroupMemberMetadataKey(self.id, member), None)
                for member in self.members
            ),
            *(
                CoordinatorRecord(ConsumerGroupRegularExpressionKey(self.id, regex), None)
                for regex in self.resolved
            ),
            CoordinatorRecord(ConsumerGroupMetadataKey(self.id), None),
        ]
        if self.has_old_metadata:
            entries.insert(-1, CoordinatorRecord(ConsumerGroupPartitionMetadataKey(self.id), None))
        return entries

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics

    def expires_from(self, commit_ms: int) -> int | None:
        return commit_ms

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"group {self.id} has no member {member_id!r}")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that members subscribe to, by name or by a regular expression."""
        if self._topics is None:
            self._topics = frozenset().union(
                *(member.topics for member in self.members.values()),
                *(resolved.topics for resolved in self.resolved.values()),
            )
        return self._topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        return self.owners.get(topic_id, {}).get(partition)

    def copy(self) -> ConsumerGroup:
        """A copy whose changes do not affect this group."""
        other = ConsumerGroup(self.id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch, other.assignment_ms = self.assignment_epoch, self.assignment_ms
        other.members, other.static = dict(self.members), dict(self.static)
        other.targets, other.resolved = dict(self.targets), dict(self.resolved)
        other.owners = {topic: dict(owners) for topic, owners in self.owners.items()}
        other.has_old_metadata = self.has_old_metadata
        other.seen = self.seen
        other._topics = self._topics
        return other

    # Applying records

    def member_changed(self, member_id: str, fields: dict[str, Any]) -> None:
        old = self.members.get(member_id)
        member = replace(old if old is not None else ConsumerMember(member_id), **fields)
        self.members[member_id] = member
        self._topics = None
        if "instance_id" in fields and member.instance_id is not None:
            self.static[member.instance_id] = member_id
        if "assigned" in fields:
            if old is not None:
                self._disown(member_id, old.assigned)
                self._disown(member_id, old.revoking)
            self._own(member_id, member.assigned)
            self._own(member_id, member.revoking)

    def member_gone(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        if member is None:
            return
        self._topics = None
        self._disown(member_id, member.assigned)
        self._disown(member_id, member.revoking)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    def resolved_as(self, regex: str, resolved: ResolvedRegex | None) -> None:
        self._topics = None
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved

    def _own(self, member_id: str, owned: Owned) -> None:
        for topic, partitions in owned.items():
            owners = self.owners.setdefault(topic, {})
            for partition in partitions:
                owners[partition] = member_id

    def _disown(self, member_id: str, owned: Owned) -> None:
        for topic, partitions in owned.items():
            owners = self.owners.get(topic, {})
            for partition in partitions:
                if owners.get(partition) == member_id:  # another member may own it already
                    del owners[partition]
            if not owners:
                self.owners.pop(topic, None)

    def view(self) -> tuple[object, ...]:
        """All state that is in records, for comparisons in tests."""
        return (
            (self.epoch, self.metadata_hash, self.assignment_epoch, self.assignment_ms),
            self.members,
            self.static,
            self.targets,
            self.resolved,
            self.owners,
        )


def _stale(member: ConsumerMember, message: str) -> errors.TidelogError:
    return errors.StaleMemberEpoch(message) if member.classic is None else errors.IllegalGeneration(message)


# Records


def epoch_entry(group: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def target_entry(group: str, member: str, partitions: Partitions) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group, member),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic, partitions=sorted(some)) for topic, some in partitions.items()
            ]
        ),
    )


def target_epoch_entry(group: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms),
    )


def regex_entry(group: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    value = resolved and ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group, regex), value)


def gone_entries(group: str, member: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group, member), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group, member), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group, member), None),
    ]


CONSUMER_RECORDS: tuple[type, ...] = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)

# Replays


def replay_consumer_record(machine: GroupStateMachine, key: Any, value: Any, producer_id: int) -> None:
    group = replayed_group(machine, key.group_id, value, ConsumerGroup)
    if group is not None:
        take_record(group, key, value)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del machine.groups[group.id]


def take_record(group: ConsumerGroup, key: Any, value: Any) -> None:
    if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
        if value is not None:
            group.member_changed(key.member_id, assignment_of(value))
        elif key.member_id in group.members:
            nothing = {"epoch": LEFT_EPOCH, "previous_epoch": LEFT_EPOCH, "assigned": NOTHING}
            group.member_changed(key.member_id, {**nothing, "revoking": NOTHING})
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }
    elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        group.assignment_epoch = 0 if value is None else value.assignment_epoch
        group.assignment_ms = 0 if value is None else value.assignment_timestamp
    elif isinstance(key, ConsumerGroupMemberMetadataKey):
        if value is None:
            group.member_gone(key.member_id)
        else:
            group.member_changed(key.member_id, subscription_of(value))
    elif isinstance(key, ConsumerGroupMetadataKey):
        if value is not None:
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(key, ConsumerGroupRegularExpressionKey):
        resolved = value and ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        group.resolved_as(key.regular_expression, resolved)
    elif isinstance(key, ConsumerGroupPartitionMetadataKey):
        group.has_old_metadata = value is not None
