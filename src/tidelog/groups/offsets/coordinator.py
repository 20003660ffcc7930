"""The driver of committed offsets of all group types: performs what `commits` decides, and expires old offsets."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog._speed.log.commits import offsets_batch
from tidelog.coordination.records import CoordinatorRecord
from tidelog.coordination.shard import Shard, Writer
from tidelog.groups.classic.coordinator import ClassicGroups
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.coordinator import Groups
from tidelog.groups.offsets import commits
from tidelog.groups.offsets.commits import CommitLimits, CommittingMember, FetchedOffset, OffsetCommit
from tidelog.groups.offsets.committed import CommittedOffset, Partition, Place
from tidelog.groups.offsets.records import tombstone
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import TopicImage

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupStateMachine]
Topics = Sequence[tuple[TopicImage, list[Partition]]]
ENTRIES_MAX = 1000  # deleted in one batch
_MINUTE_MS = 60_000
_EXPIRY = ("offsets", "expiry")
_NOTHING = tombstone("", "", 0)  # a record without effect: no group has an empty id


class PendingCommit(NamedTuple):
    """An error code for each offset; if `wait` is not None, it must complete before the answer is sent."""

    codes: list[int]
    wait: Awaitable[None] | None


_AT_ONCE = PendingCommit([], None)


class OffsetCoordinator:
    def __init__(self, groups: Groups, classic: ClassicGroups) -> None:
        self._groups = groups
        self._classic = classic
        groups.coordinator.opened.append(self._opened)
        groups.updated.append(self._updated)

    def start(self) -> None:
        """Starts the timer that expires offsets every `offsets.retention.check.interval.ms`."""
        after_ms = self._groups.config.offsets_retention_check_interval_ms
        self._groups.timers.set(_EXPIRY, after_ms, self._check_expiry)

    # Requests

    def commit(
        self, committer: CommittingMember, to_commit: Sequence[OffsetCommit], retention_ms: int
    ) -> PendingCommit:
        """OffsetCommit; raises an error that concerns the whole request.  The caller awaits `wait` before it answers."""
        shard = self._groups.shard(committer.group_id)
        config = self._groups.config
        limits = CommitLimits(self._groups.clock.now_ms(), config.offset_metadata_max_bytes, retention_ms)
        entries, codes = commits.commit(shard.machine, committer, to_commit, limits)
        appended = shard.append(entries)
        group = shard.machine.groups.get(committer.group_id)
        if isinstance(group, ClassicGroup):
            self._classic.committed(shard, group, committer.member_id)
        if shard.is_settled if appended is None else shard.is_committed(appended):
            return PendingCommit(codes, None)
        return PendingCommit(codes, shard.committed(appended, config.offsets_commit_timeout_ms))

    def commit_at_once(self, committer: CommittingMember, topics: Topics) -> PendingCommit | None:
        """As `commit`, for the common case: an existing group, and a member with its current epoch.  None if nothing was
        done, and the caller must use `commit`."""
        groups = self._groups
        try:
            shard = groups.shard(committer.group_id)
            group = shard.machine.groups.get(committer.group_id)
            if group is None or group.check_commit(
                committer.member_id, committer.instance_id, committer.epoch, False, committer.version
            ):
                return None
            now_ms = groups.clock.now_ms()
            records = [(topic.name, topic.id.bytes, partitions) for topic, partitions in topics]
            appended = shard.append_batch(offsets_batch(committer.group_id, records, now_ms))
        except errors.TidelogError:
            return None
        for topic, partitions in topics:
            shard.machine.offsets.committed(committer.group_id, topic.name, topic.id, partitions, now_ms)
        if isinstance(group, ClassicGroup):
            self._classic.committed(shard, group, committer.member_id)
        if shard.is_committed(appended):
            return _AT_ONCE
        return PendingCommit([], shard.committed(appended, groups.config.offsets_commit_timeout_ms))

    async def commit_transactional(
        self, committer: CommittingMember, to_commit: Sequence[OffsetCommit], writer: Writer
    ) -> list[int]:
        """TxnOffsetCommit, after the caller has checked that this group's partition is part of the transaction: the
        offsets take effect when the transaction is committed.  Returns an error code for each; raises an error that
        concerns the whole request."""
        if not committer.group_id:
            raise errors.InvalidGroupId("the group id is empty")
        shard = self._groups.shard(committer.group_id)
        config = self._groups.config
        limits = CommitLimits(self._groups.clock.now_ms(), config.offset_metadata_max_bytes)
        entries, codes = commits.commit_transactional(shard.machine, committer, to_commit, limits)
        appended = shard.append(entries, writer)
        await shard.committed(appended, config.offsets_commit_timeout_ms)
        return codes

    async def fetch(
        self,
        group_id: str,
        member_id: str | None,
        epoch: int,
        places: Sequence[Place],
        stable: bool,
    ) -> list[FetchedOffset]:
        """The committed offset of each (topic, partition)."""
        shard = self._groups.shard(group_id)
        machine = shard.machine
        if commits.readable(machine, group_id, member_id, epoch):
            offsets = [
                commits.find(machine, group_id, topic, self._present(topic), partition, stable)
                for topic, partition in places
            ]
        else:
            offsets = [FetchedOffset(None) for _ in places]
        await self._latest(shard)
        return offsets

    async def fetch_all(
        self, group_id: str, member_id: str | None, epoch: int, stable: bool
    ) -> dict[Place, FetchedOffset]:
        shard = self._groups.shard(group_id)
        machine = shard.machine
        offsets = {}
        if commits.readable(machine, group_id, member_id, epoch):
            offsets = {
                place: _unless_pending(machine, group_id, place, committed, stable)
                for place, committed in machine.offsets.of(group_id).items()
                if commits.is_of(committed, self._present(place[0]))
            }
        await self._latest(shard)
        return offsets

    async def _latest(self, shard: GroupShard) -> None:
        """Returns when the offsets that were read can be answered: they are committed, and no other coordinator has
        newer ones."""
        timeout_ms = self._groups.commit_timeout_ms
        if self._groups.coordinator.lease_proven:
            await shard.settled(timeout_ms)
        else:
            await shard.committed(shard.append([_NOTHING]), timeout_ms)

    async def delete(self, group_id: str, places: Sequence[Place]) -> list[int]:
        if not group_id:
            raise errors.InvalidGroupId("the group id is empty")
        shard = self._groups.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        entries, codes = commits.delete(shard.machine, group, places)
        await shard.committed(shard.append(entries), self._groups.commit_timeout_ms)
        return codes

    # Expiry

    def _check_expiry(self) -> None:
        self.start()
        for shard in self._groups.coordinator.shards():
            self.expire(shard)

    def expire(self, shard: GroupShard) -> None:
        now_ms = self._groups.clock.now_ms()
        retention_ms = self._groups.config.offsets_retention_minutes * _MINUTE_MS
        entries: list[CoordinatorRecord] = []
        for group in list(shard.machine.groups.values()):
            entries += commits.expired(shard.machine, group, now_ms, retention_ms)
        self._write(shard, entries, "expired")

    def _present(self, topic: str) -> UUID | None:
        """The present id of the topic of this name."""
        current = self._groups.image.topics.get(topic)
        return None if current is None else current.id

    def _opened(self, shard: GroupShard) -> None:
        # The log holds no offsets of topics that are newer than this broker's metadata: the previous coordinator would
        # have learned of its replacement before it learned of such a topic.
        entries = commits.of_replaced_topics(shard.machine, self._present)
        self._write(shard, entries, "of deleted topics")

    def _updated(self, update: Update) -> None:
        deleted = {}
        for name in update.topics:
            before, after = update.before.topics.get(name), update.image.topics.get(name)
            if before is not None and (after is None or after.id != before.id):
                deleted[name] = before.id
        if deleted:
            for shard in self._groups.coordinator.shards():
                self._write(shard, commits.of_deleted_topics(shard.machine, deleted), "of deleted topics")

    def _write(self, shard: GroupShard, entries: list[CoordinatorRecord], which: str) -> None:
        try:
            for at in range(0, len(entries), ENTRIES_MAX):
                shard.append(entries[at : at + ENTRIES_MAX])
        except errors.TidelogError as problem:
            log.warning("%s: cannot delete offsets (%s): %s", shard, which, problem)


def _unless_pending(
    machine: GroupStateMachine, group_id: str, place: Place, committed: CommittedOffset, stable: bool
) -> FetchedOffset:
    if stable and machine.offsets.is_pending(group_id, *place):
        return FetchedOffset(None, errors.UnstableOffsetCommit.code)
    return FetchedOffset(committed)
