"""Drives consumer groups: heartbeats and deadlines come in, `consumer_heartbeat` and its neighbours decide, here it is
written and told.

A new assignment does not wait for a heartbeat: it is worked out as soon as the assignment interval allows, and members
whose heartbeat is being held learn of it at once.  Sessions, deadlines of revocations and held heartbeats are in memory
only, and begin anew when a shard is loaded."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from random import Random
from uuid import UUID

from tidelog import errors
from tidelog.config import GroupConfig
from tidelog.coordination.shard import Shard
from tidelog.groups.classic import ClassicGroup
from tidelog.groups.classic_coordinator import Caller, ClassicGroups
from tidelog.groups.consumer import ConsumerGroup
from tidelog.groups.consumer_classic import must_rejoin
from tidelog.groups.consumer_heartbeat import Beat, beat, check_request, leaving, remove, step_out
from tidelog.groups.consumer_member import (
    JOINING_EPOCH,
    LEFT_EPOCH,
    STATIC_LEFT_EPOCH,
    Member,
    MemberState,
    Owned,
)
from tidelog.groups.consumer_migration import check_upgrade, downgraded, may_downgrade, upgraded
from tidelog.groups.consumer_pace import Outcome, hold_ms, next_ms
from tidelog.groups.consumer_reconcile import can_follow
from tidelog.groups.consumer_target import Draft, World, assign, goal_of, refresh, wait_ms
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import CONSUMER
from tidelog.groups.held import Held
from tidelog.groups.machine import GroupMachine
from tidelog.groups.regex import Expressions
from tidelog.metadata.changes import Update
from tidelog.replication.partition import Appended
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupMachine]

REFRESH_AFTER_MS = 100  # topics often come and go together


class ConsumerGroups:
    def __init__(self, groups: Groups, classic: ClassicGroups, random: Random) -> None:
        self.groups = groups
        self._classic = classic
        self._random = random
        self._expressions = Expressions()
        self._plain = (groups.config, GroupConfig.of({}, groups.config))
        self._told: dict[str, dict[str, int]] = {}  # heartbeat intervals by group and member
        self.held = Held(CONSUMER, groups.timers)
        self.draining = False
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)
        groups.updated.append(self._updated)

    # Requests

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises what is wrong with it."""
        check_request(request, caller.version, self.groups.config.group_consumer_assignors)
        shard = self.groups.shard(request.group_id)
        if request.member_epoch in (LEFT_EPOCH, STATIC_LEFT_EPOCH):
            return await self._leave(shard, request)
        interval_ms = self.config(request.group_id).consumer_heartbeat_interval_ms
        came, appended = self._beat(shard, request, caller)
        if self._holds:
            told_ms = self._told.get(request.group_id, {}).get(came.member.id, 0)
            since_ms, expired = self.groups.clock.monotonic_ms(), False
            if appended is None and _nothing_to_tell(came, request):
                expired = await self.held.wait(
                    request.group_id, came.member.id, hold_ms(told_ms), caller.hold
                )
                shard = self.groups.shard(request.group_id)
                came, appended = self._beat(shard, request, caller)
            held_ms = self.groups.clock.monotonic_ms() - since_ms
            interval_ms = self._next_ms(shard, request, came, appended is not None, held_ms, expired)
        await shard.committed(appended, self.groups.commit_timeout_ms)
        return ConsumerGroupHeartbeatResponse(
            member_id=came.member.id,
            member_epoch=came.member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=None if came.assigned is None else _told(came.assigned),
        )

    def _next_ms(
        self,
        shard: GroupShard,
        request: ConsumerGroupHeartbeatRequest,
        came: Beat,
        written: bool,
        held_ms: int,
        expired: bool,
    ) -> int:
        """The heartbeat interval that the member is told now."""
        member, group = came.member, self.find(shard, request.group_id)
        interval_ms = self.config(group.id).consumer_heartbeat_interval_ms
        told = self._told.setdefault(group.id, {})
        if member.state is MemberState.UNREVOKED:
            told_ms = interval_ms  # it comes by itself, as soon as it has given its partitions back
        else:
            news = written or not _nothing_to_tell(came, request)
            waiting = group.epoch > group.assignment_epoch or member.state is MemberState.UNRELEASED
            outcome = Outcome(news, waiting, held_ms, expired)
            told_ms = next_ms(told.get(member.id, 0), interval_ms, outcome)
        told[member.id] = told_ms
        return told_ms

    @property
    def _holds(self) -> bool:
        return self.groups.config.tidelog_group_heartbeat_hold_ms > 0 and not self.draining

    def _beat(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> tuple[Beat, Appended | None]:
        world = self.world(request.group_id)
        draft, was = self._draft(shard, request, world)
        came = beat(draft, request, caller.client_id, caller.client_host, world)
        appended = self.write(shard, draft)
        group = self.find(shard, request.group_id)
        if was is not None:
            self._classic.replaced(shard, was)
            self._arm(shard, group)
        self.set_session(shard, group, came.member)
        self.set_rebalance(shard, group, came.member)
        if appended is not None:
            self.changed(shard, group)
        return came, appended

    def _draft(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, world: World
    ) -> tuple[Draft, ClassicGroup | None]:
        """The group to join or to stay in; a classic one that is to become a consumer group comes along."""
        group_id = request.group_id
        known = shard.machine.groups.get(group_id)
        if isinstance(known, ConsumerGroup):
            return Draft(known), None
        if request.member_epoch != JOINING_EPOCH:
            raise errors.GroupIdNotFound(f"there is no consumer group {group_id}")
        if known is None:
            return Draft(ConsumerGroup(group_id)), None
        if not isinstance(known, ClassicGroup):
            raise errors.GroupIdNotFound(f"group {group_id} is a {known.kind} group")
        draft = Draft(ConsumerGroup(group_id), known.tombstones())
        if known.is_empty:
            return draft, known
        check_upgrade(known, world.config)
        draft.add(*upgraded(known, world.image))
        return draft, known

    async def _leave(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        group = self.find(shard, request.group_id)
        member = leaving(group, request)
        if request.member_epoch == STATIC_LEFT_EPOCH:
            draft = Draft(group)
            step_out(draft, member)
            appended = self.write(shard, draft)
            self.held.release(group.id, member.id)
        else:
            appended = self.remove(shard, group, {member.id: member})
        await shard.committed(appended, self.groups.commit_timeout_ms)
        return ConsumerGroupHeartbeatResponse(member_id=member.id, member_epoch=request.member_epoch)

    async def described(self, group_id: str) -> ConsumerGroup:
        """The group, to be described; GroupIdNotFound when there is no such consumer group."""
        shard = self.groups.shard(group_id)
        group = self.find(shard, group_id)
        await shard.settled(self.groups.commit_timeout_ms)
        return group

    def drain(self) -> None:
        """Answers whatever waits: the broker stops."""
        self.draining = True
        self.held.release_all()

    # What the classic members' driver uses too

    def find(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.machine.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFound(f"there is no consumer group {group_id}")
        return group

    def config(self, group_id: str) -> GroupConfig:
        """Every heartbeat asks, and nearly all groups have only what the broker gives them."""
        broker = self.groups.config
        if self._plain[0] is not broker:
            self._plain = (broker, GroupConfig.of({}, broker))
        overrides = self.groups.image.group_overrides(group_id)
        return GroupConfig.of(overrides, broker) if overrides else self._plain[1]

    def world(self, group_id: str) -> World:
        return World(
            self.groups.image,
            self.groups.config,
            self.config(group_id),
            self._expressions,
            self.groups.clock.now_ms(),
            self._new_id,
        )

    def _new_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def write(self, shard: GroupShard, draft: Draft) -> Appended | None:
        """What was decided, in one batch.  None when it was nothing."""
        group_id = draft.group.id
        appended = shard.append(draft.entries)
        group = shard.machine.groups.get(group_id)
        if draft.seen is not None and isinstance(group, ConsumerGroup):
            group.seen = draft.seen
        return appended

    def remove(self, shard: GroupShard, group: ConsumerGroup, members: dict[str, Member]) -> Appended | None:
        """They left, or are taken for dead.  Who is left may be a classic group."""
        world = self.world(group.id)
        if may_downgrade(group, members, world.config):
            return self.downgrade(shard, Draft(group), members, world)
        draft = Draft(group)
        remove(draft, members.values(), world)
        appended = self.write(shard, draft)
        for member_id in members:
            self._forget_member(group.id, member_id)
            self.held.release(group.id, member_id)
        self.changed(shard, group)
        return appended

    def downgrade(
        self, shard: GroupShard, draft: Draft, leaving: Collection[str], world: World
    ) -> Appended | None:
        """The classic members that are left are a classic group again."""
        group = draft.group
        down = downgraded(group, leaving, world.image, world.now_ms)
        settled = not leaving and all(member.is_reconciled(group.epoch) for member in group.members.values())
        appended = shard.append([*draft.entries, *down.entries])
        self._forget(group)
        self.held.release_group(group.id)
        after = shard.machine.groups[group.id]
        assert isinstance(after, ClassicGroup)
        self._classic.adopted(shard, after, down.protocols, rebalance=not settled)
        log.info("group %s has only classic members: it is a classic group again", group.id)
        return appended

    # Deadlines

    def changed(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """The group is not as it was: an assignment may be due, and members may have news."""
        name = (CONSUMER, group.id, "", "assign")
        if group.members and group.epoch > group.assignment_epoch:
            world = self.world(group.id)
            after_ms = wait_ms(group, world)
            if after_ms:
                self.groups.timers.set(name, after_ms, partial(self._assign, shard, group))
                return
            draft = Draft(group)
            assign(draft, world)
            self.write(shard, draft)
        self.groups.timers.cancel(name)
        for member_id in self.held.members(group.id):
            member = group.members.get(member_id)
            if member is None or self._has_news(group, member):
                self.held.release(group.id, member_id)

    def _has_news(self, group: ConsumerGroup, member: Member) -> bool:
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
        """Topics came, grew or went."""
        if not self._is_here(shard, group):
            return
        draft = Draft(group)
        refresh(draft, self.world(group.id), changed=False)
        if self.write(shard, draft) is not None:
            self.changed(shard, group)

    def set_session(
        self, shard: GroupShard, group: ConsumerGroup, member: Member, within_ms: int | None = None
    ) -> None:
        if within_ms is None:
            within_ms = self.config(group.id).consumer_session_timeout_ms
        act = partial(self.expire, shard, group, member.id, "was not heard of in time")
        self.groups.timers.set((CONSUMER, group.id, member.id, "session"), within_ms, act)

    def set_rebalance(self, shard: GroupShard, group: ConsumerGroup, member: Member) -> None:
        """A member that has to give partitions back has its rebalance timeout to do so."""
        name = (CONSUMER, group.id, member.id, "rebalance")
        if member.state is not MemberState.UNREVOKED:
            self.groups.timers.cancel(name)
        elif name not in self.groups.timers:
            act = partial(self._revocation_due, shard, group, member.id, member.epoch)
            self.groups.timers.set(name, member.rebalance_timeout_ms, act)

    def _revocation_due(self, shard: GroupShard, group: ConsumerGroup, member_id: str, epoch: int) -> None:
        member = group.members.get(member_id)
        if member is not None and member.epoch == epoch and member.state is MemberState.UNREVOKED:
            self.expire(shard, group, member_id, "did not give partitions back in time")

    def expire(self, shard: GroupShard, group: ConsumerGroup, member_id: str, why: str) -> None:
        if not self._is_here(shard, group) or member_id not in group.members:
            return
        log.info("member %s of group %s %s: it is taken out", member_id, group.id, why)
        try:
            self.remove(shard, group, {member_id: group.members[member_id]})
        except errors.TidelogError as problem:
            log.warning("member %s of group %s could not be taken out: %s", member_id, group.id, problem)
            self.set_session(shard, group, group.members[member_id])

    def _is_here(self, shard: GroupShard, group: ConsumerGroup) -> bool:
        return not shard.closed and shard.machine.groups.get(group.id) is group

    # With the shards and the metadata

    def _opened(self, shard: GroupShard) -> None:
        for group in list(shard.machine.groups.values()):
            if isinstance(group, ConsumerGroup):
                self._arm(shard, group)
                if group.members and group.epoch > group.assignment_epoch:
                    self.groups.timers.set(
                        (CONSUMER, group.id, "", "assign"), 0, partial(self._assign, shard, group)
                    )

    def _arm(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """Members that the records know have one session's time to be heard of."""
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
        for what in ("assign", "refresh"):
            self.groups.timers.cancel((CONSUMER, group.id, "", what))

    def _forget_member(self, group_id: str, member_id: str) -> None:
        for what in ("session", "rebalance", "join", "sync"):
            self.groups.timers.cancel((CONSUMER, group_id, member_id, what))
        told = self._told.get(group_id, {})
        told.pop(member_id, None)
        if not told:
            self._told.pop(group_id, None)


def _nothing_to_tell(came: Beat, request: ConsumerGroupHeartbeatRequest) -> bool:
    """And nothing to wait for from the member, whose next heartbeat would come late if this one were held."""
    member = came.member
    if came.assigned is not None or member.epoch != request.member_epoch:
        return False
    return member.state is not MemberState.UNREVOKED


def _told(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in assigned.items()
        ]
    )
