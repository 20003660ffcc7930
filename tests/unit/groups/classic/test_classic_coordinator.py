"""Classic groups and their offsets on a node without a server, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.groups.consumer.consumer_node import Node
from tidelog import errors
from tidelog.coordination.shard import Writer
from tidelog.groups.classic.coordinator import MemberConnection
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.offsets.commits import OffsetCommit, OffsetCommitter
from tidelog.groups.offsets.committed import NO_TOPIC_ID
from tidelog.groups.offsets.coordinator import OffsetCoordinator
from tidelog.replication.partition import Ending
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.messages.consumer_protocol_subscription import TopicPartition as Owned
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.simulated(seed=1)

GROUP = "group"
SESSION_MS = 10_000
SETTINGS = {"group_initial_rebalance_delay_ms": "0"}
DAY_MS = 24 * 3600 * 1000


def yes(_: Any) -> bool:
    return True


def no(_: Any) -> bool:
    return False


def subscription(*owned: int) -> bytes:
    message = ConsumerProtocolSubscription(["t"], None, [Owned("t", list(owned))] if owned else [])
    return b"\x00\x01" + message.encode(1)


def assignment(*partitions: int) -> bytes:
    message = ConsumerProtocolAssignment([Assigned("t", list(partitions))] if partitions else [])
    return b"\x00\x01" + message.encode(1)


class Member:
    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name
        self.id = ""
        self.generation = -1
        self.metadata = subscription()
        self.hold: Callable[[Any], bool] = yes

    async def join(self) -> JoinGroupResponse:
        answer = await self._join()
        if answer.error_code == errors.MemberIdRequired.code:
            self.id = answer.member_id
            answer = await self._join()
        if answer.error_code == errors.NONE:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _join(self) -> JoinGroupResponse:
        protocols = [JoinGroupRequestProtocol("cooperative-sticky", self.metadata)]
        request = JoinGroupRequest(GROUP, SESSION_MS, 30_000, self.id, None, "consumer", protocols)
        return await self.node.classic.join(request, MemberConnection(self.name, "/here", 9, self.hold))

    async def sync(self, **given: bytes) -> Any:
        shares = [SyncGroupRequestAssignment(member_id, data) for member_id, data in given.items()]
        request = SyncGroupRequest(GROUP, self.generation, self.id, None, None, None, shares)
        return await self.node.classic.sync(request)

    async def heartbeat(self) -> int:
        request = HeartbeatRequest(GROUP, self.generation, self.id, None)
        code = self.node.classic.heartbeat(request, self.hold)
        return code if isinstance(code, int) else await code

    async def form(self, *partitions: int) -> Member:
        assert (await self.join()).error_code == errors.NONE
        assert (await self.sync(**{self.id: assignment(*partitions)})).error_code == errors.NONE
        return self


@asynccontextmanager
async def started_node(**settings: str) -> AsyncIterator[Node]:
    node = await Node(**{**SETTINGS, **settings}).start()
    yield node
    await node.crash()


def elapsed_since(start: float) -> float:
    return asyncio.get_running_loop().time() - start


def group_of(node: Node) -> ClassicGroup:
    group = node.groups.shard(GROUP).machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


# Heartbeats


async def test_a_held_heartbeat_is_answered_when_a_rebalance_begins() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        beat = asyncio.ensure_future(first.heartbeat())
        await asyncio.sleep(1)
        assert not beat.done()
        start = asyncio.get_running_loop().time()
        joining = asyncio.ensure_future(Member(node, "second").join())
        assert await beat == errors.RebalanceInProgress.code
        assert elapsed_since(start) < 0.1
        joining.cancel()


async def test_a_hold_ends_long_before_the_session() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        # A second one of the same member ends the first.
        beats = [asyncio.ensure_future(first.heartbeat()) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert [beat.done() for beat in beats] == [True, False]
        beats[1].cancel()
        start = asyncio.get_running_loop().time()
        assert await first.heartbeat() == errors.NONE
        assert 2.4 < elapsed_since(start) < 2.6


@pytest.mark.parametrize(("interval_s", "held_s"), [(0.4, 0.4), (3, 2.5)])
async def test_no_heartbeat_is_held_longer_than_its_client_waits_between_two(
    interval_s: float, held_s: float
) -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        loop, held = asyncio.get_running_loop(), []
        for _ in range(6):
            start = loop.time()
            assert await first.heartbeat() == errors.NONE
            held.append(elapsed_since(start))
            await asyncio.sleep(max(0, interval_s - held[-1]))
        assert held[0] == pytest.approx(2.5, abs=0.1)
        assert held[2:] == pytest.approx([held_s] * 4, abs=0.1)


async def test_a_heartbeat_that_would_hold_somebody_up_is_answered_at_once() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        first.hold = no
        start = asyncio.get_running_loop().time()
        assert await first.heartbeat() == errors.NONE
        assert elapsed_since(start) < 0.1


async def test_holding_can_be_turned_off() -> None:
    async with started_node(tidelog_group_heartbeat_hold_ms="0") as node:
        first = await Member(node, "first").form(0)
        start = asyncio.get_running_loop().time()
        assert await first.heartbeat() == errors.NONE
        assert elapsed_since(start) < 0.1


async def test_a_broker_that_stops_answers_who_waits() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        beat = asyncio.ensure_future(first.heartbeat())
        joining = asyncio.ensure_future(Member(node, "second").join())
        await asyncio.sleep(0.1)
        node.classic.drain()
        assert await beat == errors.RebalanceInProgress.code
        assert (await joining).error_code == errors.NotCoordinator.code


# A cooperative group


async def test_a_new_member_is_answered_in_the_generation_that_gives_it_something() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0, 1)
        second = Member(node, "second")
        joining = asyncio.ensure_future(second.join())
        await asyncio.sleep(0.1)
        first.metadata = subscription(0, 1)
        assert (await first.join()).generation_id == 2
        assert (await first.sync(**{first.id: assignment(0)})).assignment == assignment(0)
        await asyncio.sleep(0.1)
        assert not joining.done()
        first.metadata = subscription(0)  # it gave up one, and joins again
        assert (await first.join()).generation_id == 3
        assert (await joining).generation_id == 3
        synced = asyncio.ensure_future(second.sync())
        await first.sync(**{first.id: assignment(0), second.id: assignment(1)})
        assert (await synced).assignment == assignment(1)


async def test_a_new_member_does_not_wait_for_one_that_takes_long() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0, 1)
        second = Member(node, "second")
        joining = asyncio.ensure_future(second.join())
        await asyncio.sleep(0.1)
        first.metadata = subscription(0, 1)
        await first.join()
        await first.sync(**{first.id: assignment(0)})
        start = asyncio.get_running_loop().time()
        assert (await joining).generation_id == 2
        assert 0.9 < elapsed_since(start) < 1.1
        assert (await second.sync()).assignment == b""


async def test_a_new_member_of_an_eager_group_does_not_wait() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0, 1)
        second = Member(node, "second")
        joining = asyncio.ensure_future(second.join())
        await asyncio.sleep(0.1)
        await first.join()  # owns nothing meanwhile
        start = asyncio.get_running_loop().time()
        assert (await joining).generation_id == 2
        assert elapsed_since(start) < 0.1


# Restarts


async def test_members_go_on_in_their_generation_after_a_restart() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        await node.crash()
        await node.start()
        first.hold = no
        assert await first.heartbeat() == errors.NONE
        assert (await first.sync()).assignment == assignment(0)
        await asyncio.sleep(SESSION_MS / 1000 - 1)
        assert await first.heartbeat() == errors.NONE
        await asyncio.sleep(SESSION_MS / 1000 + 1)
        assert await first.heartbeat() == errors.UnknownMemberId.code
        assert (group_of(node).state, group_of(node).generation) == (ClassicState.EMPTY, 2)


async def test_an_empty_group_is_empty_after_a_restart() -> None:
    async with started_node() as node:
        first = await Member(node, "first").form(0)
        (left,) = await node.classic.leave(GROUP, [MemberIdentity(first.id)])
        assert left.error_code == errors.NONE
        await node.crash()
        await node.start()
        assert (group_of(node).state, group_of(node).generation) == (ClassicState.EMPTY, 2)


# Offsets


def one(offset: int) -> list[OffsetCommit]:
    return [OffsetCommit("t", NO_TOPIC_ID, 0, offset, -1, "")]


SIMPLE = OffsetCommitter(GROUP, "", None, -1, 9)
WRITER = Writer(7, 0)


async def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    async with started_node() as node:
        offsets = OffsetCoordinator(node.groups, node.classic)

        async def fetch(stable: bool) -> Any:
            (found,) = await offsets.fetch(GROUP, None, -1, [("t", 0)], stable)
            return found.error_code or (found.committed and found.committed.offset)

        shard = node.groups.shard(GROUP)
        assert offsets.commit(SIMPLE, one(1), -1).codes == [errors.NONE]
        for number, (commit, seen) in enumerate([(False, 1), (True, 5)]):
            writer = Writer(7, number)
            assert await offsets.commit_transactional(SIMPLE, one(5), writer) == [errors.NONE]
            assert (await fetch(False), await fetch(True)) == (1, errors.UnstableOffsetCommit.code)
            shard.end_transaction(Ending(7, number, 0, commit, 1))
            assert (await fetch(False), await fetch(True)) == (seen, seen)
        await offsets.commit_transactional(SIMPLE, one(9), Writer(7, 2))
        offsets.commit(SIMPLE, one(6), -1)
        shard.end_transaction(Ending(7, 2, 0, True, 1))
        assert await fetch(True) == 6  # it came later, and stands
        await offsets.commit_transactional(SIMPLE, one(8), Writer(7, 3))
        await node.crash()
        await node.start()
        offsets = OffsetCoordinator(node.groups, node.classic)
        assert (await fetch(False), await fetch(True)) == (6, errors.UnstableOffsetCommit.code)


async def test_offsets_expire_when_the_group_was_empty_for_long() -> None:
    async with started_node(offsets_retention_minutes="5") as node:
        offsets = OffsetCoordinator(node.groups, node.classic)
        shard = node.groups.shard(GROUP)
        member = await Member(node, "first").form(0)
        who = OffsetCommitter(GROUP, member.id, None, 1, 9)
        read, unread = one(5)[0], OffsetCommit("other", NO_TOPIC_ID, 0, 5, -1, "")
        assert offsets.commit(who, [read, unread], -1).codes == [errors.NONE] * 2
        for _ in range(40):
            await asyncio.sleep(0.9 * SESSION_MS / 1000)
            member.hold = no
            assert await member.heartbeat() == errors.NONE
        # What nobody subscribes to goes although there are members.
        offsets.expire(shard)
        assert set(shard.machine.offsets.of(GROUP)) == {("t", 0)}
        await node.classic.leave(GROUP, [MemberIdentity(member.id)])
        await asyncio.sleep(290)
        offsets.expire(shard)
        assert set(shard.machine.offsets.of(GROUP)) == {("t", 0)}
        await asyncio.sleep(20)
        offsets.expire(shard)
        assert (dict(shard.machine.offsets.of(GROUP)), GROUP in shard.machine.groups) == ({}, False)
        await node.crash()
        await node.start()
        assert GROUP not in node.groups.shard(GROUP).machine.groups


async def test_an_offset_may_have_a_time_of_its_own() -> None:
    async with started_node() as node:
        offsets = OffsetCoordinator(node.groups, node.classic)
        shard = node.groups.shard(GROUP)
        assert offsets.commit(SIMPLE, one(5), 60_000).codes == [errors.NONE]
        offsets.expire(shard)
        assert shard.machine.offsets.get(GROUP, "t", 0) is not None
        await asyncio.sleep(61)
        offsets.expire(shard)
        assert shard.machine.offsets.get(GROUP, "t", 0) is None
