"""Simulated members of one classic group, each on a connection of its own.

They share the partitions of a topic, and count: a member reads what is committed for a partition it has been given, and
commits one more, again and again.  What is promised to them is noted, to be looked for after every crash."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tests.simulation.invariants import Violated
from tidelog import errors
from tidelog.net.requester import R, Request, Requester
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "group"
TOPIC = "orders"
PARTITIONS = 4
SESSION_MS = 6_000
REBALANCE_MS = 4_000
COMMIT_VERSION = 9
FETCH_VERSION = 9

Problem = OSError | errors.TidelogError


class GroupOffsetsNeverBack:
    """An offset that was acknowledged as committed is never followed by a smaller one, whoever is asked for it."""

    @classmethod
    def check(cls, partition: int, promised: int, found: int) -> None:
        if found < promised:
            text = f"{TOPIC}-{partition}: {promised} was committed, and it is {found}"
            raise Violated([(cls.__name__, text)])


class OneOwnerPerGeneration:
    """No two members have the same partition in one generation."""

    @classmethod
    def check(cls, key: tuple[str, int, int], owner: str, member: str) -> None:
        if owner != member:
            raise Violated([(cls.__name__, f"{owner} and {member} both have {key}")])


class Meeting(Protocol):
    """Where members meet the coordinator of their group."""

    async def connect(self, client_id: str) -> Requester: ...


@dataclass(slots=True)
class Promises:
    """What members were told."""

    committed: dict[int, int] = field(default_factory=dict)
    """The highest offset of each partition that was acknowledged."""
    owners: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """Who was given a partition: by leader and generation, as a generation without a record may be used again."""
    commits: int = 0
    assignments: int = 0
    losses: int = 0
    """How often power cuts took what was promised before."""

    def lost(self) -> None:
        self.committed.clear()
        self.owners.clear()
        self.losses += 1


@dataclass(slots=True)
class GroupMember:
    world: Meeting
    random: Random
    name: str
    promises: Promises
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    has: list[int] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            try:
                connection = await self.world.connect(self.name)
            except (OSError, errors.TidelogError):
                await asyncio.sleep(0.2)
                continue
            try:
                await self._take_part(connection)
            except (OSError, errors.TidelogError):
                await asyncio.sleep(self.random.random() / 5)
            finally:
                connection.close()

    async def _take_part(self, connection: Requester) -> None:
        asked = FindCoordinatorRequest(coordinator_keys=[GROUP])
        found = await connection.ask(asked, FindCoordinatorResponse, version=4)
        _check(found.coordinators[0].error_code)
        while True:
            await self._join(connection)
            while await self._beat(connection):
                await self._count(connection)
                await asyncio.sleep(self.random.random() / 2)
                if self.random.random() < 0.03:
                    await self._leave(connection)
                    return

    async def _join(self, connection: Requester) -> None:
        self.has = []
        protocols = [JoinGroupRequestProtocol("counting", b"")]
        request = JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.member_id, None, "test", protocols)
        answer = await self._ask(connection, request, JoinGroupResponse)
        if answer.error_code == errors.MemberIdRequired.code:
            self.member_id = answer.member_id
            await self._join(connection)
            return
        self._check(answer.error_code)
        self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
        shares = []
        if answer.leader == answer.member_id:
            names = [one.member_id for one in answer.members]
            shares = [
                SyncGroupRequestAssignment(name, bytes(range(at, PARTITIONS, len(names))))
                for at, name in enumerate(names)
            ]
        sync = SyncGroupRequest(GROUP, self.generation, self.member_id, None, "test", "counting", shares)
        given = await self._ask(connection, sync, SyncGroupResponse)
        self._check(given.error_code)
        self.has = list(given.assignment)
        self.promises.assignments += 1
        for partition in self.has:
            key = (self.leader, self.generation, partition)
            owner = self.promises.owners.setdefault(key, self.member_id)
            OneOwnerPerGeneration.check(key, owner, self.member_id)

    async def _beat(self, connection: Requester) -> bool:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id)
        code = (await self._ask(connection, request, HeartbeatResponse)).error_code
        if code == errors.RebalanceInProgress.code:
            return False
        self._check(code)
        return True

    async def _count(self, connection: Requester) -> None:
        for partition in self.has:
            losses = self.promises.losses
            known = await committed(connection, partition)
            GroupOffsetsNeverBack.check(partition, self.promises.committed.get(partition, -1), known)
            part = OffsetCommitRequestPartition(partition, known + 1)
            request = OffsetCommitRequest(
                GROUP,
                self.generation,
                self.member_id,
                topics=[OffsetCommitRequestTopic(TOPIC, partitions=[part])],
            )
            answer = await connection.ask(request, OffsetCommitResponse, version=COMMIT_VERSION)
            code = answer.topics[0].partitions[0].error_code
            if code == errors.RebalanceInProgress.code:
                return
            self._check(code)
            self.promises.commits += 1
            if losses != self.promises.losses:
                continue  # the answer was longer on its way than what it promised was there
            before = self.promises.committed.get(partition, -1)
            self.promises.committed[partition] = max(before, known + 1)

    async def _leave(self, connection: Requester) -> None:
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id)])
        await connection.ask(request, LeaveGroupResponse, version=4)
        self.member_id, self.generation, self.has = "", -1, []

    async def _ask(self, connection: Requester, request: Request, response: type[R]) -> R:
        return await connection.ask(request, response)

    def _check(self, code: int) -> None:
        if code in (errors.UnknownMemberId.code, errors.FencedInstanceId.code):
            self.member_id, self.generation = "", -1
        _check(code)


def _check(code: int) -> None:
    if code != errors.NONE:
        raise errors.by_code(code)()


async def committed(connection: Requester, partition: int) -> int:
    asked = OffsetFetchRequestGroup(
        GROUP, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=[partition])]
    )
    answer = await connection.ask(
        OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, version=FETCH_VERSION
    )
    _check(answer.groups[0].error_code)
    return answer.groups[0].topics[0].partitions[0].committed_offset
