"""Committed offsets as records: what they are written as, and what they do to the state.  Pure."""

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
        # A consumer that assigns itself its partitions: the group is there for its offsets only.
        machine.groups[key.group] = ClassicGroup(key.group)
    machine.offsets.replay(key, value, producer_id)


def replay_legacy_offset(
    machine: GroupStateMachine,
    key: LegacyOffsetCommitKey,
    value: LegacyOffsetCommitValue | None,
    producer_id: int,
) -> None:
    """As brokers of a distant past wrote them."""
    now = None
    if value is not None:
        now = OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    replay_offset(machine, OffsetCommitKey(key.group, key.topic, key.partition), now, producer_id)


def tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group, topic, partition), None)
