"""The coordinator of streams groups: performs StreamsGroupHeartbeat and StreamsGroupDescribe.

`heartbeat` decides, `driver` performs the consequences.  A heartbeat without news is held until there is some, as those
of consumer groups are; see `consumer/heartbeat_interval.py`."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.classic.coordinator import ClassicGroups, MemberConnection
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.consumer.heartbeat_interval import HeartbeatOutcome, hold_ms, next_ms
from tidelog.groups.coordinator import Groups
from tidelog.groups.streams.driver import GroupShard, LastTold, StreamsDriver
from tidelog.groups.streams.endpoints import partitions_by_endpoint
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.heartbeat import (
    StreamsHeartbeatResult,
    check_streams_request,
    streams_heartbeat,
)
from tidelog.groups.streams.internal_topics import StreamsStatus
from tidelog.groups.streams.member import JOINING_EPOCH, LEFT_EPOCH, StreamsMemberState
from tidelog.groups.streams.tasks import Tasks, by_subtopology
from tidelog.metadata.controller import Controller
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.replication.commit_status import Appended
from tidelog.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

log = logging.getLogger("tidelog.groups")

PROBLEMS_TOLD_MAX = 3
CREATION_WAIT_S = 1.0  # much less than a client waits for an answer


class StreamsAnswer(NamedTuple):
    """`missing`: the internal topics that the group waits for."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[TopicSpec, ...] = ()


