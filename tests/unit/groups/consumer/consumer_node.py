"""A node that coordinates groups, without a server, on virtual time; and members whose requests go straight to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any
from uuid import UUID, uuid4

from tidelog.config import BrokerConfig
from tidelog.groups.classic.coordinator import ClassicGroups, MemberConnection
from tidelog.groups.consumer.classic_members_coordinator import ClassicMembers
from tidelog.groups.consumer.coordinator import ConsumerGroups
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.coordinator import Groups
from tidelog.groups.streams.coordinator import StreamsGroups
from tidelog.metadata.controller import Controller
from tidelog.metadata.records import BrokerRecord, Endpoint
from tidelog.metadata.registration import Registration
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.topics.plans import NewPartitions, TopicSpec
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.open_files import OpenFiles
from tidelog.testing import VirtualClock, VirtualDisk
from tidelog.types import NodeId
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

NODE = NodeId(1)
GROUP = "g"


class Node:
    def __init__(self, **settings: str) -> None:
        self.disk = VirtualDisk()
        self.clock = VirtualClock()
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._metadata = connect(":memory:")

    async def start(self) -> Node:
        random = Random(1)
        config = BrokerConfig.of({"offsets.topic.num.partitions": "1", **self.settings})
        store = await SqliteStore.over(self._metadata, None, self.clock)  # type: ignore[arg-type]
        self.controller = await Controller.start(store, NODE, config, random)
        folder = LogDirectory("/data", self.disk, self.clock, random, OpenFiles(64))
        dirs = LogDirs([folder], self.controller.topic_config)
        await dirs.start(self.controller.image.cluster_id, NODE)
        self.partitions = Partitions(
            NODE,
            dirs,
            self.controller.image,
            self.controller.topic_config,
            CopyPacer(self.clock, lambda: NO_LIMIT),
        )
        await self.partitions.start()
        self.groups = Groups(NODE, self.controller, self.partitions, self.clock)
        self.classic = ClassicGroups(self.groups, random)
        self.consumers = ConsumerGroups(self.groups, self.classic, random)
        self.migrating = ClassicMembers(self.consumers, self.classic)
        self.streams = StreamsGroups(self.groups, self.classic, self.controller)
        self.groups.start()
        self._following = asyncio.get_running_loop().create_task(self._follow())
        record = BrokerRecord((Endpoint("PLAINTEXT", "here", 9092),), None)
        registration = Registration(store, NODE, record, self.clock)
        await self.controller.reached(await registration.register())
        self._keeping = asyncio.get_running_loop().create_task(registration.keep())
        await self.groups.topic.ensure()
        while self.groups.coordinator.loading:
            await asyncio.sleep(0.01)
        return self

    async def _follow(self) -> None:
        async for update in self.controller.follow():
            await self.partitions.apply(update)
            self.groups.apply(update)

    async def crash(self) -> None:
        """As kill -9: what was written stays, nothing is closed."""
        for task in (self._following, self._keeping):
            task.cancel()
        await asyncio.gather(self._following, self._keeping, return_exceptions=True)
        self.groups.timers.clear()
        self.disk.kill()

    async def topic(self, name: str, partitions: int) -> UUID:
        (made,) = await self.controller.create_topics([TopicSpec(name, partitions, 1)])
        assert not isinstance(made, Exception), made
        return self.controller.image.topics[name].id

    async def grow(self, name: str, partitions: int) -> None:
        await self.controller.create_partitions([NewPartitions(name, partitions)])

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups.shard(GROUP).machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, instance: str | None = None) -> Member:
        return Member(self, instance)


class Member:
    """Follows its assignment at once.  Its connection lets answers wait until `interrupt`."""

    def __init__(self, node: Node, instance: str | None) -> None:
        self.node = node
        self.id = str(uuid4())
        self.instance = instance
        self.epoch = 0
        self.interval_ms = 0
        self.owned: dict[UUID, list[int]] = {}
        self.held: list[asyncio.Future[Any]] = []

    def _hold(self, waits: asyncio.Future[Any]) -> bool:
        self.held.append(waits)
        return True

    def interrupt(self) -> None:
        """Another request comes on the same connection."""
        for waits in self.held:
            if not waits.done():
                waits.set_result(None)

    async def send(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        wanted = {"group_id": GROUP, "member_id": self.id, "member_epoch": self.epoch, **fields}
        request = ConsumerGroupHeartbeatRequest(instance_id=self.instance, **wanted)
        caller = MemberConnection("client", "/host", 1, self._hold)
        answer = await self.node.consumers.heartbeat(request, caller)
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.owned = {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
        return answer

    async def join(self, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        wanted = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], **fields}
        return await self.send(subscribed_topic_names=list(topics), **wanted)

    async def acknowledge(self) -> ConsumerGroupHeartbeatResponse:
        owned = [TopicPartitions(topic, partitions) for topic, partitions in self.owned.items()]
        return await self.send(topic_partitions=owned)

    async def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return await self.send(member_epoch=epoch)

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


async def settle(members: Iterable[Member], rounds: int = 6) -> None:
    """A few heartbeats of all, each a second after the last."""
    for _ in range(rounds):
        await asyncio.sleep(1.0)
        for member in members:
            task = asyncio.ensure_future(member.acknowledge())
            await asyncio.sleep(0.01)
            member.interrupt()
            await task
