"""Replay: the table of functions that apply the records of `__consumer_offsets` to the state, by key type.  Pure.

Each type of group adds its rows; a record without a row is ignored."""

from __future__ import annotations

from tidelog.groups.classic.group import replay_group
from tidelog.groups.consumer.group import CONSUMER_RECORDS, replay_consumer_record
from tidelog.groups.offsets.records import replay_legacy_offset, replay_offset
from tidelog.groups.share.group import SHARE_REPLAYS
from tidelog.groups.state_machine import GroupStateMachine, Replay
from tidelog.groups.streams.group import STREAMS_REPLAYS
from tidelog.wire.messages.group_metadata_record import GroupMetadataKey
from tidelog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey

REPLAYS: dict[type, Replay] = {
    LegacyOffsetCommitKey: replay_legacy_offset,
    OffsetCommitKey: replay_offset,
    GroupMetadataKey: replay_group,
    **SHARE_REPLAYS,
    **STREAMS_REPLAYS,
    **dict.fromkeys(CONSUMER_RECORDS, replay_consumer_record),
}


def new_machine() -> GroupStateMachine:
    return GroupStateMachine(REPLAYS)
