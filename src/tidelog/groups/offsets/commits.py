"""Committing, fetching, deleting and expiring offsets: the decisions, in the order of Kafka's checks.

Facts in (the shard's state, what is asked), entries or answers out.  Pure; `coordinator` performs them."""

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


class OffsetCommitter(NamedTuple):
    """Who commits; `epoch` is the generation of a classic member, the epoch of a consumer group's."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    version: int


class CommitLimits(NamedTuple):
    now_ms: int
    metadata_max: int
    retention_ms: int = -1  # of this request; -1: as the broker's setting says


def commit(
    machine: GroupStateMachine, who: OffsetCommitter, commits: Sequence[OffsetCommit], limits: CommitLimits
) -> tuple[list[CoordinatorRecord], list[int]]:
    """(what to write, an error code for each); raises what is wrong with all of them."""
    group = machine.groups.get(who.group_id)
    check = None
    if group is None:
        if who.epoch >= 0:
            if who.version >= GROUP_NOT_FOUND_FROM:
                raise errors.GroupIdNotFound(f"there is no group {who.group_id}")
            raise errors.IllegalGeneration(f"there is no group {who.group_id}")
    else:
        check = group.check_commit(who.member_id, who.instance_id, who.epoch, False, who.version)
    expire_ms = NEVER if limits.retention_ms == -1 else limits.now_ms + limits.retention_ms
    entries, codes = [], []
    for one in commits:
        if one.metadata is not None and len(one.metadata) > limits.metadata_max:
            codes.append(errors.OffsetMetadataTooLarge.code)
            continue
        if check is not None:
            check(one.topic, one.topic_id, one.partition)
        codes.append(errors.NONE)
        entries.append(entry_of(who.group_id, one, limits.now_ms, expire_ms))
    return entries, codes


def commit_transactional(
    machine: GroupStateMachine, who: OffsetCommitter, commits: Sequence[OffsetCommit], limits: CommitLimits
) -> tuple[list[CoordinatorRecord], list[int]]:
    """The same for TxnOffsetCommit: what it writes counts when the transaction is committed."""
    group = machine.groups.get(who.group_id)
    check = None
    try:
        if group is not None:
            check = group.check_commit(who.member_id, who.instance_id, who.epoch, True, who.version)
        elif who.epoch >= 0:
            raise errors.IllegalGeneration(f"there is no group {who.group_id}")
        entries, codes = [], []
        for one in commits:
            if one.metadata is not None and len(one.metadata) > limits.metadata_max:
                codes.append(errors.OffsetMetadataTooLarge.code)
                continue
            if check is not None:
                if one.topic_id == NO_TOPIC_ID:
                    raise errors.IllegalGeneration(f"topic {one.topic} is not there any more")
                check(one.topic, one.topic_id, one.partition)
            codes.append(errors.NONE)
            entries.append(entry_of(who.group_id, one, limits.now_ms, NEVER))
    except errors.StaleMemberEpoch as problem:
        # Producers know only generations.
        raise errors.IllegalGeneration(str(problem)) from None
    return entries, codes


def entry_of(group_id: str, one: OffsetCommit, now_ms: int, expire_ms: int) -> CoordinatorRecord:
    # The version that carries a time of expiry carries neither epochs nor topic ids.
    kept = expire_ms == NEVER
    return CoordinatorRecord(
        OffsetCommitKey(group_id, one.topic, one.partition),
        OffsetCommitValue(
            one.offset,
            one.leader_epoch if kept else -1,
            one.metadata or "",
            now_ms,
            expire_ms,
            one.topic_id if kept else NO_TOPIC_ID,
        ),
    )


# Reading


class FetchedOffset(NamedTuple):
    """`committed` None: no offset."""

    committed: CommittedOffset | None
    error_code: int = errors.NONE


def readable(machine: GroupStateMachine, group_id: str, member_id: str | None, epoch: int) -> bool:
    """False when there is no such group, which has no offsets then; raises when this member may not ask."""
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
    """`present`: the id of the topic that has this name now, None without one.  `stable`: an offset that an open
    transaction may replace is not told."""
    if stable and machine.offsets.is_pending(group_id, topic, partition):
        return FetchedOffset(None, errors.UnstableOffsetCommit.code)
    committed = machine.offsets.get(group_id, topic, partition)
    return FetchedOffset(committed if committed is not None and is_of(committed, present) else None)


def is_of(committed: CommittedOffset, present: UUID | None) -> bool:
    """Was it committed for the topic that has the name now?  A record without an id (an older broker's, or one with a time
    of expiry) cannot tell: it counts until a deletion of the topic is seen."""
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
    """Every offset of the group, those of open transactions too."""
    places = {**machine.offsets.of(group_id), **dict.fromkeys(machine.offsets.pending(group_id))}
    return [tombstone(group_id, topic, partition) for topic, partition in places]


def of_deleted_topics(machine: GroupStateMachine, deleted: dict[str, UUID]) -> list[CoordinatorRecord]:
    """`deleted`: the ids that the topics of these names had."""
    return [
        tombstone(group_id, topic, partition)
        for group_id, topic, partition, known in _all(machine)
        if topic in deleted and known.topic_id in (NO_TOPIC_ID, deleted[topic])
    ]


def of_replaced_topics(
    machine: GroupStateMachine, present: Callable[[str], UUID | None]
) -> list[CoordinatorRecord]:
    """Offsets whose topic was deleted and made anew while nobody had this state loaded.  Those of a name that no topic has
    are not told either, but stay until they expire: metadata that is behind is no reason to delete them."""
    return [
        tombstone(group_id, topic, partition)
        for group_id, topic, partition, known in _all(machine)
        if not is_of(known, present(topic)) and present(topic) is not None
    ]


def _all(machine: GroupStateMachine) -> Iterator[tuple[str, str, int, CommittedOffset]]:
    for group_id in machine.offsets.groups():
        for (topic, partition), known in machine.offsets.of(group_id).items():
            yield group_id, topic, partition, known
    yield from machine.offsets.all_pending()


def expired(
    machine: GroupStateMachine, group: Group, now_ms: int, retention_ms: int
) -> list[CoordinatorRecord]:
    """The offsets of a group that were kept long enough; the group itself, when nothing is left of it."""
    entries = []
    offsets = machine.offsets
    left = bool(offsets.pending(group.id))
    for (topic, partition), known in offsets.of(group.id).items():
        base_ms = group.expires_from(known.commit_ms)
        if base_ms is None:
            return []
        old = now_ms >= known.expire_ms if known.expire_ms != NEVER else now_ms - base_ms >= retention_ms
        if not old or group.is_subscribed(topic) or offsets.is_pending(group.id, topic, partition):
            left = True
        else:
            entries.append(tombstone(group.id, topic, partition))
    if not left and group.is_empty and group.expires:
        entries += group.tombstones()
    return entries
