"""The driver of consumer groups: writes a decision, and performs what follows from it (assignments, deadlines, news).

A new target assignment does not wait for a heartbeat: it is computed as soon as the assignment interval allows, and
members whose heartbeat is held learn of it at once.  Session timers, revocation deadlines and held heartbeats are in
memory only, and begin anew when a shard is loaded."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from random import Random
from uuid import UUID

from tidelog import errors
from tidelog.config import GroupConfig
from tidelog.coordination.shard import Shard
from tidelog.groups.classic.coordinator import ClassicGroups
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.consumer.classic_members import must_rejoin
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import remove
from tidelog.groups.consumer.member import (
    ConsumerMember,
    MemberState,
)
from tidelog.groups.consumer.migration import downgraded, may_downgrade
from tidelog.groups.consumer.reconciliation import can_follow
from tidelog.groups.consumer.regex import Expressions
from tidelog.groups.consumer.target_assignment import (
    GroupDraft,
    GroupFacts,
    assign,
    goal_of,
    refresh,
    wait_ms,
)
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import CONSUMER
from tidelog.groups.held_heartbeats import HeldHeartbeats
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.metadata.image.changes import Update
from tidelog.replication.commit_status import Appended

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupStateMachine]

REFRESH_AFTER_MS = 100  # topics often come and go together
RETRY_MS = 1000


class ConsumerDriver:
    def __init__(self, groups: Groups, classic: ClassicGroups, random: Random) -> None:
        self.groups = groups
        self.classic = classic
        self._random = random
        self._expressions = Expressions()
        self.told: dict[str, dict[str, int]] = {}
        """The last heartbeat interval that each member was told, by group and member."""
        self._viewers: dict[str, dict[str, TopicViewer]] = {}
        """Which topics members may know of, where that is not all; by group and member."""
        self._rules: object = None
        self.held = HeldHeartbeats(CONSUMER, groups.timers)
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)
        groups.updated.append(self._updated)

    # For coordinators

    def find(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def config(self, group_id: str) -> GroupConfig:
        return self.groups.group_config(group_id)

    def facts(self, group_id: str) -> GroupFacts:
        return GroupFacts(
            self.groups.image,
            self.groups.config,
            self.config(group_id),
            self._expressions,
            self.groups.clock.now_ms(),
            self._new_id,
            self._viewers.get(group_id, {}),
            self._rules,
        )

    def viewed_by(self, group_id: str, member_id: str, viewer: TopicViewer | None) -> None:
        """The member's last heartbeat was this client's."""
        if viewer is not None:
            self._viewers.setdefault(group_id, {})[member_id] = viewer
            self._rules = viewer.rules

    def _new_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def write(self, shard: GroupShard, draft: GroupDraft) -> Appended | None:
        """Writes the decisions in one batch; None if there are none."""
        appended = shard.append(draft.entries)
        group = shard.machine.groups.get(draft.id)
        if isinstance(group, ConsumerGroup):
            if draft.seen is not None:
                group.seen = draft.seen
            self.groups.changed(group)
        return appended

    def remove(
        self, shard: GroupShard, group: ConsumerGroup, members: dict[str, ConsumerMember]
    ) -> Appended | None:
        """Removes members that left or expired.  If only classic members remain, the group may become classic."""
        facts = self.facts(group.id)
        if may_downgrade(group, members, facts.config):
            return self.downgrade(shard, GroupDraft(group), members, facts)
        draft = GroupDraft(group)
        remove(draft, members.values(), facts)
        appended = self.write(shard, draft)
        for member_id in members:
            self._forget_member(group.id, member_id)
            self.held.release(group.id, member_id)
        self.changed(shard, group)
        return appended

    def downgrade(
        self, shard: GroupShard, draft: GroupDraft, leaving: Collection[str], facts: GroupFacts
    ) -> Appended | None:
        """Makes the remaining classic members a classic group again."""
        group = draft.group
        down = downgraded(group, leaving, facts.image, facts.now_ms)
        settled = not leaving and all(member.is_reconciled(group.epoch) for member in group.members.values())
        appended = shard.append([*draft.entries, *down.entries])
        self._forget(group)
        self.held.release_group(group.id)
        after = shard.machine.groups[group.id]
        assert isinstance(after, ClassicGroup)
        self.classic.adopted(shard, after, down.protocols, rebalance=not settled)
        log.info("group %s has only classic members: it is a classic group again", group.id)
        return appended

    # Deadlines

    def changed(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """The group changed: an assignment may be due, and members with a held heartbeat may have news."""
        name = (CONSUMER, group.id, "", "assign")
        if group.members and group.epoch > group.assignment_epoch:
            facts = self.facts(group.id)
            after_ms = wait_ms(group, facts)
            if not after_ms:
                draft = GroupDraft(group)
                assign(draft, facts)
                after_ms = 0 if self._wrote(shard, draft) else RETRY_MS
            if after_ms:
                self.groups.timers.set(name, after_ms, partial(self._assign, shard, group))
            else:
                self.groups.timers.cancel(name)
        for member_id in self.held.members(group.id):
            member = group.members.get(member_id)
            if member is None or self._has_news(group, member):
                self.held.release(group.id, member_id)

    def _has_news(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        if member.is_reconciled(group.assignment_epoch):
            return False
        image = self.groups.image
        if member.classic is not None:
            return must_rejoin(group, member, image)
        return can_follow(member, goal_of(group, member, image))

    def _assign(self, shard: GroupShard, group: ConsumerGroup) -> None:
        if self._is_here(shard, group):
            self.changed(shard, group)

    def _refresh(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """Topics were created, grew or were deleted."""
        if not self._is_here(shard, group):
            return
        draft = GroupDraft(group)
        refresh(draft, self.facts(group.id), changed=False)
        if self._wrote(shard, draft):
            self.changed(shard, group)

    def _wrote(self, shard: GroupShard, draft: GroupDraft) -> bool:
        """As `write`, for changes that no request waits for.  A decision that cannot be written is made again later."""
        try:
            self.write(shard, draft)
        except errors.TidelogError as problem:
            log.warning("cannot write a change of group %s, trying again later: %s", draft.id, problem)
            return False
        return True

    def set_session(
        self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember, within_ms: int | None = None
    ) -> None:
        if within_ms is None:
            within_ms = self.config(group.id).consumer_session_timeout_ms
        act = partial(self.expire, shard, group, member.id, "sent no heartbeat within its session timeout")
        self.groups.timers.set((CONSUMER, group.id, member.id, "session"), within_ms, act)

    def set_rebalance(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A member that must revoke partitions has its rebalance timeout to do so."""
        name = (CONSUMER, group.id, member.id, "rebalance")
        if member.state is not MemberState.UNREVOKED:
            self.groups.timers.cancel(name)
        elif name not in self.groups.timers:
            act = partial(self._revocation_due, shard, group, member.id, member.epoch)
            self.groups.timers.set(name, member.rebalance_timeout_ms, act)

    def _revocation_due(self, shard: GroupShard, group: ConsumerGroup, member_id: str, epoch: int) -> None:
        member = group.members.get(member_id)
        if member is not None and member.epoch == epoch and member.state is MemberState.UNREVOKED:
            self.expire(shard, group, member_id, "did not revoke partitions within its rebalance timeout")

    def expire(self, shard: GroupShard, group: ConsumerGroup, member_id: str, why: str) -> None:
        if not self._is_here(shard, group) or member_id not in group.members:
            return
        log.info("removing member %s from group %s: it %s", member_id, group.id, why)
        try:
            self.remove(shard, group, {member_id: group.members[member_id]})
        except errors.TidelogError as problem:
            log.warning("cannot remove member %s from group %s: %s", member_id, group.id, problem)
            self.set_session(shard, group, group.members[member_id])

    def _is_here(self, shard: GroupShard, group: ConsumerGroup) -> bool:
        return not shard.closed and shard.machine.groups.get(group.id) is group

    # With the shards and the metadata

    def _opened(self, shard: GroupShard) -> None:
        for group in list(shard.machine.groups.values()):
            if isinstance(group, ConsumerGroup):
                self.arm(shard, group)
                if group.members and group.epoch > group.assignment_epoch:
                    self.groups.timers.set(
                        (CONSUMER, group.id, "", "assign"), 0, partial(self._assign, shard, group)
                    )

    def arm(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """Members in the records have one session timeout to send a heartbeat."""
        for member in group.members.values():
            self.set_session(shard, group, member, member.classic and member.classic.session_timeout_ms)
            self.set_rebalance(shard, group, member)

    def _closed(self, shard: GroupShard) -> None:
        for group in shard.machine.groups.values():
            if isinstance(group, ConsumerGroup):
                self._forget(group)
                self.held.release_group(group.id)

    def _updated(self, update: Update) -> None:
        if not update.topics:
            return
        topics = frozenset(update.topics)
        named = update.image.names is not update.before.names
        for shard in self.groups.coordinator.shards():
            for group in shard.machine.groups.values():
                if not isinstance(group, ConsumerGroup) or not group.members:
                    continue
                if (named and group.resolved) or not topics.isdisjoint(group.topics):
                    name = (CONSUMER, group.id, "", "refresh")
                    act = partial(self._refresh, shard, group)
                    self.groups.timers.set(name, REFRESH_AFTER_MS, act)

    def _forget(self, group: ConsumerGroup) -> None:
        for member_id in group.members:
            self._forget_member(group.id, member_id)
        for timer in ("assign", "refresh"):
            self.groups.timers.cancel((CONSUMER, group.id, "", timer))

    def _forget_member(self, group_id: str, member_id: str) -> None:
        for timer in ("session", "rebalance", "join", "sync"):
            self.groups.timers.cancel((CONSUMER, group_id, member_id, timer))
        for by_group in (self.told, self._viewers):
            by_member = by_group.get(group_id, {})
            by_member.pop(member_id, None)
            if not by_member:
                by_group.pop(group_id, None)
