"""Drives classic groups: requests and deadlines come in, `classic_turn` decides, here it is done.

A request that waits for others is a future in its member, and is answered by whoever's turn ends the wait.  Sessions,
joins under way and held heartbeats are in memory only: they go with the shard, and members find out at their next
request."""

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
from tidelog.groups.classic import ClassicGroup, State
from tidelog.groups.classic_join import Joiner, Replacement, join, refused, replaced
from tidelog.groups.classic_member import Protocols
from tidelog.groups.classic_sync import (
    Assignment,
    assigned,
    assignment_failed,
    assignment_settled,
    heartbeat,
    leave,
    sync,
)
from tidelog.groups.classic_turn import (
    Answer,
    InitialDue,
    JoinDue,
    Rebalancing,
    Session,
    Settings,
    SyncDue,
    Turn,
    WithheldDue,
    Write,
)
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import CONSUMER
from tidelog.groups.held import Held, HeldAnswer, Hold
from tidelog.groups.machine import GroupMachine
from tidelog.replication.commit_status import Appended
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger("tidelog.groups")

GroupShard = Shard[GroupMachine]
Waits = asyncio.Future[Any]

# A hold ends long before the client's session would: it must get its answer, and send the next heartbeat.
HELD_SESSIONS_MAX = 1 / 3
WITHHELD_MS_MAX = 1000


class Caller(NamedTuple):
    """`hold` lets an answer wait until the connection gets another request; false when it must not wait at all."""

    client_id: str
    client_host: str
    version: int
    hold: Hold


