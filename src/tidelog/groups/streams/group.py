"""A streams group (KIP-1071): its topology, its members, the target assignment, and each member's current tasks.

The epochs are those of a consumer group.  All state but the soft state at the end of `__init__` is in records.
Pure.  `heartbeat` decides, `coordinator` and `driver` drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import replayed_group
from tidelog.groups.group import STREAMS, CheckPartition
from tidelog.groups.streams.internal_topics import ConfiguredTopology
from tidelog.groups.streams.member import (
    LEFT_EPOCH,
    NO_EPOCHS,
    NO_TOPOLOGY,
    StreamsMember,
    current_tasks_of,
    description_of,
    gone_entries,
)
from tidelog.groups.streams.tasks import (
    NOTHING_ASSIGNED,
    TaskAssignment,
    by_subtopology,
    tasks_of,
)
from tidelog.groups.streams.topology import StreamsTopology
from tidelog.wire.messages.streams_group_current_member_assignment_record import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from tidelog.wire.messages.streams_group_member_metadata_record import StreamsGroupMemberMetadataKey
from tidelog.wire.messages.streams_group_metadata_record import (
    LastAssignmentConfig,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from tidelog.wire.messages.streams_group_target_assignment_member_record import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)
from tidelog.wire.messages.streams_group_target_assignment_metadata_record import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from tidelog.wire.messages.streams_group_topology_record import StreamsGroupTopologyKey

if TYPE_CHECKING:
    from tidelog.groups.state_machine import GroupStateMachine, Replay

EMPTY, NOT_READY, ASSIGNING = "Empty", "NotReady", "Assigning"
RECONCILING, STABLE = "Reconciling", "Stable"
FIRST_EPOCH = 1  # not 0: member epoch 0 means that the member joins
OFFSET_COMMIT_WITH_EPOCHS = 9


class StreamsGroup:
    kind = STREAMS
    protocol_type = "streams"
    expires = True

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_epoch = NO_TOPOLOGY  # the topology's epoch, if its topics were there and right
        self.last_configs: dict[str, str] = {}  # what the target depends on besides the members
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, TaskAssignment] = {}
        self.topology: StreamsTopology | None = None
        # In no record:
        self.configured: ConfiguredTopology | None = None
        self.seen: object = None  # the topics of the metadata that `configured` was worked out from
        self.creation_problems: tuple[str, ...] = ()  # why internal topics could not be created
        self.endpoints_epoch = 0  # grows when members of the application have other tasks
        self.shutdown_by: str | None = None  # the member that asked the whole application to stop

    def __repr__(self) -> str:
        return (
            f"StreamsGroup({self.id!r}, {self.state_name}, epoch {self.epoch}, {len(self.members)} members)"
        )

    # As a Group

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return NOT_READY
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
        if not transactional and version < OFFSET_COMMIT_WITH_EPOCHS:
            raise errors.UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the streams group protocol"
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise errors.StaleMemberEpoch(
                f"epoch {epoch} is ahead of {member.epoch}, that of member {member_id}"
            )

        def check(topic: str, topic_id: UUID, partition: int) -> None:
            topology = self.topology
            subtopology = None if topology is None else topology.subtopology_of_source.get(topic)
            if subtopology is None:
                raise errors.StaleMemberEpoch(f"topic {topic} is not in the topology of group {self.id}")
            since = member.since.get((subtopology, partition))
            if since is None:
                raise errors.StaleMemberEpoch(
                    f"task {subtopology}_{partition} is not assigned to member {member_id}"
                )
            if epoch < since:
                raise errors.StaleMemberEpoch(
                    f"task {subtopology}_{partition} was assigned at epoch {since}, after {epoch}"
                )

        return check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise errors.StaleMemberEpoch(f"member {member_id} is at epoch {member.epoch}, not {epoch}")

    def check_offset_delete(self) -> None:
        """Always allowed: the caller checks the subscription of each topic."""

    def check_delete(self) -> None:
        if self.members:
            raise errors.NonEmptyGroup(f"group {self.id} has members: stop them before deleting the group")

    def tombstones(self) -> list[CoordinatorRecord]:
        members = [entry for member in self.members for entry in gone_entries(self.id, member)]
        return [
            *members,
            CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(self.id), None),
            CoordinatorRecord(StreamsGroupTopologyKey(self.id), None),
            CoordinatorRecord(StreamsGroupMetadataKey(self.id), None),
        ]

    def is_subscribed(self, topic: str) -> bool:
        return (
            bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of_source
        )

    def expires_from(self, commit_ms: int) -> int | None:
        return commit_ms

    # Members

    def member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def target(self, member_id: str) -> TaskAssignment:
        return self.targets.get(member_id, NOTHING_ASSIGNED)

    # Applying records

    def member_changed(self, member_id: str, fields: Mapping[str, Any]) -> None:
        member = self.members.get(member_id, StreamsMember(member_id))
        self.members[member_id] = replace(member, **fields)

    def member_gone(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def view(self) -> tuple[object, ...]:
        """All state that is in records, for comparisons in tests."""
        return (
            (self.epoch, self.metadata_hash, self.validated_epoch, self.last_configs),
            (self.assignment_epoch, self.assignment_ms),
            self.members,
            self.targets,
            self.topology,
        )


# Records


def streams_epoch_entry(
    group: str, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=[
                LastAssignmentConfig(key, value) for key, value in sorted(configs.items())
            ],
        ),
    )


def streams_target_entry(group: str, member: str, target: TaskAssignment) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group, member),
        StreamsGroupTargetAssignmentMemberValue(
            *([TaskIds(*ids) for ids in by_subtopology(tasks)] for tasks in target)
        ),
    )


def streams_target_epoch_entry(group: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMetadataKey(group),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms),
    )


# Replays


def _replay_streams_record(machine: GroupStateMachine, key: Any, value: Any, producer_id: int) -> None:
    group = replayed_group(machine, key.group_id, value, StreamsGroup)
    if group is not None:
        take_streams_record(group, key, value)
        if value is None and isinstance(key, StreamsGroupMetadataKey):
            del machine.groups[group.id]


def take_streams_record(group: StreamsGroup, key: Any, value: Any) -> None:
    if isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
        if value is not None:
            group.member_changed(key.member_id, current_tasks_of(value))
        elif key.member_id in group.members:
            left = {"epoch": LEFT_EPOCH, "previous_epoch": LEFT_EPOCH, "since": NO_EPOCHS}
            group.member_changed(
                key.member_id, {**left, "assigned": NOTHING_ASSIGNED, "revoking": NOTHING_ASSIGNED}
            )
    elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            roles = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
            group.targets[key.member_id] = TaskAssignment(*(tasks_of(role) for role in roles))
    elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
        group.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        group.assignment_ms = 0 if value is None else value.assignment_timestamp
    elif isinstance(key, StreamsGroupMemberMetadataKey):
        if value is None:
            group.member_gone(key.member_id)
        else:
            group.member_changed(key.member_id, description_of(value))
    elif isinstance(key, StreamsGroupTopologyKey):
        group.topology = None if value is None else StreamsTopology(value)
        group.configured = None
    elif isinstance(key, StreamsGroupMetadataKey) and value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_epoch = value.validated_topology_epoch
        group.last_configs = {config.key: config.value for config in value.last_assignment_configs or ()}


STREAMS_REPLAYS: dict[type, Replay] = dict.fromkeys(
    (
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTopologyKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
    ),
    _replay_streams_record,
)
