"""Streams groups on virtual time: delays, silence, held heartbeats, internal topics, and what a crash leaves."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.unit.groups.consumer.consumer_node import GROUP, Node
from tidelog import errors
from tidelog.groups.classic.coordinator import MemberConnection
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.internal_topics import StreamsStatus
from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment, by_subtopology, tasks_of
from tidelog.wire.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

pytestmark = pytest.mark.simulated

STATELESS = Topology(0, [Subtopology("0", ["orders"])])
STATEFUL = Topology(0, [Subtopology("0", ["orders"], state_changelog_topics=[TopicInfo("app-s-changelog")])])


class StreamsMember:
    """Follows its assignment at once.  Its connection lets answers wait until `interrupt`."""

    def __init__(self, node: Node, process: str = "") -> None:
        self.node = node
        self.id = str(uuid4())
        self.process = process or self.id
        self.epoch = 0
        self.interval_ms = 0
        self.endpoints_epoch = 0
        self.has = NOTHING_ASSIGNED
        self.statuses: set[int] = set()
        self.holds: list[asyncio.Future[Any]] = []

    def _hold(self, waits: asyncio.Future[Any]) -> bool:
        self.holds.append(waits)
        return True

    def interrupt(self) -> None:
        for waits in self.holds:
            if not waits.done():
                waits.set_result(None)

    async def send(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        wanted = {"member_epoch": self.epoch, "endpoint_information_epoch": self.endpoints_epoch, **fields}
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.id, **wanted)
        caller = MemberConnection("client", "/host", 0, self._hold)
        answer = await self.node.streams.heartbeat(request, caller)
        if answer.missing:
            await self.node.streams.create_topics(GROUP, answer.missing)
        response = answer.response
        self.epoch, self.interval_ms = response.member_epoch, response.heartbeat_interval_ms
        self.endpoints_epoch = response.endpoint_information_epoch
        self.statuses = {status.status_code for status in response.status or ()}
        if response.active_tasks is not None:
            assert response.standby_tasks is not None
            self.has = TaskAssignment(tasks_of(response.active_tasks), tasks_of(response.standby_tasks))
        return response

    async def join(self, topology: Topology = STATELESS, **fields: Any) -> StreamsGroupHeartbeatResponse:
        self.epoch = 0
        nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        wanted = {"topology": topology, "process_id": self.process, "rebalance_timeout_ms": 10_000, **nothing}
        return await self.send(**{**wanted, **fields})

    async def acknowledge(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        active, standby, warmup = ([TaskIds(*ids) for ids in by_subtopology(role)] for role in self.has)
        return await self.send(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup, **fields)

    @property
    def active(self) -> list[int]:
        return sorted(partition for _, partition in self.has.active)


def group_of(node: Node) -> StreamsGroup:
    group = node.groups.shard(GROUP).machine.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


async def settle(*members: StreamsMember) -> None:
    for _ in range(6):
        await asyncio.sleep(1.0)
        for member in members:
            task = asyncio.ensure_future(member.acknowledge())
            await asyncio.sleep(0.01)
            member.interrupt()
            await task


async def started(**settings: str) -> Node:
    node = await Node(**{"group.streams.initial.rebalance.delay.ms": "0", **settings}).start()
    await node.topic("orders", 4)
    return node


async def test_the_first_members_wait_for_others_and_learn_of_their_tasks_at_once() -> None:
    node = await started(**{"group.streams.initial.rebalance.delay.ms": "3000"})
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    assert first.active == [] and first.statuses == {StreamsStatus.ASSIGNMENT_DELAYED}
    assert first.interval_ms < 1000  # it is told soon, without more requests than that needs
    await asyncio.sleep(1)
    await second.join()
    began_ms = node.clock.monotonic_ms()
    while not (first.has.active and second.has.active):
        await asyncio.sleep(min(first.interval_ms, second.interval_ms) / 1000)
        await asyncio.gather(first.acknowledge(), second.acknowledge())
    assert 1900 <= node.clock.monotonic_ms() - began_ms <= 3000
    assert sorted(first.active + second.active) == [0, 1, 2, 3] and len(first.active) == 2


async def test_a_held_heartbeat_is_answered_when_another_member_comes() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    await settle(first)
    assert first.active == [0, 1, 2, 3]
    for _ in range(12):  # quiet rounds make its interval longer
        await first.acknowledge()
    assert first.interval_ms == 5000
    waiting = asyncio.ensure_future(first.acknowledge())
    await asyncio.sleep(1)
    assert not waiting.done()
    await second.join()
    await asyncio.sleep(0.01)
    assert waiting.done() and len(first.active) == 2
    await settle(first, second)
    assert sorted(first.active + second.active) == [0, 1, 2, 3]


async def test_a_silent_member_loses_its_tasks_to_others() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    await second.join()
    await settle(first, second)
    for _ in range(50):
        await asyncio.sleep(1)
        task = asyncio.ensure_future(second.acknowledge())
        await asyncio.sleep(0.01)
        second.interrupt()
        await task
    assert second.active == [0, 1, 2, 3]
    with pytest.raises(errors.UnknownMemberId):
        await first.acknowledge()


async def test_a_member_that_does_not_give_back_is_removed_after_its_rebalance_timeout() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    await settle(first)
    await second.join()
    await asyncio.sleep(1.1)
    await first.send()  # learns that it has two tasks too many, and keeps them
    for _ in range(12):
        await asyncio.sleep(1)
        task = asyncio.ensure_future(second.acknowledge())
        await asyncio.sleep(0.01)
        second.interrupt()
        await task
    assert second.active == [0, 1, 2, 3]


async def test_internal_topics_are_created_and_tasks_follow() -> None:
    node = await started()
    member = StreamsMember(node)
    await member.join(STATEFUL)
    assert member.statuses == {StreamsStatus.MISSING_INTERNAL_TOPICS} and not member.active
    assert group_of(node).state_name == "NotReady"
    await settle(member)
    assert member.active == [0, 1, 2, 3] and not member.statuses
    assert len(node.controller.image.topics["app-s-changelog"].partitions) == 4
    assert group_of(node).state_name == "Stable"


async def test_internal_topics_that_cannot_be_created_are_named() -> None:
    node = await started()
    member = StreamsMember(node)
    wrong = TopicInfo("app-s-changelog", replication_factor=3)
    await member.join(Topology(0, [Subtopology("0", ["orders"], state_changelog_topics=[wrong])]))
    await asyncio.sleep(0.1)
    answer = await member.acknowledge()
    assert answer.status is not None and "Creation failed: app-s-changelog" in answer.status[0].status_detail


async def test_a_source_topic_that_comes_late_gives_tasks() -> None:
    node = await started()
    member = StreamsMember(node)
    await member.join(Topology(0, [Subtopology("0", ["late"])]))
    assert member.statuses == {StreamsStatus.MISSING_SOURCE_TOPICS}
    await node.topic("late", 2)
    await settle(member)
    assert member.active == [0, 1]
    await node.grow("late", 5)
    await settle(member)
    assert member.active == [0, 1, 2, 3, 4]


async def test_standbys_follow_the_setting() -> None:
    node = await started(**{"group.streams.num.standby.replicas": "1"})
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join(STATEFUL)
    await second.join(STATEFUL)
    await settle(first, second)
    assert len(first.has.active) == len(second.has.active) == 2
    assert first.has.standby == second.has.active and second.has.standby == first.has.active


async def test_everybody_learns_of_a_shutdown() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    await second.join()
    await settle(first, second)
    for _ in range(12):
        await first.acknowledge()
    waiting = asyncio.ensure_future(first.acknowledge())
    await asyncio.sleep(0.5)
    await second.send(shutdown_application=True)
    await asyncio.sleep(0.01)
    assert waiting.done() and first.statuses == {StreamsStatus.SHUTDOWN_APPLICATION}
    await first.send(member_epoch=-1)
    await second.send(member_epoch=-1)
    await first.join()
    assert StreamsStatus.SHUTDOWN_APPLICATION not in first.statuses


async def test_endpoints_are_told_to_all_members_when_tasks_move() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join(user_endpoint=Endpoint("one", 1))
    await second.join(user_endpoint=Endpoint("two", 2))
    await settle(first, second)
    answer = await first.send(endpoint_information_epoch=-1)
    assert answer.partitions_by_user_endpoint is not None
    served = {
        place.user_endpoint.host: [(topic.topic, topic.partitions) for topic in place.active_partitions]
        for place in answer.partitions_by_user_endpoint
    }
    assert served == {"one": [("orders", first.active)], "two": [("orders", second.active)]}
    await second.send(member_epoch=-1)
    answer = await first.acknowledge()
    assert answer.partitions_by_user_endpoint is not None and len(answer.partitions_by_user_endpoint) == 1


async def test_a_missed_answer_is_said_again() -> None:
    node = await started()
    first, second = StreamsMember(node), StreamsMember(node)
    await first.join()
    await second.join()
    await settle(first, second)
    second.has, epoch = NOTHING_ASSIGNED, second.epoch
    await first.send(member_epoch=-1)
    await asyncio.sleep(2)
    await second.acknowledge()
    second.has, second.epoch = NOTHING_ASSIGNED, epoch  # the answer is lost
    await second.acknowledge()
    assert second.active == [0, 1, 2, 3] and second.epoch > epoch


async def test_an_empty_classic_group_becomes_a_streams_group_and_back() -> None:
    node = await started()
    member = StreamsMember(node)
    shard = node.groups.shard(GROUP)
    shard.append([ClassicGroup(GROUP, since_ms=0).entry()])
    assert shard.machine.groups[GROUP].kind == "classic"
    await member.join()
    await settle(member)
    assert member.active == [0, 1, 2, 3] and shard.machine.groups[GROUP].kind == "streams"
    with pytest.raises(errors.GroupIdNotFound):
        node.consumers.driver.find(shard, GROUP)


async def test_a_group_with_members_is_not_taken_over() -> None:
    node = await started()
    consumer = node.member()
    await consumer.join("orders")
    with pytest.raises(errors.GroupIdNotFound, match="is not a streams group"):
        await StreamsMember(node).join()


async def test_the_group_survives_a_crash() -> None:
    node = await started()
    member = StreamsMember(node)
    await member.join(STATEFUL)
    await settle(member)
    view = group_of(node).view()
    await node.crash()
    await node.start()
    assert group_of(node).view() == view
    await settle(member)
    assert member.active == [0, 1, 2, 3] and group_of(node).state_name == "Stable"


async def test_the_group_is_as_large_as_it_may_be() -> None:
    node = await started(**{"group.streams.max.size": "1"})
    first = StreamsMember(node)
    await first.join()
    with pytest.raises(errors.GroupMaxSizeReached, match="maximum capacity of 1 members"):
        await StreamsMember(node).join()
    await first.join()  # a member may join again
