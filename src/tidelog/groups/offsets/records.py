"""The records of committed offsets: their tombstones, and how they change the state.  Pure."""

from __future__ import annotations

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue


def replay_offset(
    machine: GroupStateMachine, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
) -> None:
    if value is not None and key.group not in machine.groups:
        # A consumer that assigns its partitions itself: the group only holds offsets.
        machine.groups[key.group] = ClassicGroup(key.group)
    machine.offsets.replay(key, value, producer_id)


def replay_legacy_offset(
    machine: GroupStateMachine,
    key: LegacyOffsetCommitKey,
    value: LegacyOffsetCommitValue | None,
    producer_id: int,
) -> None:
    """Records in the format of very old brokers."""
    now = None
    if value is not None:
        now = OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    replay_offset(machine, OffsetCommitKey(key.group, key.topic, key.partition), now, producer_id)


def tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group, topic, partition), None)
