"""The driver of classic groups: takes requests and deadlines, lets `rebalance` decide, and performs the effects.

A JoinGroup or SyncGroup that waits is a future in its member; the step that ends the wait answers it.  Sessions, joins
under way and held heartbeats are in memory only: they are dropped with the shard, and members learn of that at their
next request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.shard import Shard
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.join import Joiner, Replacement, join, refused, replaced
from tidelog.groups.classic.member import Protocols
from tidelog.groups.classic.rebalance import (
    GroupStep,
    RebalanceBegan,
    RebalanceSettings,
    SendResponse,
    SetInitialDelay,
    SetJoinDeadline,
    SetSession,
    SetSyncDeadline,
    SetWithheldDeadline,
    WriteRecord,
)
from tidelog.groups.classic.sync import (
    Assignment,
    assigned,
    assignment_failed,
    assignment_settled,
    heartbeat,
    leave,
    sync,
)
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import CONSUMER, STREAMS
from tidelog.groups.held_heartbeats import HeldAnswer, HeldHeartbeats, Hold
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.replication.commit_status import Appended
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupStateMachine]
Waits = asyncio.Future[Any]

# A hold ends long before the client's session does: the client must get its answer and send the next heartbeat.
HELD_SESSIONS_MAX = 1 / 3
WITHHELD_MS_MAX = 1000


class MemberConnection(NamedTuple):
    """The member's client, and the request's version.  `hold` lets an answer wait until the connection gets another
    request; it returns false if the answer must not wait."""

    client_id: str
    client_host: str
    version: int
    hold: Hold
    viewer: TopicViewer | None = None
    """None: the client may know of every topic."""


class ClassicGroups:
    def __init__(self, groups: Groups, random: Random) -> None:
        self._groups = groups
        self._random = random
        self._held = HeldHeartbeats("classic", groups.timers)
        self._draining = False
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)

    # Requests

    async def join(self, request: JoinGroupRequest, caller: MemberConnection) -> JoinGroupResponse:
        try:
            self.check_join(request)
            shard = self._groups.shard(request.group_id)
            group, appended = self._group_to_join(shard, request)
            if group is None:
                return refused(request.member_id, errors.UnknownMemberId)
            waiter: Waits = asyncio.get_running_loop().create_future()
            joiner = Joiner(
                caller.client_id,
                caller.client_host,
                caller.version,
                self._new_id(request, caller.client_id),
                waiter,
            )
            step = self._step(group)
            outcome = join(step, request, joiner)
            if isinstance(outcome, Replacement):
                leader = group.leader
                appended = shard.append([outcome.entry])
                outcome = replaced(step, outcome, leader, caller.version)
            self._perform(shard, step)
            if outcome is None:
                outcome = await waiter
            await shard.committed(appended, self._groups.commit_timeout_ms)
        except errors.InconsistentGroupProtocol:
            return refused("", errors.InconsistentGroupProtocol)
        except errors.TidelogError as problem:
            return JoinGroupResponse(member_id=request.member_id, error_code=problem.code)
        return outcome

    def check_join(self, request: JoinGroupRequest) -> None:
        config = self._groups.config
        if not request.group_id:
            raise errors.InvalidGroupId("the group id is empty")
        least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            raise errors.InvalidSessionTimeout(
                f"session.timeout.ms is {request.session_timeout_ms}: it must be from {least} to {most}, "
                f"which are group.min.session.timeout.ms and group.max.session.timeout.ms of the broker"
            )
        self._check_running()

    def _check_running(self) -> None:
        if self._draining:
            raise errors.CoordinatorNotAvailable("this broker is shutting down")

    def _group_to_join(
        self, shard: GroupShard, request: JoinGroupRequest
    ) -> tuple[ClassicGroup | None, Appended | None]:
        """The group; created if the request may create it.  A new group is written before any client learns of it."""
        machine, group_id = shard.machine, request.group_id
        group = machine.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group, None
        if group is not None and not (group.kind in (CONSUMER, STREAMS) and group.is_empty):
            raise errors.InconsistentGroupProtocol(f"group {group_id} is a {group.kind} group")
        if request.member_id:
            return None, None
        fresh = ClassicGroup(group_id, since_ms=self._groups.clock.now_ms())
        if not fresh.supports(
            request.protocol_type, tuple((protocol.name, b"") for protocol in request.protocols)
        ):
            raise errors.InconsistentGroupProtocol("a member needs a protocol type and a protocol")
        entries = [] if group is None else group.tombstones()
        appended = shard.append([*entries, fresh.entry()])
        made = machine.groups[group_id]
        assert isinstance(made, ClassicGroup)
        return made, appended

    def _new_id(self, request: JoinGroupRequest, client_id: str) -> str:
        unique = UUID(int=self._random.getrandbits(128), version=4)
        return f"{client_id if request.group_instance_id is None else request.group_instance_id}-{unique}"

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        try:
            self._check_running()
            shard, group = self._find(request.group_id)
            if group.is_empty:
                raise errors.UnknownMemberId(f"group {group.id} has no members")
            waiter: Waits = asyncio.get_running_loop().create_future()
            step = self._step(group)
            outcome = sync(step, request, waiter)
            self._perform(shard, step)
            if isinstance(outcome, SyncGroupResponse):
                await shard.settled(self._groups.commit_timeout_ms)
                return outcome
            if outcome is not None:
                await self._assign(shard, group, outcome)
            answer: SyncGroupResponse = await waiter
            return answer
        except errors.TidelogError as problem:
            return SyncGroupResponse(error_code=problem.code)

    async def _assign(self, shard: GroupShard, group: ClassicGroup, given: Assignment) -> None:
        try:
            appended = shard.append([given.entry])
        except errors.TidelogError as problem:
            step = self._step(group)
            assignment_failed(step, given.generation, problem.code)
            self._perform(shard, step)
            return
        step = self._step(group)
        assigned(step)
        self._perform(shard, step)
        error_code = errors.NONE
        try:
            await shard.committed(appended, self._groups.commit_timeout_ms)
        except errors.TidelogError as problem:
            error_code = problem.code
        step = self._step(group)
        assignment_settled(step, given.generation, error_code)
        self._perform(shard, step)

    def heartbeat(self, request: HeartbeatRequest, hold: Hold) -> int | HeldAnswer[int]:
        """The error code to answer."""
        try:
            shard, group = self._find(request.group_id)
            member_id = request.member_id
            session_ms = heartbeat(group, member_id, request.group_instance_id, request.generation_id)
            self._set_session(shard, group, member_id, session_ms)
        except errors.CoordinatorLoadInProgress:
            return errors.NONE  # the member's session begins anew when the group is loaded
        except errors.TidelogError as problem:
            return problem.code
        if group.state is ClassicState.STABLE and not self._draining:
            most_ms = min(
                self._groups.config.tidelog_group_heartbeat_hold_ms, int(session_ms * HELD_SESSIONS_MAX)
            )
            hold_ms = group.members[member_id].cadence.hold_ms(most_ms, asyncio.get_running_loop().time())
            find = partial(self._news, shard, group, request)
            held = self._held.answer(group.id, member_id, hold_ms, hold, find)
            if held is not None:
                return held
        return errors.RebalanceInProgress.code if group.state is ClassicState.PREPARING else errors.NONE

    def _news(self, shard: GroupShard, group: ClassicGroup, request: HeartbeatRequest, expired: bool) -> int:
        """The answer to a heartbeat that was held."""
        if shard.machine.groups.get(group.id) is not group:
            return errors.NONE  # the group became a consumer group, and the member is still in it
        try:
            heartbeat(group, request.member_id, request.group_instance_id, request.generation_id)
        except errors.TidelogError as problem:
            return problem.code
        if expired:
            group.members[request.member_id].cadence.expired(asyncio.get_running_loop().time())
        return errors.RebalanceInProgress.code if group.state is ClassicState.PREPARING else errors.NONE

    async def leave(self, group_id: str, leaving: list[MemberIdentity]) -> list[MemberResponse]:
        """An answer for each member; raises an error that concerns the whole request."""
        if not group_id:
            raise errors.InvalidGroupId("the group id is empty")
        try:
            shard, group = self._find(group_id)
        except errors.UnknownMemberId as problem:
            return [
                MemberResponse(identity.member_id, identity.group_instance_id, problem.code)
                for identity in leaving
            ]
        step = self._step(group)
        answers = leave(step, leaving)
        self._perform(shard, step)
        await shard.settled(self._groups.commit_timeout_ms)
        return answers

    def committed(self, shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
        """A member committed offsets, so it is alive."""
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self._set_session(shard, group, member_id, member.session_timeout_ms)

    def drain(self) -> None:
        """Answers all waiting requests, because the broker is shutting down."""
        self._draining = True
        for shard in self._groups.coordinator.shards():
            self._dismiss(shard)

    def _find(self, group_id: str) -> tuple[GroupShard, ClassicGroup]:
        if not group_id:
            raise errors.InvalidGroupId("the group id is empty")
        shard = self._groups.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise errors.UnknownMemberId(f"there is no classic group {group_id}")
        return shard, group

    # Performing decisions

    def _step(self, group: ClassicGroup) -> GroupStep:
        config = self._groups.config
        settings = RebalanceSettings(
            config.group_initial_rebalance_delay_ms,
            config.group_max_size,
            min(config.tidelog_group_heartbeat_hold_ms, WITHHELD_MS_MAX),
        )
        return GroupStep(group, settings, self._groups.clock.now_ms())

    def _perform(self, shard: GroupShard, step: GroupStep) -> None:
        group, timers = step.group, self._groups.timers
        for effect in step.effects:
            if isinstance(effect, SendResponse):
                assert isinstance(effect.waiter, asyncio.Future)
                if not effect.waiter.done():
                    effect.waiter.set_result(effect.response)
            elif isinstance(effect, SetSession):
                self._set_session(shard, group, effect.member_id, effect.within_ms)
            elif isinstance(effect, SetInitialDelay):
                over = partial(GroupStep.initial_over, due=effect)
                timers.set(("join", group.id), effect.after_ms, partial(self._due, shard, group, over))
            elif isinstance(effect, SetJoinDeadline):
                self._set(
                    ("join", group.id), effect.after_ms, partial(self._due, shard, group, GroupStep.complete)
                )
            elif isinstance(effect, SetSyncDeadline):
                over = partial(GroupStep.sync_over, generation=group.generation)
                self._set(("sync", group.id), effect.after_ms, partial(self._due, shard, group, over))
            elif isinstance(effect, SetWithheldDeadline):
                act = partial(self._due, shard, group, GroupStep.withheld_over)
                self._set(("withheld", group.id), effect.after_ms, act)
            elif isinstance(effect, RebalanceBegan):
                self._held.release_group(group.id)
            else:
                self._write(shard, effect)
        self._groups.changed(group)

    def _write(self, shard: GroupShard, effect: WriteRecord) -> None:
        try:
            shard.append([effect.entry])
        except errors.TidelogError as problem:
            log.warning("cannot write that group %s is empty: %s", effect.entry.key.group, problem)

    def _set(self, name: tuple[str, ...], after_ms: int | None, act: Callable[[], None]) -> None:
        if after_ms is None:
            self._groups.timers.cancel(name)
        else:
            self._groups.timers.set(name, after_ms, act)

    def _set_session(
        self, shard: GroupShard, group: ClassicGroup, member_id: str, within_ms: int | None
    ) -> None:
        name = ("session", group.id, member_id)
        if within_ms is None:
            self._groups.timers.cancel(name)
        else:
            self._groups.timers.set(
                name, within_ms, partial(self._due, shard, group, GroupStep.session_over, member_id)
            )

    def _due(
        self, shard: GroupShard, group: ClassicGroup, event: Callable[..., None], *arguments: Any
    ) -> None:
        """A deadline passed."""
        if shard.closed or shard.machine.groups.get(group.id) is not group:
            return
        step = self._step(group)
        event(step, *arguments)
        self._perform(shard, step)

    # With the shards

    def _opened(self, shard: GroupShard) -> None:
        """Members in the records have one session timeout to send a heartbeat."""
        size_max = self._groups.config.group_max_size
        for group in list(shard.machine.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._set_session(shard, group, member.id, member.session_timeout_ms)
            if len(group.members) > size_max:
                self._due(shard, group, GroupStep.prepare)

    def _closed(self, shard: GroupShard) -> None:
        self._dismiss(shard)
        for group in shard.machine.groups.values():
            if isinstance(group, ClassicGroup):
                self.forget(group)

    def forget(self, group: ClassicGroup) -> None:
        """This broker does not coordinate the group any more: its timers go."""
        timers = self._groups.timers
        timers.cancel(("join", group.id))
        timers.cancel(("sync", group.id))
        timers.cancel(("withheld", group.id))
        for member_id in (*group.members, *group.promised):
            timers.cancel(("session", group.id, member_id))

    def replaced(self, shard: GroupShard, group: ClassicGroup) -> None:
        """A consumer group has replaced this one: waiting members are told to join again."""
        self._answer_all(shard, group, errors.RebalanceInProgress.code)
        self.forget(group)

    def adopted(
        self, shard: GroupShard, group: ClassicGroup, protocols: Mapping[str, Protocols], rebalance: bool
    ) -> None:
        """A consumer group became this classic group.  `protocols` of the members are not in the group's record."""
        for member in group.members.values():
            member.protocols = protocols[member.id]
            self._set_session(shard, group, member.id, member.session_timeout_ms)
        if rebalance:
            self._due(shard, group, GroupStep.prepare)

    def _dismiss(self, shard: GroupShard) -> None:
        """Waiting requests of this shard are answered with NOT_COORDINATOR: clients look for the new coordinator."""
        for group in shard.machine.groups.values():
            if isinstance(group, ClassicGroup):
                self._answer_all(shard, group, errors.NotCoordinator.code)

    def _answer_all(self, shard: GroupShard, group: ClassicGroup, code: int) -> None:
        self._held.release_group(group.id)
        step = self._step(group)
        for member in group.members.values():
            step.answer_join(member, JoinGroupResponse(member_id=member.id, error_code=code))
            step.answer_sync(member, code)
        self._perform(shard, step)
