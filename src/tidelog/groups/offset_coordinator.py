"""Offsets of all kinds of groups: performs what `offset_commits` decides, and expires what nobody needs any more."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog._speed.commits import offsets_batch
from tidelog.coordination.entries import Entry
from tidelog.coordination.shard import Shard, Writer
from tidelog.groups import offset_commits
from tidelog.groups.classic import ClassicGroup
from tidelog.groups.classic_coordinator import ClassicGroups
from tidelog.groups.coordinator import Groups
from tidelog.groups.machine import GroupMachine
from tidelog.groups.offset_commits import Commit, Committer, Found, Limits
from tidelog.groups.offset_records import tombstone
from tidelog.groups.offsets import Committed, Partition, Place
from tidelog.metadata.changes import Update
from tidelog.metadata.image import TopicImage

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupMachine]
Topics = Sequence[tuple[TopicImage, list[Partition]]]
ENTRIES_MAX = 1000  # deleted in one batch
_MINUTE_MS = 60_000
_EXPIRY = ("offsets", "expiry")
_NOTHING = tombstone("", "", 0)  # no group has an empty name


class Committing(NamedTuple):
    """An error code for each offset; `wait`, if there is one, must be over before they are told."""

    codes: list[int]
    wait: Awaitable[None] | None


_AT_ONCE = Committing([], None)


class GroupOffsets:
    def __init__(self, groups: Groups, classic: ClassicGroups) -> None:
        self._groups = groups
        self._classic = classic
        groups.coordinator.opened.append(self._opened)
        groups.updated.append(self._updated)

    def start(self) -> None:
        """Begins to look for what has expired, every `offsets.retention.check.interval.ms`."""
        after_ms = self._groups.config.offsets_retention_check_interval_ms
        self._groups.timers.set(_EXPIRY, after_ms, self._check_expiry)

    # Requests

    def commit(self, who: Committer, commits: Sequence[Commit], retention_ms: int) -> Committing:
        """Raises what is wrong with all of them.  Ask `wait` whether it can be told already."""
        shard = self._groups.shard(who.group_id)
        config = self._groups.config
        limits = Limits(self._groups.clock.now_ms(), config.offset_metadata_max_bytes, retention_ms)
        entries, codes = offset_commits.commit(shard.machine, who, commits, limits)
        appended = shard.append(entries)
        group = shard.machine.groups.get(who.group_id)
        if isinstance(group, ClassicGroup):
            self._classic.committed(shard, group, who.member_id)
        if shard.is_settled if appended is None else shard.is_committed(appended):
            return Committing(codes, None)
        return Committing(codes, shard.committed(appended, config.offsets_commit_timeout_ms))

    def commit_at_once(self, who: Committer, topics: Topics) -> Committing | None:
        """The same where nothing is in the way: members of groups that are there, with epochs that are theirs.  None
        when nothing was done, and `commit` has to look."""
        groups = self._groups
        try:
            shard = groups.shard(who.group_id)
            group = shard.machine.groups.get(who.group_id)
            if group is None or group.check_commit(
                who.member_id, who.instance_id, who.epoch, False, who.version
            ):
                return None
            now_ms = groups.clock.now_ms()
            records = [(topic.name, topic.id.bytes, partitions) for topic, partitions in topics]
            appended = shard.append_batch(offsets_batch(who.group_id, records, now_ms))
        except errors.TidelogError:
            return None
        for topic, partitions in topics:
            shard.machine.offsets.committed(who.group_id, topic.name, topic.id, partitions, now_ms)
        if isinstance(group, ClassicGroup):
            self._classic.committed(shard, group, who.member_id)
        if shard.is_committed(appended):
            return _AT_ONCE
        return Committing([], shard.committed(appended, groups.config.offsets_commit_timeout_ms))

    async def commit_transactional(
        self, who: Committer, commits: Sequence[Commit], writer: Writer
    ) -> list[int]:
        """For TxnOffsetCommit, once it is known that the writer's transaction has this group's partition: the offsets
        count when the transaction is committed.  An error code for each; raises what is wrong with all of them."""
        if not who.group_id:
            raise errors.InvalidGroupId("the group id is empty")
        shard = self._groups.shard(who.group_id)
        config = self._groups.config
        limits = Limits(self._groups.clock.now_ms(), config.offset_metadata_max_bytes)
        entries, codes = offset_commits.commit_transactional(shard.machine, who, commits, limits)
        appended = shard.append(entries, writer)
        await shard.committed(appended, config.offsets_commit_timeout_ms)
        return codes

    async def fetch(
        self,
        group_id: str,
        member_id: str | None,
        epoch: int,
        asked: Sequence[Place],
        stable: bool,
    ) -> list[Found]:
        """What is committed for each (topic, partition)."""
        shard = self._groups.shard(group_id)
        machine = shard.machine
        if offset_commits.readable(machine, group_id, member_id, epoch):
            found = [
                offset_commits.find(machine, group_id, topic, self._present(topic), partition, stable)
                for topic, partition in asked
            ]
        else:
            found = [Found(None) for _ in asked]
        await self._latest(shard)
        return found

    async def fetch_all(
        self, group_id: str, member_id: str | None, epoch: int, stable: bool
    ) -> dict[Place, Found]:
        shard = self._groups.shard(group_id)
        machine = shard.machine
        found = {}
        if offset_commits.readable(machine, group_id, member_id, epoch):
            found = {
                place: _unless_pending(machine, group_id, place, known, stable)
                for place, known in machine.offsets.of(group_id).items()
                if offset_commits.is_of(known, self._present(place[0]))
            }
        await self._latest(shard)
        return found

    async def _latest(self, shard: GroupShard) -> None:
        """Returns when what was read can be told: it is committed, and no other coordinator has newer offsets."""
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
            raise errors.GroupIdNotFound(f"there is no group {group_id}")
        entries, codes = offset_commits.delete(shard.machine, group, places)
        await shard.committed(shard.append(entries), self._groups.commit_timeout_ms)
        return codes

    # What nobody asks for

    def _check_expiry(self) -> None:
        self.start()
        for shard in self._groups.coordinator.shards():
            self.expire(shard)

    def expire(self, shard: GroupShard) -> None:
        now_ms = self._groups.clock.now_ms()
        retention_ms = self._groups.config.offsets_retention_minutes * _MINUTE_MS
        entries: list[Entry] = []
        for group in list(shard.machine.groups.values()):
            entries += offset_commits.expired(shard.machine, group, now_ms, retention_ms)
        self._write(shard, entries, "expired")

    def _present(self, topic: str) -> UUID | None:
        """The id of the topic that has this name now."""
        known = self._groups.image.topics.get(topic)
        return None if known is None else known.id

    def _opened(self, shard: GroupShard) -> None:
        # The log holds nothing of topics that are newer than this broker's metadata: whoever wrote it knew of the election
        # by then, if he knew of the topic.
        entries = offset_commits.of_replaced_topics(shard.machine, self._present)
        self._write(shard, entries, "of deleted topics")

    def _updated(self, update: Update) -> None:
        deleted = {}
        for name in update.topics:
            before, after = update.before.topics.get(name), update.image.topics.get(name)
            if before is not None and (after is None or after.id != before.id):
                deleted[name] = before.id
        if deleted:
            for shard in self._groups.coordinator.shards():
                self._write(
                    shard, offset_commits.of_deleted_topics(shard.machine, deleted), "of deleted topics"
                )

    def _write(self, shard: GroupShard, entries: list[Entry], which: str) -> None:
        try:
            for at in range(0, len(entries), ENTRIES_MAX):
                shard.append(entries[at : at + ENTRIES_MAX])
        except errors.TidelogError as problem:
            log.warning("%s: offsets %s were not deleted: %s", shard, which, problem)


def _unless_pending(
    machine: GroupMachine, group_id: str, place: Place, known: Committed, stable: bool
) -> Found:
    if stable and machine.offsets.is_pending(group_id, *place):
        return Found(None, errors.UnstableOffsetCommit.code)
    return Found(known)
