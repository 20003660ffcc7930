"""A share group (KIP-932): its members, their assignments, and the partitions that the share coordinator keeps state for.

All state is in records: members continue after a restart.  Pure.  `heartbeat` decides what a heartbeat changes;
`coordinator` drives the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.group import SHARE, CheckPartition
from tidelog.groups.share.assignor import Assignment, TopicPartition
from tidelog.wire.messages.share_group_current_member_assignment_record import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from tidelog.wire.messages.share_group_member_metadata_record import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from tidelog.wire.messages.share_group_metadata_record import ShareGroupMetadataKey, ShareGroupMetadataValue
from tidelog.wire.messages.share_group_state_partition_metadata_record import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from tidelog.wire.messages.share_group_target_assignment_member_record import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from tidelog.wire.messages.share_group_target_assignment_metadata_record import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from tidelog.groups.state_machine import GroupStateMachine, Replay

EMPTY, STABLE = "Empty", "Stable"


class ShareMember(NamedTuple):
    id: str
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[TopicPartition] = frozenset()


class StatePartitions(NamedTuple):
    """Partitions of a topic that the share coordinator keeps state for."""

    name: str
    partitions: frozenset[int]


class ShareGroup:
    kind = SHARE
    protocol_type = "share"

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0  # when the target assignment was made
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.initializing: dict[UUID, StatePartitions] = {}
        self.initialized: dict[UUID, StatePartitions] = {}
        self.deleting: dict[UUID, str] = {}
        self.checked_revision = -1  # of the metadata that `metadata_hash` was last compared with

    def __repr__(self) -> str:
        return f"ShareGroup({self.id!r}, epoch {self.epoch}, {len(self.members)} members)"

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the members subscribe to."""
        return frozenset().union(*(member.topics for member in self.members.values()))

    # As a Group

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> CheckPartition | None:
        raise errors.GroupIdNotFound(f"{self.id} is a share group: it has no offsets to commit")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        raise errors.GroupIdNotFound(f"{self.id} is a share group: it has no committed offsets")

    def check_offset_delete(self) -> None:
        raise errors.GroupIdNotFound(f"{self.id} is a share group: it has no committed offsets")

    def check_delete(self) -> None:
        if self.members:
            raise errors.NonEmptyGroup(f"share group {self.id} has members: stop them first")

    def tombstones(self) -> list[CoordinatorRecord]:
        entries = [entry for member in self.members for entry in member_tombstones(self.id, member)]
        return [
            *entries,
            CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(self.id), None),
            CoordinatorRecord(ShareGroupStatePartitionMetadataKey(self.id), None),
            CoordinatorRecord(ShareGroupMetadataKey(self.id), None),
        ]

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics

    def expires_from(self, commit_ms: int) -> int | None:
        return None  # there are no offsets

    @property
    def expires(self) -> bool:
        return False  # its state is kept for as long as the group is


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def share_group(machine: GroupStateMachine, group_id: str) -> ShareGroup:
    """The share group of this id; raises GroupIdNotFound if there is none."""
    group = machine.groups.get(group_id)
    if group is None:
        raise errors.GroupIdNotFound(f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise errors.GroupIdNotFound(f"{group_id} is a {group.kind} group, not a share group")
    return group


# Replaying


def _group(machine: GroupStateMachine, group_id: str, value: object) -> ShareGroup | None:
    group = machine.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if value is None:
        return None
    group = machine.groups[group_id] = ShareGroup(group_id)
    return group


def _replay_metadata(
    machine: GroupStateMachine, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None, _: int
) -> None:
    group = _group(machine, key.group_id, value)
    if group is None:
        return
    if value is None:
        del machine.groups[key.group_id]
    else:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_member(
    machine: GroupStateMachine,
    key: ShareGroupMemberMetadataKey,
    value: ShareGroupMemberMetadataValue | None,
    _: int,
) -> None:
    group = _group(machine, key.group_id, value)
    if group is None:
        return
    if value is None:
        group.members.pop(key.member_id, None)
        return
    member = group.members.get(key.member_id, ShareMember(key.member_id))
    group.members[key.member_id] = member._replace(
        rack=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
    )


def _replay_target_metadata(
    machine: GroupStateMachine,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
    _: int,
) -> None:
    group = _group(machine, key.group_id, value)
    if group is not None:
        group.assignment_epoch = 0 if value is None else value.assignment_epoch
        group.assigned_ms = 0 if value is None else value.assignment_timestamp


def _replay_target(
    machine: GroupStateMachine,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
    _: int,
) -> None:
    group = _group(machine, key.group_id, value)
    if group is None:
        return
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {
            topic.topic_id: list(topic.partitions) for topic in value.topic_partitions
        }


def _replay_current(
    machine: GroupStateMachine,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
    _: int,
) -> None:
    group = _group(machine, key.group_id, value)
    if group is None:
        return
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.members[key.member_id] = member._replace(epoch=-1, previous_epoch=-1, assigned=frozenset())
        return
    member = member or ShareMember(key.member_id)
    group.members[key.member_id] = member._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=frozenset(
            (topic.topic_id, index) for topic in value.assigned_partitions for index in topic.partitions
        ),
    )


def _replay_kept(
    machine: GroupStateMachine,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
    _: int,
) -> None:
    group = _group(machine, key.group_id, value)
    if group is None:
        return
    value = value or ShareGroupStatePartitionMetadataValue()
    group.initializing = {
        topic.topic_id: StatePartitions(topic.topic_name, frozenset(topic.partitions))
        for topic in value.initializing_topics
    }
    group.initialized = {
        topic.topic_id: StatePartitions(topic.topic_name, frozenset(topic.partitions))
        for topic in value.initialized_topics
    }
    group.deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}


SHARE_REPLAYS: dict[type, Replay] = {
    ShareGroupMetadataKey: _replay_metadata,
    ShareGroupMemberMetadataKey: _replay_member,
    ShareGroupTargetAssignmentMetadataKey: _replay_target_metadata,
    ShareGroupTargetAssignmentMemberKey: _replay_target,
    ShareGroupCurrentMemberAssignmentKey: _replay_current,
    ShareGroupStatePartitionMetadataKey: _replay_kept,
}
