"""The driver of share groups: takes heartbeats and session timeouts, lets `heartbeat` decide, writes and answers.

The share coordinator must hold a partition's state before the partition is assigned.  The heartbeat that needs the state
waits until it is initialized, and a joining member also waits for the assignment interval
(`share.assignment.interval.ms`): so a consumer reads after its first heartbeat, not after its second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from uuid import UUID

from tidelog import errors
from tidelog.config.group import GroupConfig
from tidelog.coordination.shard import Shard
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import SHARE
from tidelog.groups.share import heartbeat
from tidelog.groups.share.group import ShareGroup, StatePartitions, share_group
from tidelog.groups.share.group_state import UNKNOWN_START, ShareKey
from tidelog.groups.share.heartbeat import ShareGroupLimits, ShareHeartbeatResult, TopicFacts, Topics
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.persister import SharePersister
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image
from tidelog.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupStateMachine]


class ShareGroups:
    def __init__(self, groups: Groups, shares: SharePartitions, persister: SharePersister) -> None:
        self._groups = groups
        self._shares = shares
        self.persister = persister
        self._initializing: dict[str, asyncio.Lock] = {}
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)
        groups.updated.append(self._updated)

    # Requests

    async def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: tuple[str, str]
    ) -> ShareGroupHeartbeatResponse:
        """The answer; raises the protocol's error."""
        heartbeat.check_heartbeat(request)
        if request.member_epoch == heartbeat.LEAVE:
            return await self._leave(request)
        missing = self._missing(request)
        shard, beat = self._beat(request, client, may_assign=not missing)
        if missing:
            await self._initialize(shard, request.group_id, missing)
            shard, beat = self._beat(request, client, may_assign=True)
        if request.member_epoch == heartbeat.JOIN and beat.again_ms:
            await asyncio.sleep(beat.again_ms / 1000)
            shard, beat = self._beat(request, client, may_assign=True)
        await shard.settled(self._groups.commit_timeout_ms)
        interval_ms = self.config(request.group_id).share_heartbeat_interval_ms
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=beat.epoch,
            heartbeat_interval_ms=heartbeat.next_ms(interval_ms, beat.again_ms),
        )
        if beat.assignment is not None:
            response.assignment = Assignment(
                [TopicPartitions(topic, list(indexes)) for topic, indexes in beat.assignment.items()]
            )
        return response

    def _beat(
        self, request: ShareGroupHeartbeatRequest, client: tuple[str, str], may_assign: bool
    ) -> tuple[GroupShard, ShareHeartbeatResult]:
        shard = self._groups.shard(request.group_id)
        group = self._find(shard, request.group_id)
        names = frozenset(request.subscribed_topic_names or ()) | (group.topics if group else frozenset())
        beat = heartbeat.heartbeat(
            group,
            request,
            client,
            self._topics(names),
            self._limits(request.group_id),
            self._groups.clock.now_ms(),
            may_assign,
        )
        shard.append(beat.entries)
        self._watch(shard, request.group_id, request.member_id)
        return shard, beat

    def _find(self, shard: GroupShard, group_id: str) -> ShareGroup | None:
        """The group; None if it does not exist yet."""
        group = shard.machine.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return group
        raise errors.GroupIdNotFound(f"{group_id} is a {group.kind} group, not a share group")

    async def _leave(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        shard = self._groups.shard(request.group_id)
        group = share_group(shard.machine, request.group_id)
        appended = shard.append(heartbeat.leave(group, request.member_id, self._topics(group.topics)))
        self._groups.timers.cancel((SHARE, group.id, request.member_id))
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def shard(self, group_id: str) -> GroupShard:
        if not group_id:
            raise errors.InvalidGroupId("the group id is empty")
        return self._groups.shard(group_id)

    async def described(self, group_id: str) -> ShareGroup:
        """The group, for ShareGroupDescribe; raises GroupIdNotFound if it is no share group."""
        shard = self.shard(group_id)
        group = share_group(shard.machine, group_id)
        await shard.settled(self._groups.commit_timeout_ms)
        return group

    def topic_names(self, topics: Iterable[UUID]) -> dict[UUID, str]:
        names = self._image.names
        return {topic: names[topic] for topic in topics if names.get(topic) is not None}

    # State of partitions

    def _missing(self, request: ShareGroupHeartbeatRequest) -> dict[UUID, StatePartitions]:
        """Partitions of the member's topics whose state is not initialized yet."""
        group = self._find(self._groups.shard(request.group_id), request.group_id)
        names = frozenset(request.subscribed_topic_names or ()) | (group.topics if group else frozenset())
        return heartbeat.missing(group, names, self._topics(names))

    async def _initialize(
        self, shard: GroupShard, group_id: str, missing: Mapping[UUID, StatePartitions]
    ) -> None:
        """Initializes the state of these partitions; a later heartbeat tries again if that fails."""
        lock = self._initializing.setdefault(group_id, asyncio.Lock())
        try:
            async with lock:
                group = share_group(shard.machine, group_id)
                wanted = heartbeat.missing(
                    group, [kept.name for kept in missing.values()], self._topics(group.topics)
                )
                if not wanted:
                    return
                await shard.committed(
                    shard.append(heartbeat.initializing(group, wanted)), self._groups.commit_timeout_ms
                )
                await self.make_states(group, wanted, UNKNOWN_START)
                await self.kept(shard, group_id, wanted)
        except errors.TidelogError as problem:
            log.warning("cannot initialize all partitions of share group %s now: %s", group_id, problem)
        finally:
            if not lock.locked():
                self._initializing.pop(group_id, None)

    async def make_states(
        self, group: ShareGroup, wanted: Mapping[UUID, StatePartitions], start: int
    ) -> None:
        for topic, kept in wanted.items():
            for index in sorted(kept.partitions):
                key = ShareKey(group.id, topic, index)
                # A state that a crash left behind stays: members may have read from it already.
                if await self.persister.summary(key) is None:
                    await self.persister.initialize(key, group.epoch, start)

    async def kept(self, shard: GroupShard, group_id: str, wanted: Mapping[UUID, StatePartitions]) -> None:
        group = share_group(shard.machine, group_id)
        appended = shard.append(heartbeat.initialized(group, wanted))
        await shard.committed(appended, self._groups.commit_timeout_ms)

    async def delete(self, group_id: str) -> None:
        """Deletes the group and all its state."""
        shard = self._groups.shard(group_id)
        group = share_group(shard.machine, group_id)
        group.check_delete()
        kept_by_topic = self.kept_anywhere(group)
        await shard.committed(
            shard.append(
                heartbeat.deleting(group, {topic: kept.name for topic, kept in kept_by_topic.items()})
            ),
            self._groups.commit_timeout_ms,
        )
        await self.delete_states(group_id, kept_by_topic)
        group = share_group(shard.machine, group_id)
        group.check_delete()
        await shard.committed(shard.append(group.tombstones()), self._groups.commit_timeout_ms)

    def kept_anywhere(self, group: ShareGroup) -> dict[UUID, StatePartitions]:
        """All partitions that may have state, including those whose initialization or deletion a crash interrupted."""
        kept_by_topic = {
            topic: StatePartitions(name, frozenset(range(facts.partitions)))
            for topic, name in group.deleting.items()
            if (facts := self._topics([name]).get(name)) is not None and facts.id == topic
        }
        for part in (group.initializing, group.initialized):
            for topic, kept in part.items():
                before = kept_by_topic.get(topic, StatePartitions(kept.name, frozenset()))
                kept_by_topic[topic] = StatePartitions(kept.name, before.partitions | kept.partitions)
        return kept_by_topic

    async def delete_states(self, group_id: str, kept_by_topic: Mapping[UUID, StatePartitions]) -> None:
        for topic, kept in kept_by_topic.items():
            for index in sorted(kept.partitions):
                try:
                    await self.persister.delete(ShareKey(group_id, topic, index))
                except errors.UnknownTopicOrPartition:
                    continue  # deleted with its topic
        self._shares.reset(group_id, kept_by_topic)

    # Sessions

    def _watch(self, shard: GroupShard, group_id: str, member_id: str) -> None:
        after_ms = self.config(group_id).share_session_timeout_ms
        self._groups.timers.set(
            (SHARE, group_id, member_id), after_ms, partial(self._silent, shard, group_id, member_id)
        )

    def _silent(self, shard: GroupShard, group_id: str, member_id: str) -> None:
        group = shard.machine.groups.get(group_id)
        if shard.closed or not isinstance(group, ShareGroup) or member_id not in group.members:
            return
        log.info(
            "removing member %s from share group %s: it sent no heartbeat within its session timeout",
            member_id,
            group_id,
        )
        try:
            shard.append(heartbeat.leave(group, member_id, self._topics(group.topics)))
        except errors.TidelogError as problem:
            log.warning("cannot remove member %s from share group %s now: %s", member_id, group_id, problem)
            self._watch(shard, group_id, member_id)

    def _opened(self, shard: GroupShard) -> None:
        for group in shard.machine.groups.values():
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self._watch(shard, group.id, member_id)

    def _closed(self, shard: GroupShard) -> None:
        for group in shard.machine.groups.values():
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self._groups.timers.cancel((SHARE, group.id, member_id))

    def _updated(self, update: Update) -> None:
        """Removes deleted topics from the groups; the share coordinator deletes their state."""
        gone = [
            before.id
            for name in update.topics
            if (before := update.before.topics.get(name)) is not None
            and ((after := update.image.topics.get(name)) is None or after.id != before.id)
        ]
        if not gone:
            return
        for shard in self._groups.coordinator.shards():
            for group in list(shard.machine.groups.values()):
                if isinstance(group, ShareGroup):
                    try:
                        shard.append(heartbeat.deleted(group, gone))
                    except errors.TidelogError as problem:
                        log.warning("share group %s still lists a deleted topic: %s", group.id, problem)

    # Facts

    @property
    def _image(self) -> Image:
        return self._groups.image

    def config(self, group_id: str) -> GroupConfig:
        return self._shares.group_config(group_id)

    def _limits(self, group_id: str) -> ShareGroupLimits:
        return ShareGroupLimits(
            members_max=self._groups.config.group_share_max_size,
            assignment_interval_ms=self.config(group_id).share_assignment_interval_ms,
        )

    def _is_whole(self, name: str) -> bool:
        """Where partitions are priorities, every worker takes the most urgent records that there are."""
        return self._image.topic_overrides(name).get("queue.priorities", "").lower() == "true"

    def _topics(self, names: Iterable[str]) -> Topics:
        topics = {}
        for name in names:
            topic = self._image.topics.get(name)
            if topic is not None:
                topics[name] = TopicFacts(topic.id, len(topic.partitions), self._is_whole(name))
        return topics
