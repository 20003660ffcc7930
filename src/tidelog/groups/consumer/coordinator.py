"""The coordinator of consumer groups: performs ConsumerGroupHeartbeat and ConsumerGroupDescribe.

`heartbeat` decides, `driver` writes the decision and performs its consequences.  A heartbeat without news is held until
there is some; see `heartbeat_interval`."""

from __future__ import annotations

from random import Random

from tidelog import errors
from tidelog.coordination.shard import Shard
from tidelog.groups.classic.coordinator import ClassicGroups, MemberConnection
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.consumer.driver import ConsumerDriver
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import (
    HeartbeatResult,
    check_request,
    leaving,
    member_heartbeat,
    step_out,
)
from tidelog.groups.consumer.heartbeat_interval import HeartbeatOutcome, hold_ms, next_ms
from tidelog.groups.consumer.member import (
    JOINING_EPOCH,
    LEFT_EPOCH,
    STATIC_LEFT_EPOCH,
    MemberState,
    Owned,
)
from tidelog.groups.consumer.migration import check_upgrade, upgraded
from tidelog.groups.consumer.target_assignment import GroupDraft, GroupFacts
from tidelog.groups.coordinator import Groups
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.replication.commit_status import Appended
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GroupShard = Shard[GroupStateMachine]


class ConsumerGroups:
    def __init__(self, groups: Groups, classic: ClassicGroups, random: Random) -> None:
        self._groups = groups
        self.driver = ConsumerDriver(groups, classic, random)
        self.draining = False

    # Requests

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: MemberConnection
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer; raises the protocol's error."""
        check_request(request, caller.version, self._groups.config.group_consumer_assignors)
        shard = self._groups.shard(request.group_id)
        if request.member_epoch in (LEFT_EPOCH, STATIC_LEFT_EPOCH):
            return await self._leave(shard, request)
        interval_ms = self.driver.config(request.group_id).consumer_heartbeat_interval_ms
        result, appended = self._beat(shard, request, caller)
        if self._holds:
            told_ms = self.driver.told.get(request.group_id, {}).get(result.member.id, 0)
            since_ms, expired = self._groups.clock.monotonic_ms(), False
            if appended is None and _nothing_to_tell(result, request):
                expired = await self.driver.held.wait(
                    request.group_id, result.member.id, hold_ms(told_ms), caller.hold
                )
                shard = self._groups.shard(request.group_id)
                current = self.driver.find(shard, request.group_id).members.get(result.member.id)
                if not expired or current is not result.member:
                    result, appended = self._beat(shard, request, caller)
            held_ms = self._groups.clock.monotonic_ms() - since_ms
            interval_ms = self._next_ms(shard, request, result, appended is not None, held_ms, expired)
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return ConsumerGroupHeartbeatResponse(
            member_id=result.member.id,
            member_epoch=result.member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=None if result.assigned is None else _told(result.assigned),
        )

    def _next_ms(
        self,
        shard: GroupShard,
        request: ConsumerGroupHeartbeatRequest,
        result: HeartbeatResult,
        written: bool,
        held_ms: int,
        expired: bool,
    ) -> int:
        """The heartbeat interval in this answer."""
        member, group = result.member, self.driver.find(shard, request.group_id)
        interval_ms = self.driver.config(group.id).consumer_heartbeat_interval_ms
        intervals_ms = self.driver.told.setdefault(group.id, {})
        if member.state is MemberState.UNREVOKED:
            told_ms = interval_ms  # the member sends a heartbeat as soon as it has revoked its partitions
        else:
            news = written or not _nothing_to_tell(result, request)
            waiting = group.epoch > group.assignment_epoch or member.state is MemberState.UNRELEASED
            outcome = HeartbeatOutcome(news, waiting, held_ms, expired)
            told_ms = next_ms(intervals_ms.get(member.id, 0), interval_ms, outcome)
        intervals_ms[member.id] = told_ms
        return told_ms

    @property
    def _holds(self) -> bool:
        return self._groups.config.tidelog_group_heartbeat_hold_ms > 0 and not self.draining

    def _beat(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: MemberConnection
    ) -> tuple[HeartbeatResult, Appended | None]:
        facts = self.driver.facts(request.group_id)
        draft, was = self._draft(shard, request, facts)
        result = member_heartbeat(draft, request, caller.client_id, caller.client_host, facts, caller.viewer)
        appended = self.driver.write(shard, draft)
        group = self.driver.find(shard, request.group_id)
        self.driver.viewed_by(group.id, result.member.id, caller.viewer)
        if was is not None:
            self.driver.classic.replaced(shard, was)
            self.driver.arm(shard, group)
        self.driver.set_session(shard, group, result.member)
        self.driver.set_rebalance(shard, group, result.member)
        if appended is not None:
            self.driver.changed(shard, group)
        return result, appended

    def _draft(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, facts: GroupFacts
    ) -> tuple[GroupDraft, ClassicGroup | None]:
        """The draft of the member's group, and the classic group that becomes a consumer group, if there is one."""
        group_id = request.group_id
        group = shard.machine.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return GroupDraft(group), None
        if request.member_epoch != JOINING_EPOCH:
            raise errors.GroupIdNotFound(f"Consumer group {group_id} not found.")
        if group is None:
            return GroupDraft(ConsumerGroup(group_id)), None
        if not isinstance(group, ClassicGroup):
            raise errors.GroupIdNotFound(f"group {group_id} is a {group.kind} group")
        draft = GroupDraft(ConsumerGroup(group_id), group.tombstones())
        if group.is_empty:
            return draft, group
        check_upgrade(group, facts.config)
        draft.add(*upgraded(group, facts.image))
        return draft, group

    async def _leave(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        group = self.driver.find(shard, request.group_id)
        member = leaving(group, request)
        if request.member_epoch == STATIC_LEFT_EPOCH:
            draft = GroupDraft(group)
            step_out(draft, member)
            appended = self.driver.write(shard, draft)
            self.driver.held.release(group.id, member.id)
        else:
            appended = self.driver.remove(shard, group, {member.id: member})
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return ConsumerGroupHeartbeatResponse(member_id=member.id, member_epoch=request.member_epoch)

    async def described(self, group_id: str) -> ConsumerGroup:
        """The group, for ConsumerGroupDescribe; raises GroupIdNotFound if it is no consumer group."""
        shard = self._groups.shard(group_id)
        group = self.driver.find(shard, group_id)
        await shard.settled(self._groups.commit_timeout_ms)
        return group

    def drain(self) -> None:
        """Answers held heartbeats, because the broker is shutting down."""
        self.draining = True
        self.driver.held.release_all()


def _nothing_to_tell(result: HeartbeatResult, request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if this heartbeat can be held: it brings no news, and the member has nothing to revoke.  A member that revokes
    partitions must be able to send its next heartbeat at once."""
    member = result.member
    if result.assigned is not None or member.epoch != request.member_epoch:
        return False
    return member.state is not MemberState.UNREVOKED


def _told(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in assigned.items()
        ]
    )
