"""Decisions about committed offsets: commit, fetch, delete, expire.  The checks come in Kafka's order.

The shard's state and a request go in, records or answers come out.  Pure; `coordinator` performs the decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.group import Group
from tidelog.groups.offsets.committed import NEVER, NO_TOPIC_ID, CommittedOffset
from tidelog.groups.offsets.records import tombstone
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

GROUP_NOT_FOUND_FROM = 9  # OffsetCommit's version


class OffsetCommit(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommittingMember(NamedTuple):
    """The member that commits; `epoch` is the generation of a classic member, or the epoch of a consumer group's."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    version: int


class CommitLimits(NamedTuple):
    now_ms: int
    metadata_max: int
    retention_ms: int = -1  # of this request; -1: the broker's setting


def commit(
    machine: GroupStateMachine,
    committer: CommittingMember,
    commits: Sequence[OffsetCommit],
    limits: CommitLimits,
) -> tuple[list[CoordinatorRecord], list[int]]:
    """(records to write, an error code for each offset); raises an error that concerns the whole request."""
    group = machine.groups.get(committer.group_id)
    check = None
    if group is None:
        if committer.epoch >= 0:
            if committer.version >= GROUP_NOT_FOUND_FROM:
                raise errors.GroupIdNotFound(f"Group {committer.group_id} not found.")
            raise errors.IllegalGeneration(f"there is no group {committer.group_id}")
    else:
        check = group.check_commit(
            committer.member_id, committer.instance_id, committer.epoch, False, committer.version
        )
    expire_ms = NEVER if limits.retention_ms == -1 else limits.now_ms + limits.retention_ms
    entries, codes = [], []
    for offset in commits:
        if offset.metadata is not None and len(offset.metadata) > limits.metadata_max:
            codes.append(errors.OffsetMetadataTooLarge.code)
            continue
        if check is not None:
            check(offset.topic, offset.topic_id, offset.partition)
        codes.append(errors.NONE)
        entries.append(entry_of(committer.group_id, offset, limits.now_ms, expire_ms))
    return entries, codes


def commit_transactional(
    machine: GroupStateMachine,
    committer: CommittingMember,
    commits: Sequence[OffsetCommit],
    limits: CommitLimits,
) -> tuple[list[CoordinatorRecord], list[int]]:
    """As `commit`, for TxnOffsetCommit: the offsets take effect when the transaction is committed."""
    group = machine.groups.get(committer.group_id)
    check = None
    try:
        if group is not None:
            check = group.check_commit(
                committer.member_id, committer.instance_id, committer.epoch, True, committer.version
            )
        elif committer.epoch >= 0:
            raise errors.IllegalGeneration(f"there is no group {committer.group_id}")
        entries, codes = [], []
        for offset in commits:
            if offset.metadata is not None and len(offset.metadata) > limits.metadata_max:
                codes.append(errors.OffsetMetadataTooLarge.code)
                continue
            if check is not None:
                if offset.topic_id == NO_TOPIC_ID:
                    raise errors.IllegalGeneration(f"topic {offset.topic} does not exist any more")
                check(offset.topic, offset.topic_id, offset.partition)
            codes.append(errors.NONE)
            entries.append(entry_of(committer.group_id, offset, limits.now_ms, NEVER))
    except errors.StaleMemberEpoch as problem:
        # Producers only handle IllegalGeneration.
        raise errors.IllegalGeneration(str(problem)) from None
    return entries, codes


def entry_of(group_id: str, commit: OffsetCommit, now_ms: int, expire_ms: int) -> CoordinatorRecord:
    # The record version that holds an expiry time holds neither leader epochs nor topic ids.
    kept = expire_ms == NEVER
    return CoordinatorRecord(
        OffsetCommitKey(group_id, commit.topic, commit.partition),
        OffsetCommitValue(
            commit.offset,
            commit.leader_epoch if kept else -1,
            commit.metadata or "",
            now_ms,
            expire_ms,
            commit.topic_id if kept else NO_TOPIC_ID,
        ),
    )


# Reading


class FetchedOffset(NamedTuple):
    """The answer for one partition; `committed` None: the group has no offset there."""

    committed: CommittedOffset | None
    error_code: int = errors.NONE


