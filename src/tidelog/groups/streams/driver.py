"""The driver of streams groups: writes a decision, and performs what follows from it (targets, deadlines, news).

A new target does not wait for a heartbeat: it is worked out as soon as the delays allow, and members whose heartbeat is
held learn of it at once.  Timers, held heartbeats and what members were last told are in memory only."""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from tidelog import errors
from tidelog.config import GroupConfig
from tidelog.coordination.shard import Shard
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import STREAMS
from tidelog.groups.held_heartbeats import HeldHeartbeats
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.heartbeat import (
    StreamsFacts,
    assignment_wait_ms,
    can_follow,
    left,
    refreshed,
)
from tidelog.groups.streams.internal_topics import StreamsStatus
from tidelog.groups.streams.member import StreamsMember, StreamsMemberState
from tidelog.metadata.image.changes import Update
from tidelog.replication.commit_status import Appended

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupStateMachine]

REFRESH_AFTER_MS = 100  # topics often come and go together
RETRY_MS = 1000


class LastTold(NamedTuple):
    """What a member's last answer said."""

    interval_ms: int = 0
    endpoints_epoch: int = 0
    statuses: frozenset[StreamsStatus] = frozenset()


class StreamsDriver:
    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.told: dict[str, dict[str, LastTold]] = {}
        self.held = HeldHeartbeats(STREAMS, groups.timers)
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)
        groups.updated.append(self._updated)

    # For coordinators

    def find(self, shard: GroupShard, group_id: str) -> StreamsGroup:
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a streams group.")
        return group

    def config(self, group_id: str) -> GroupConfig:
        return self.groups.group_config(group_id)

    def facts(self, group_id: str, begins: bool = False) -> StreamsFacts:
        """`begins`: the group has no members yet, and waits for more of them if it is configured so."""
        config = self.config(group_id)
        delayed = (STREAMS, group_id, "", "initial") in self.groups.timers
        if begins and config.streams_initial_rebalance_delay_ms > 0:
            delayed = True
        return StreamsFacts(
            self.groups.image, self.groups.config, config, self.groups.clock.now_ms(), delayed
        )

    def begin_delay(self, shard: GroupShard, group: StreamsGroup) -> None:
        """The first members of a group get their tasks after a while, so that these do not move when more join."""
        name = (STREAMS, group.id, "", "initial")
        delay_ms = self.config(group.id).streams_initial_rebalance_delay_ms
        if delay_ms > 0 and name not in self.groups.timers:
            self.groups.timers.set(name, delay_ms, partial(self.advance, shard, group))

    def remove(self, shard: GroupShard, group: StreamsGroup, member: StreamsMember) -> Appended | None:
        """Removes a member that left or expired."""
        appended = shard.append(left(group, member.id))
        self._forget_member(group.id, member.id)
        self.held.release(group.id, member.id)
        if member.endpoint is not None:
            group.endpoints_epoch += 1
        if not group.members:
            self._forget(group)
        self.advance(shard, group)
        return appended

    # What follows from a change

    def advance(self, shard: GroupShard, group: StreamsGroup) -> None:
        """The group, its topics or the time changed: an epoch or a target may be due, and members may have news."""
        if shard.closed or shard.machine.groups.get(group.id) is not group:
            return
        name = (STREAMS, group.id, "", "assign")
        facts = self.facts(group.id)
        try:
            entries, configured = refreshed(group, facts)
            shard.append(entries)
        except errors.TidelogError as problem:
            log.warning("cannot write a change of group %s, trying again later: %s", group.id, problem)
            self.groups.timers.set(name, RETRY_MS, partial(self.advance, shard, group))
            return
        if configured is not None:
            group.configured, group.seen = configured, facts.image.topics
        if group.members and group.epoch > group.assignment_epoch and not facts.delayed:
            after_ms = assignment_wait_ms(group, facts)
            self.groups.timers.set(name, after_ms, partial(self.advance, shard, group))
        else:
            self.groups.timers.cancel(name)
        for member_id in self.held.members(group.id):
            if self._has_news(group, member_id):
                self.held.release(group.id, member_id)

    def _has_news(self, group: StreamsGroup, member_id: str) -> bool:
        member = group.members.get(member_id)
        if member is None or group.shutdown_by is not None:
            return True
        last = self.told.get(group.id, {}).get(member_id, LastTold())
        return last.endpoints_epoch != group.endpoints_epoch or can_follow(group, member)

    # Deadlines

    def set_session(self, shard: GroupShard, group: StreamsGroup, member_id: str) -> None:
        within_ms = self.config(group.id).streams_session_timeout_ms
        act = partial(self._expire, shard, group, member_id, "sent no heartbeat within its session timeout")
        self.groups.timers.set((STREAMS, group.id, member_id, "session"), within_ms, act)

    def set_rebalance(self, shard: GroupShard, group: StreamsGroup, member: StreamsMember) -> None:
        """A member that must give tasks back has its rebalance timeout to do so."""
        name = (STREAMS, group.id, member.id, "rebalance")
        if member.state is not StreamsMemberState.UNREVOKED:
            self.groups.timers.cancel(name)
        elif name not in self.groups.timers:
            act = partial(self._revocation_due, shard, group, member.id, member.epoch)
            self.groups.timers.set(name, member.rebalance_timeout_ms, act)

    def _revocation_due(self, shard: GroupShard, group: StreamsGroup, member_id: str, epoch: int) -> None:
        member = group.members.get(member_id)
        if member is not None and member.epoch == epoch and member.state is StreamsMemberState.UNREVOKED:
            self._expire(shard, group, member_id, "did not give tasks back within its rebalance timeout")

    def _expire(self, shard: GroupShard, group: StreamsGroup, member_id: str, why: str) -> None:
        member = group.members.get(member_id)
        if shard.closed or shard.machine.groups.get(group.id) is not group or member is None:
            return
        log.info("removing member %s from group %s: it %s", member_id, group.id, why)
        try:
            self.remove(shard, group, member)
        except errors.TidelogError as problem:
            log.warning("cannot remove member %s from group %s: %s", member_id, group.id, problem)
            self.set_session(shard, group, member_id)

    # With the shards and the metadata

    def _opened(self, shard: GroupShard) -> None:
        """Members in the records have one session timeout to send a heartbeat."""
        for group in list(shard.machine.groups.values()):
            if isinstance(group, StreamsGroup) and group.members:
                for member in group.members.values():
                    self.set_session(shard, group, member.id)
                    self.set_rebalance(shard, group, member)
                name = (STREAMS, group.id, "", "assign")
                self.groups.timers.set(name, 0, partial(self.advance, shard, group))

    def _closed(self, shard: GroupShard) -> None:
        for group in shard.machine.groups.values():
            if isinstance(group, StreamsGroup):
                self._forget(group)
                self.held.release_group(group.id)

    def _updated(self, update: Update) -> None:
        if not update.topics:
            return
        topics = frozenset(update.topics)
        for shard in self.groups.coordinator.shards():
            for group in shard.machine.groups.values():
                if not isinstance(group, StreamsGroup) or not group.members or group.topology is None:
                    continue
                if not topics.isdisjoint(group.topology.required_topics):
                    name = (STREAMS, group.id, "", "refresh")
                    self.groups.timers.set(name, REFRESH_AFTER_MS, partial(self.advance, shard, group))

    def _forget(self, group: StreamsGroup) -> None:
        for member_id in group.members:
            self._forget_member(group.id, member_id)
        for timer in ("assign", "refresh", "initial"):
            self.groups.timers.cancel((STREAMS, group.id, "", timer))

    def _forget_member(self, group_id: str, member_id: str) -> None:
        for timer in ("session", "rebalance"):
            self.groups.timers.cancel((STREAMS, group_id, member_id, timer))
        answers = self.told.get(group_id, {})
        answers.pop(member_id, None)
        if not answers:
            self.told.pop(group_id, None)
