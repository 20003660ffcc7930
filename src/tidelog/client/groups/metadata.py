"""Offsets and identities of group members, as producers and consumers exchange them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client import checks
from tidelog.types import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset of the next record to read, and a note of your own."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """The committer of offsets: a member of the group in its generation, or the whole group when there is no member
    id."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


def with_metadata(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    by_partition = {}
    for partition, offset in offsets.items():
        with_note = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        checks.whole(f"the offset of {TopicPartition(*partition)}", with_note.offset, 0)
        by_partition[TopicPartition(*partition)] = with_note
    return by_partition
