"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, performed: `consumer_heartbeat` decides, `consumer_driver` writes it
and does what follows from it.  A heartbeat without news is held until there is some; see `consumer_pace`."""

from __future__ import annotations

from random import Random

from tidelog import errors
from tidelog.coordination.shard import Shard
from tidelog.groups.classic import ClassicGroup
from tidelog.groups.classic_coordinator import Caller, ClassicGroups
from tidelog.groups.consumer import ConsumerGroup
from tidelog.groups.consumer_driver import ConsumerDriver
from tidelog.groups.consumer_heartbeat import Beat, beat, check_request, leaving, step_out
from tidelog.groups.consumer_member import (
    JOINING_EPOCH,
    LEFT_EPOCH,
    STATIC_LEFT_EPOCH,
    MemberState,
    Owned,
)
from tidelog.groups.consumer_migration import check_upgrade, upgraded
from tidelog.groups.consumer_pace import Outcome, hold_ms, next_ms
from tidelog.groups.consumer_target import Draft, World
from tidelog.groups.coordinator import Groups
from tidelog.groups.machine import GroupMachine
from tidelog.replication.commit_status import Appended
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GroupShard = Shard[GroupMachine]


class ConsumerGroups:
    def __init__(self, groups: Groups, classic: ClassicGroups, random: Random) -> None:
        self._groups = groups
        self.driver = ConsumerDriver(groups, classic, random)
        self.draining = False

    # Requests

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises what is wrong with it."""
        check_request(request, caller.version, self._groups.config.group_consumer_assignors)
        shard = self._groups.shard(request.group_id)
        if request.member_epoch in (LEFT_EPOCH, STATIC_LEFT_EPOCH):
            return await self._leave(shard, request)
        interval_ms = self.driver.config(request.group_id).consumer_heartbeat_interval_ms
        came, appended = self._beat(shard, request, caller)
        if self._holds:
            told_ms = self.driver.told.get(request.group_id, {}).get(came.member.id, 0)
            since_ms, expired = self._groups.clock.monotonic_ms(), False
            if appended is None and _nothing_to_tell(came, request):
                expired = await self.driver.held.wait(
                    request.group_id, came.member.id, hold_ms(told_ms), caller.hold
                )
                shard = self._groups.shard(request.group_id)
                known = self.driver.find(shard, request.group_id).members.get(came.member.id)
                if not expired or known is not came.member:
                    came, appended = self._beat(shard, request, caller)
            held_ms = self._groups.clock.monotonic_ms() - since_ms
            interval_ms = self._next_ms(shard, request, came, appended is not None, held_ms, expired)
        await shard.committed(appended, self._groups.commit_timeout_ms)
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
        member, group = came.member, self.driver.find(shard, request.group_id)
        interval_ms = self.driver.config(group.id).consumer_heartbeat_interval_ms
        told = self.driver.told.setdefault(group.id, {})
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
        return self._groups.config.tidelog_group_heartbeat_hold_ms > 0 and not self.draining

    def _beat(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> tuple[Beat, Appended | None]:
        world = self.driver.world(request.group_id)
        draft, was = self._draft(shard, request, world)
        came = beat(draft, request, caller.client_id, caller.client_host, world)
        appended = self.driver.write(shard, draft)
        group = self.driver.find(shard, request.group_id)
        if was is not None:
            self.driver.classic.replaced(shard, was)
            self.driver.arm(shard, group)
        self.driver.set_session(shard, group, came.member)
        self.driver.set_rebalance(shard, group, came.member)
        if appended is not None:
            self.driver.changed(shard, group)
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
        group = self.driver.find(shard, request.group_id)
        member = leaving(group, request)
        if request.member_epoch == STATIC_LEFT_EPOCH:
            draft = Draft(group)
            step_out(draft, member)
            appended = self.driver.write(shard, draft)
            self.driver.held.release(group.id, member.id)
        else:
            appended = self.driver.remove(shard, group, {member.id: member})
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return ConsumerGroupHeartbeatResponse(member_id=member.id, member_epoch=request.member_epoch)

    async def described(self, group_id: str) -> ConsumerGroup:
        """The group, to be described; GroupIdNotFound when there is no such consumer group."""
        shard = self._groups.shard(group_id)
        group = self.driver.find(shard, group_id)
        await shard.settled(self._groups.commit_timeout_ms)
        return group

    def drain(self) -> None:
        """Answers whatever waits: the broker stops."""
        self.draining = True
        self.driver.held.release_all()


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
