"""The driver of classic members in consumer groups; `ClassicGroups` drives groups with classic members only.

Handlers call `holds` to find out which of the two a request belongs to."""

from __future__ import annotations

from functools import partial

from tidelog import errors
from tidelog.groups.classic.consumer_protocol import PROTOCOL_TYPE
from tidelog.groups.classic.coordinator import HELD_SESSIONS_MAX, ClassicGroups, MemberConnection
from tidelog.groups.consumer import classic_members
from tidelog.groups.consumer.classic_members import must_rejoin, protocol_of
from tidelog.groups.consumer.coordinator import ConsumerGroups
from tidelog.groups.consumer.driver import GroupShard
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.migration import may_downgrade
from tidelog.groups.consumer.target_assignment import GroupDraft
from tidelog.groups.group import CONSUMER
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    def __init__(self, consumers: ConsumerGroups, classic: ClassicGroups) -> None:
        self._consumers = consumers
        self._driver = consumers.driver
        self._groups = consumers.driver.groups
        self._classic = classic

    def holds(self, group_id: str) -> bool:
        """True for a consumer group with members; an empty one becomes a classic group when a classic member joins."""
        if not group_id:
            return False
        try:
            group = self._groups.shard(group_id).machine.groups.get(group_id)
        except errors.TidelogError:
            return False
        return isinstance(group, ConsumerGroup) and not group.is_empty

    async def join(self, request: JoinGroupRequest, caller: MemberConnection) -> JoinGroupResponse:
        try:
            self._classic.check_join(request)
            return await self._join(request, caller)
        except errors.InconsistentGroupProtocol as problem:
            return JoinGroupResponse(error_code=problem.code)
        except errors.TidelogError as problem:
            return JoinGroupResponse(member_id=request.member_id, error_code=problem.code)

    async def _join(self, request: JoinGroupRequest, caller: MemberConnection) -> JoinGroupResponse:
        driver = self._driver
        shard = self._groups.shard(request.group_id)
        facts = driver.facts(request.group_id)
        draft = GroupDraft(driver.find(shard, request.group_id))
        joined = classic_members.join(
            draft, request, caller.version, caller.client_id, caller.client_host, facts
        )
        member = joined.member
        if member is None:
            return JoinGroupResponse(member_id=joined.member_id, error_code=errors.MemberIdRequired.code)
        if may_downgrade(draft.group, (), facts.config):
            appended = driver.downgrade(shard, draft, (), facts)
        else:
            appended = driver.write(shard, draft)
            group = driver.find(shard, request.group_id)
            self._joined(shard, group, member)
            driver.changed(shard, group)
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return JoinGroupResponse(
            member_id=member.id,
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol_of(member),
        )

    def _joined(self, shard: GroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
        assert member.classic is not None
        self._groups.timers.cancel((CONSUMER, group.id, member.id, "join"))
        self._driver.set_session(shard, group, member, member.classic.session_timeout_ms)
        act = partial(
            self._driver.expire, shard, group, member.id, "sent no SyncGroup within its rebalance timeout"
        )
        self._groups.timers.set((CONSUMER, group.id, member.id, "sync"), member.rebalance_timeout_ms, act)

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        try:
            shard = self._groups.shard(request.group_id)
            group = self._driver.find(shard, request.group_id)
            assignment = classic_members.sync(group, request, self._groups.image)
            member = group.members[request.member_id]
            assert member.classic is not None
            self._groups.timers.cancel((CONSUMER, group.id, member.id, "sync"))
            self._driver.set_session(shard, group, member, member.classic.session_timeout_ms)
            await shard.settled(self._groups.commit_timeout_ms)
        except errors.TidelogError as problem:
            return SyncGroupResponse(error_code=problem.code)
        return SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )

    async def heartbeat(self, request: HeartbeatRequest, caller: MemberConnection) -> int:
        """The error code to answer."""
        try:
            member, rejoin = self._beat(request)
            if not rejoin:
                await self._hold(request, member, caller)
                if not self.holds(request.group_id):
                    return (
                        errors.NONE
                    )  # the group has become classic; the next heartbeat goes to `ClassicGroups`
                _, rejoin = self._beat(request)
        except errors.TidelogError as problem:
            return problem.code
        return errors.RebalanceInProgress.code if rejoin else errors.NONE

    def _beat(self, request: HeartbeatRequest) -> tuple[ConsumerMember, bool]:
        shard = self._groups.shard(request.group_id)
        group = self._driver.find(shard, request.group_id)
        member = classic_members.find(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        assert member.classic is not None
        self._driver.set_session(shard, group, member, member.classic.session_timeout_ms)
        rejoin = must_rejoin(group, member, self._groups.image)
        name = (CONSUMER, group.id, member.id, "join")
        if rejoin and name not in self._groups.timers:
            act = partial(
                self._driver.expire, shard, group, member.id, "did not rejoin within its rebalance timeout"
            )
            self._groups.timers.set(name, member.rebalance_timeout_ms, act)
        return member, rejoin

    async def _hold(
        self, request: HeartbeatRequest, member: ConsumerMember, caller: MemberConnection
    ) -> None:
        if self._consumers.draining:
            return
        assert member.classic is not None
        most_ms = min(
            self._groups.config.tidelog_group_heartbeat_hold_ms,
            int(member.classic.session_timeout_ms * HELD_SESSIONS_MAX),
        )
        await self._driver.held.wait(request.group_id, member.id, most_ms, caller.hold)

    async def leave(self, group_id: str, leaving: list[MemberIdentity]) -> list[MemberResponse]:
        """An answer for each member; raises an error that concerns the whole request."""
        shard = self._groups.shard(group_id)
        group = self._driver.find(shard, group_id)
        answers, gone = classic_members.leave(group, leaving)
        if gone:
            appended = self._driver.remove(shard, group, gone)
            await shard.committed(appended, self._groups.commit_timeout_ms)
        return answers