class ClassicGroups:
    def __init__(self, groups: Groups, random: Random) -> None:
        self._groups = groups
        self._random = random
        self._held = Held("classic", groups.timers)
        self._draining = False
        groups.coordinator.opened.append(self._opened)
        groups.coordinator.closed.append(self._closed)

    # Requests

    async def join(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
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
            turn = self._turn(group)
            outcome = join(turn, request, joiner)
            if isinstance(outcome, Replacement):
                leader = group.leader
                appended = shard.append([outcome.entry])
                outcome = replaced(turn, outcome, leader, caller.version)
            self._perform(shard, turn)
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
            raise errors.InvalidSessionTimeout(f"a session of {request.session_timeout_ms} ms")
        self._check_running()

    def _check_running(self) -> None:
        if self._draining:
            raise errors.CoordinatorNotAvailable("this broker stops")

    def _group_to_join(
        self, shard: GroupShard, request: JoinGroupRequest
    ) -> tuple[ClassicGroup | None, Appended | None]:
        """The group; made if the request may make one.  What is made is written before anybody is told of it."""
        machine, group_id = shard.machine, request.group_id
        known = machine.groups.get(group_id)
        if isinstance(known, ClassicGroup):
            return known, None
        if known is not None and not (known.kind == CONSUMER and known.is_empty):
            raise errors.InconsistentGroupProtocol(f"group {group_id} is a {known.kind} group")
        if request.member_id:
            return None, None
        fresh = ClassicGroup(group_id, since_ms=self._groups.clock.now_ms())
        if not fresh.supports(request.protocol_type, tuple((one.name, b"") for one in request.protocols)):
            raise errors.InconsistentGroupProtocol("a member needs a protocol type and a protocol")
        entries = [] if known is None else known.tombstones()
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
            turn = self._turn(group)
            outcome = sync(turn, request, waiter)
            self._perform(shard, turn)
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
            turn = self._turn(group)
            assignment_failed(turn, given.generation, problem.code)
            self._perform(shard, turn)
            return
        turn = self._turn(group)
        assigned(turn)
        self._perform(shard, turn)
        error_code = errors.NONE
        try:
            await shard.committed(appended, self._groups.commit_timeout_ms)
        except errors.TidelogError as problem:
            error_code = problem.code
        turn = self._turn(group)
        assignment_settled(turn, given.generation, error_code)
        self._perform(shard, turn)

    def heartbeat(self, request: HeartbeatRequest, hold: Hold) -> int | HeldAnswer[int]:
        """The error code to answer."""
        try:
            shard, group = self._find(request.group_id)
            member_id = request.member_id
            session_ms = heartbeat(group, member_id, request.group_instance_id, request.generation_id)
            self._set_session(shard, group, member_id, session_ms)
        except errors.CoordinatorLoadInProgress:
            return errors.NONE  # its session begins anew when the group is loaded
        except errors.TidelogError as problem:
            return problem.code
        if group.state is State.STABLE and not self._draining:
            most_ms = min(
                self._groups.config.tidelog_group_heartbeat_hold_ms, int(session_ms * HELD_SESSIONS_MAX)
            )
            hold_ms = group.members[member_id].cadence.hold_ms(most_ms, asyncio.get_running_loop().time())
            find = partial(self._news, shard, group, request)
            held = self._held.answer(group.id, member_id, hold_ms, hold, find)
            if held is not None:
                return held
        return errors.RebalanceInProgress.code if group.state is State.PREPARING else errors.NONE

    def _news(self, shard: GroupShard, group: ClassicGroup, request: HeartbeatRequest, expired: bool) -> int:
        """What a heartbeat that was held is answered."""
        if shard.machine.groups.get(group.id) is not group:
            return errors.NONE  # it became a consumer group, and the member one of that
        try:
            heartbeat(group, request.member_id, request.group_instance_id, request.generation_id)
        except errors.TidelogError as problem:
            return problem.code
        if expired:
            group.members[request.member_id].cadence.expired(asyncio.get_running_loop().time())
        return errors.RebalanceInProgress.code if group.state is State.PREPARING else errors.NONE

    async def leave(self, group_id: str, leaving: list[MemberIdentity]) -> list[MemberResponse]:
        """An answer for each; raises what is wrong with all of them."""
        if not group_id:
            raise errors.InvalidGroupId("the group id is empty")
        try:
            shard, group = self._find(group_id)
        except errors.UnknownMemberId as problem:
            return [MemberResponse(one.member_id, one.group_instance_id, problem.code) for one in leaving]
        turn = self._turn(group)
        answers = leave(turn, leaving)
        self._perform(shard, turn)
        await shard.settled(self._groups.commit_timeout_ms)
        return answers

    def committed(self, shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
        """A member committed offsets: it is there."""
        member = group.members.get(member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING):
            self._set_session(shard, group, member_id, member.session_timeout_ms)

    def drain(self) -> None:
        """Answers whatever waits: the broker stops."""
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

    # Doing what was decided

    def _turn(self, group: ClassicGroup) -> Turn:
        config = self._groups.config
        settings = Settings(
            config.group_initial_rebalance_delay_ms,
            config.group_max_size,
            min(config.tidelog_group_heartbeat_hold_ms, WITHHELD_MS_MAX),
        )
        return Turn(group, settings, self._groups.clock.now_ms())

    def _perform(self, shard: GroupShard, turn: Turn) -> None:
        group, timers = turn.group, self._groups.timers
        for effect in turn.effects:
            if isinstance(effect, Answer):
                assert isinstance(effect.waiter, asyncio.Future)
                if not effect.waiter.done():
                    effect.waiter.set_result(effect.response)
            elif isinstance(effect, Session):
                self._set_session(shard, group, effect.member_id, effect.within_ms)
            elif isinstance(effect, InitialDue):
                over = partial(Turn.initial_over, due=effect)
                timers.set(("join", group.id), effect.after_ms, partial(self._due, shard, group, over))
            elif isinstance(effect, JoinDue):
                self._set(
                    ("join", group.id), effect.after_ms, partial(self._due, shard, group, Turn.complete)
                )
            elif isinstance(effect, SyncDue):
                over = partial(Turn.sync_over, generation=group.generation)
                self._set(("sync", group.id), effect.after_ms, partial(self._due, shard, group, over))
            elif isinstance(effect, WithheldDue):
                act = partial(self._due, shard, group, Turn.withheld_over)
                self._set(("withheld", group.id), effect.after_ms, act)
            elif isinstance(effect, Rebalancing):
                self._held.release_group(group.id)
            else:
                self._write(shard, effect)

    def _write(self, shard: GroupShard, effect: Write) -> None:
        try:
            shard.append([effect.entry])
        except errors.TidelogError as problem:
            log.warning("group %s is empty, which could not be written: %s", effect.entry.key.group, problem)

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
                name, within_ms, partial(self._due, shard, group, Turn.session_over, member_id)
            )

    def _due(self, shard: GroupShard, group: ClassicGroup, event: Callable[..., None], *what: Any) -> None:
        """A deadline passed."""
        if shard.closed or shard.machine.groups.get(group.id) is not group:
            return
        turn = self._turn(group)
        event(turn, *what)
        self._perform(shard, turn)

    # With the shards

    def _opened(self, shard: GroupShard) -> None:
        """Members that the records know have one session's time to be heard of."""
        size_max = self._groups.config.group_max_size
        for group in list(shard.machine.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._set_session(shard, group, member.id, member.session_timeout_ms)
            if len(group.members) > size_max:
                self._due(shard, group, Turn.prepare)

    def _closed(self, shard: GroupShard) -> None:
        self._dismiss(shard)
        for group in shard.machine.groups.values():
            if isinstance(group, ClassicGroup):
                self.forget(group)

    def forget(self, group: ClassicGroup) -> None:
        """The group is not here any more."""
        timers = self._groups.timers
        timers.cancel(("join", group.id))
        timers.cancel(("sync", group.id))
        timers.cancel(("withheld", group.id))
        for member_id in (*group.members, *group.promised):
            timers.cancel(("session", group.id, member_id))

    def replaced(self, shard: GroupShard, group: ClassicGroup) -> None:
        """A consumer group is in its place now: members that wait are told to come again."""
        self._answer_all(shard, group, errors.RebalanceInProgress.code)
        self.forget(group)

    def adopted(
        self, shard: GroupShard, group: ClassicGroup, protocols: Mapping[str, Protocols], rebalance: bool
    ) -> None:
        """A consumer group became this one.  `protocols`: what its record does not hold of its members."""
        for member in group.members.values():
            member.protocols = protocols[member.id]
            self._set_session(shard, group, member.id, member.session_timeout_ms)
        if rebalance:
            self._due(shard, group, Turn.prepare)

    def _dismiss(self, shard: GroupShard) -> None:
        """Whoever waits for something of this shard is told to look for the coordinator again."""
        for group in shard.machine.groups.values():
            if isinstance(group, ClassicGroup):
                self._answer_all(shard, group, errors.NotCoordinator.code)

    def _answer_all(self, shard: GroupShard, group: ClassicGroup, code: int) -> None:
        self._held.release_group(group.id)
        turn = self._turn(group)
        for member in group.members.values():
            turn.answer_join(member, JoinGroupResponse(member_id=member.id, error_code=code))
            turn.answer_sync(member, code)
        self._perform(shard, turn)