class StreamsGroups:
    def __init__(self, groups: Groups, classic: ClassicGroups, controller: Controller) -> None:
        self._groups = groups
        self._classic = classic
        self._controller = controller
        self._creating: dict[str, asyncio.Task[None]] = {}
        self.driver = StreamsDriver(groups)
        self.draining = False

    # Requests

    async def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: MemberConnection
    ) -> StreamsAnswer:
        """The answer; raises the protocol's error."""
        check_streams_request(request)
        shard = self._groups.shard(request.group_id)
        if request.member_epoch == LEFT_EPOCH:
            return StreamsAnswer(await self._leave(shard, request))
        result, appended = self._beat(shard, request, caller)
        group = self.driver.find(shard, request.group_id)
        expired, held_ms = False, 0
        if appended is None and self._may_hold(group, result, request):
            since_ms = self._groups.clock.monotonic_ms()
            expired = await self.driver.held.wait(
                group.id, result.member.id, hold_ms(self._told(request).interval_ms), caller.hold
            )
            shard = self._groups.shard(request.group_id)
            group = self.driver.find(shard, request.group_id)
            if not expired or group.members.get(result.member.id) is not result.member:
                result, appended = self._beat(shard, request, caller)
            held_ms = self._groups.clock.monotonic_ms() - since_ms
        response = self._response(group, request, result)
        news = appended is not None or not self._is_quiet(group, result, request)
        outcome = HeartbeatOutcome(news, _waits(group, result), held_ms, expired)
        response.heartbeat_interval_ms = self._next_ms(group, request, result, outcome)
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return StreamsAnswer(response, result.configured.missing)

    def _beat(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest, caller: MemberConnection
    ) -> tuple[StreamsHeartbeatResult, Appended | None]:
        before, was = self._group(shard, request)
        facts = self.driver.facts(request.group_id, begins=before.is_empty)
        result = streams_heartbeat(before, request, (caller.client_id, caller.client_host), facts)
        appended = shard.append([*(was.tombstones() if was is not None else ()), *result.entries])
        group = self.driver.find(shard, request.group_id)
        if was is not None:
            self._classic.replaced(shard, was)
        if before.is_empty:
            self.driver.begin_delay(shard, group)
        group.configured, group.seen = result.configured, facts.image.topics
        if result.moved and result.member.endpoint is not None:
            group.endpoints_epoch += 1
        if request.shutdown_application:
            group.shutdown_by = result.member.id
        self.driver.set_session(shard, group, result.member.id)
        self.driver.set_rebalance(shard, group, result.member)
        if appended is not None or request.shutdown_application:
            self.driver.advance(shard, group)
        return result, appended

    def _group(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest
    ) -> tuple[StreamsGroup, ClassicGroup | None]:
        """The member's group, and the empty classic group that it replaces, if there is one."""
        group = shard.machine.groups.get(request.group_id)
        if request.member_epoch == JOINING_EPOCH:
            if group is None:
                return StreamsGroup(request.group_id), None
            if isinstance(group, ClassicGroup) and group.is_empty:
                return StreamsGroup(request.group_id), group
        return self.driver.find(shard, request.group_id), None

    async def _leave(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest
    ) -> StreamsGroupHeartbeatResponse:
        group = self.driver.find(shard, request.group_id)
        member = group.member(request.member_id)
        if request.shutdown_application:
            group.shutdown_by = member.id
        appended = self.driver.remove(shard, group, member)
        await shard.committed(appended, self._groups.commit_timeout_ms)
        return StreamsGroupHeartbeatResponse(
            member_id=member.id, member_epoch=request.member_epoch, status=[]
        )

    async def described(self, group_id: str) -> StreamsGroup:
        """The group, for StreamsGroupDescribe; raises GroupIdNotFound if it is no streams group."""
        shard = self._groups.shard(group_id)
        group = self.driver.find(shard, group_id)
        await shard.settled(self._groups.commit_timeout_ms)
        return group

    def drain(self) -> None:
        """Answers held heartbeats, because the broker is shutting down."""
        self.draining = True
        self.driver.held.release_all()
        for task in self._creating.values():
            task.cancel()

    # Answers

    def _response(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, result: StreamsHeartbeatResult
    ) -> StreamsGroupHeartbeatResponse:
        member, assigned = result.member, result.assigned
        response = StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            status=[Status(code, text) for code, text in self._statuses(group, result).items()],
            endpoint_information_epoch=group.endpoints_epoch,
        )
        if assigned is not None:
            response.active_tasks = _ids(assigned.active)
            response.standby_tasks = _ids(assigned.standby)
            response.warmup_tasks = _ids(assigned.warmup)
        if group.endpoints_epoch != request.endpoint_information_epoch:
            facts = self.driver.facts(group.id)
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                group.members.values(), result.topology, facts.partitions
            )
        return response

    def _statuses(self, group: StreamsGroup, result: StreamsHeartbeatResult) -> dict[StreamsStatus, str]:
        statuses = dict(result.statuses)
        if StreamsStatus.MISSING_INTERNAL_TOPICS in statuses and group.creation_problems:
            failed = "; ".join(group.creation_problems[:PROBLEMS_TOLD_MAX])
            statuses[StreamsStatus.MISSING_INTERNAL_TOPICS] += f"; Creation failed: {failed}."
        if group.shutdown_by is not None:
            statuses[StreamsStatus.SHUTDOWN_APPLICATION] = (
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the "
                f"entire application."
            )
        return statuses

    # Intervals

    def _told(self, request: StreamsGroupHeartbeatRequest) -> LastTold:
        return self.driver.told.get(request.group_id, {}).get(request.member_id, LastTold())

    def _may_hold(
        self, group: StreamsGroup, result: StreamsHeartbeatResult, request: StreamsGroupHeartbeatRequest
    ) -> bool:
        """A member that has tasks to give back must be able to send its next heartbeat at once."""
        if self.draining or self._groups.config.tidelog_group_heartbeat_hold_ms <= 0:
            return False
        return self._is_quiet(group, result, request)

    def _is_quiet(
        self, group: StreamsGroup, result: StreamsHeartbeatResult, request: StreamsGroupHeartbeatRequest
    ) -> bool:
        """True if the answer says nothing that the member does not know."""
        member = result.member
        if result.assigned is not None or member.epoch != request.member_epoch:
            return False
        if member.state is StreamsMemberState.UNREVOKED or group.shutdown_by is not None:
            return False
        informed = group.endpoints_epoch == request.endpoint_information_epoch
        return informed and result.statuses.keys() <= self._told(request).statuses

    def _next_ms(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        result: StreamsHeartbeatResult,
        outcome: HeartbeatOutcome,
    ) -> int:
        """The heartbeat interval in this answer."""
        interval_ms = self.driver.config(group.id).streams_heartbeat_interval_ms
        # Clients give up when topics are missing for twice the interval that they are told.
        fits = result.configured.problem is None
        holds = fits and self._groups.config.tidelog_group_heartbeat_hold_ms > 0 and not self.draining
        if holds and result.member.state is not StreamsMemberState.UNREVOKED:
            interval_ms = next_ms(self._told(request).interval_ms, interval_ms, outcome)
        answers = self.driver.told.setdefault(group.id, {})
        answers[result.member.id] = LastTold(interval_ms, group.endpoints_epoch, frozenset(result.statuses))
        return interval_ms

    # Internal topics

    async def create_topics(self, group_id: str, missing: tuple[TopicSpec, ...]) -> None:
        """Creates the internal topics of a group, and waits a while for that.  A topic that cannot be created is tried
        again with the next heartbeat."""
        task = self._creating.get(group_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._create(group_id, missing))
            self._creating[group_id] = task
            task.add_done_callback(lambda _: self._creating.pop(group_id, None))
        await asyncio.wait([task], timeout=CREATION_WAIT_S)

    async def _create(self, group_id: str, missing: tuple[TopicSpec, ...]) -> None:
        problems = []
        try:
            for topic, made in zip(missing, await self._controller.create_topics(missing), strict=True):
                if isinstance(made, errors.TidelogError) and not isinstance(made, errors.TopicAlreadyExists):
                    problems.append(f"{topic.name} ({made})")
        except errors.TidelogError as problem:
            problems.append(str(problem))
        try:
            group = self.driver.find(self._groups.shard(group_id), group_id)
        except errors.TidelogError:
            return  # it is gone, or has moved
        group.creation_problems = tuple(problems)
        if problems:
            log.warning("cannot create internal topics of group %s: %s", group_id, "; ".join(problems))


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology, partitions) for subtopology, partitions in by_subtopology(tasks)]


def _waits(group: StreamsGroup, result: StreamsHeartbeatResult) -> bool:
    """True if the member waits for a target, or for other members."""
    return result.member.state is StreamsMemberState.UNRELEASED or group.epoch > group.assignment_epoch
