"""One member of a consumer group: its subscription, and its current assignment.

Immutable: a change makes a new member.  Two records hold it, as in Kafka: one for the subscription, one for the current
assignment.  Pure; `ConsumerGroup` owns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.member import Protocols
from tidelog.groups.consumer.assignors import Partitions
from tidelog.wire.messages.consumer_group_current_member_assignment_record import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from tidelog.wire.messages.consumer_group_member_metadata_record import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)

Owned = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the member epoch at which it was assigned."""

JOINING_EPOCH = 0
LEFT_EPOCH = -1
STATIC_LEFT_EPOCH = -2  # a static member that has left and may come back

NOTHING: Owned = {}


class MemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 0
    UNREVOKED = 1  # the member must revoke partitions, and has not confirmed that yet
    UNRELEASED = 2  # the member waits for partitions of its epoch that other members have not revoked
    UNKNOWN = 127  # written by a newer broker


class ClassicTraits(NamedTuple):
    """Data of a member that still uses the classic protocol, while the group migrates."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicTraits | None = None
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=lambda: NOTHING)
    revoking: Owned = field(default_factory=lambda: NOTHING)

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """True if the member owns exactly what it was assigned at this epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def owns(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch at which the member got the partition; None if it does not own the partition."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    # Records

    def subscription_entry(self, group: str) -> CoordinatorRecord:
        classic = None
        if self.classic is not None:
            classic = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.classic.protocols
                ],
            )
        return CoordinatorRecord(
            ConsumerGroupMemberMetadataKey(group, self.id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=sorted(self.topics),
                subscribed_topic_regex=self.regex,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.assignor,
                classic_member_metadata=classic,
            ),
        )

    def assignment_entry(self, group: str) -> CoordinatorRecord:
        return CoordinatorRecord(
            ConsumerGroupCurrentMemberAssignmentKey(group, self.id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                assigned_partitions=_stored(self.assigned),
                partitions_pending_revocation=_stored(self.revoking),
            ),
        )


def subscription_of(value: ConsumerGroupMemberMetadataValue) -> dict[str, object]:
    """The fields of a ConsumerMember that ConsumerGroupMemberMetadata holds."""
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topics": frozenset(value.subscribed_topic_names),
        "regex": value.subscribed_topic_regex or "",
        "assignor": value.server_assignor,
        "classic": None
        if classic is None
        else ClassicTraits(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    }


def assignment_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> dict[str, object]:
    """The fields of a ConsumerMember that ConsumerGroupCurrentMemberAssignment holds."""
    is_known = value.state in MemberState.__members__.values()
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": MemberState(value.state) if is_known else MemberState.UNKNOWN,
        "assigned": _owned(value.assigned_partitions, value.member_epoch),
        "revoking": _owned(value.partitions_pending_revocation, value.member_epoch),
    }


def without_epochs(owned: Owned) -> Partitions:
    return {topic: frozenset(partitions) for topic, partitions in owned.items()}


def at_epoch(partitions: Partitions, epoch: int) -> Owned:
    return {topic: dict.fromkeys(sorted(some), epoch) for topic, some in partitions.items()}


def _stored(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic, partitions=list(partitions), assignment_epochs=list(partitions.values())
        )
        for topic, partitions in owned.items()
    ]


def _owned(stored: list[TopicPartitions], member_epoch: int) -> Owned:
    """Brokers before Kafka 4.3 wrote no epoch for each partition."""
    owned: dict[UUID, dict[int, int]] = {}
    for topic in stored:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            owned[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
    return owned