def readable(machine: GroupStateMachine, group_id: str, member_id: str | None, epoch: int) -> bool:
    """False if the group does not exist, and so has no offsets; raises if this member may not fetch offsets."""
    group = machine.groups.get(group_id)
    if group is None:
        return False
    try:
        group.check_fetch(member_id, epoch)
    except errors.GroupIdNotFound:
        return False
    return True


def find(
    machine: GroupStateMachine, group_id: str, topic: str, present: UUID | None, partition: int, stable: bool
) -> FetchedOffset:
    """`present`: the present id of the topic of this name, None if there is no such topic.  `stable`: an offset that an
    open transaction may replace gets UNSTABLE_OFFSET_COMMIT."""
    if stable and machine.offsets.is_pending(group_id, topic, partition):
        return FetchedOffset(None, errors.UnstableOffsetCommit.code)
    committed = machine.offsets.get(group_id, topic, partition)
    return FetchedOffset(committed if committed is not None and is_of(committed, present) else None)


def is_of(committed: CommittedOffset, present: UUID | None) -> bool:
    """True if the offset was committed for the topic that has this name now.  A record without a topic id (written by an
    older broker, or with an expiry time) counts until the topic's deletion is seen."""
    return committed.topic_id in (NO_TOPIC_ID, present)


# Deleting


def delete(
    machine: GroupStateMachine, group: Group, places: Iterable[tuple[str, int]]
) -> tuple[list[CoordinatorRecord], list[int]]:
    group.check_offset_delete()
    entries, codes = [], []
    for topic, partition in places:
        if group.is_subscribed(topic):
            codes.append(errors.GroupSubscribedToTopic.code)
            continue
        codes.append(errors.NONE)
        offsets = machine.offsets
        if offsets.get(group.id, topic, partition) or offsets.is_pending(group.id, topic, partition):
            entries.append(tombstone(group.id, topic, partition))
    return entries, codes


def delete_all(machine: GroupStateMachine, group_id: str) -> list[CoordinatorRecord]:
    """Tombstones of all offsets of the group, including those of open transactions."""
    places = {**machine.offsets.of(group_id), **dict.fromkeys(machine.offsets.pending(group_id))}
    return [tombstone(group_id, topic, partition) for topic, partition in places]


def of_deleted_topics(machine: GroupStateMachine, deleted: dict[str, UUID]) -> list[CoordinatorRecord]:
    """Tombstones of the offsets of deleted topics; `deleted` has their ids by name."""
    return [
        tombstone(group_id, topic, partition)
        for group_id, topic, partition, committed in _all(machine)
        if topic in deleted and committed.topic_id in (NO_TOPIC_ID, deleted[topic])
    ]


def of_replaced_topics(
    machine: GroupStateMachine, present: Callable[[str], UUID | None]
) -> list[CoordinatorRecord]:
    """Tombstones of offsets whose topic was deleted and recreated while no broker had this state loaded.  Offsets of
    topics that do not exist stay until they expire, because this broker's metadata may be behind."""
    return [
        tombstone(group_id, topic, partition)
        for group_id, topic, partition, committed in _all(machine)
        if not is_of(committed, present(topic)) and present(topic) is not None
    ]


def _all(machine: GroupStateMachine) -> Iterator[tuple[str, str, int, CommittedOffset]]:
    for group_id in machine.offsets.groups():
        for (topic, partition), committed in machine.offsets.of(group_id).items():
            yield group_id, topic, partition, committed
    yield from machine.offsets.all_pending()


def expired(
    machine: GroupStateMachine, group: Group, now_ms: int, retention_ms: int
) -> list[CoordinatorRecord]:
    """Tombstones of the group's expired offsets, and of the group itself if nothing is left of it."""
    entries = []
    offsets = machine.offsets
    left = bool(offsets.pending(group.id))
    for (topic, partition), committed in offsets.of(group.id).items():
        base_ms = group.expires_from(committed.commit_ms)
        if base_ms is None:
            return []
        old = (
            now_ms >= committed.expire_ms
            if committed.expire_ms != NEVER
            else now_ms - base_ms >= retention_ms
        )
        if not old or group.is_subscribed(topic) or offsets.is_pending(group.id, topic, partition):
            left = True
        else:
            entries.append(tombstone(group.id, topic, partition))
    if not left and group.is_empty and group.expires:
        entries += group.tombstones()
    return entries
