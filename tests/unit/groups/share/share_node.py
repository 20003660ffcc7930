"""A node that serves share groups, without a server: on a disk and a store that outlive it, on virtual time."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

from tidelog.config import BrokerConfig
from tidelog.groups.share.fetch import ShareFetch, ShareFetchedRecords, ShareFetchLimits
from tidelog.groups.share.group_state import ShareKey
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.groups.share.partition import AcknowledgedRange, AcquiredRange
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.sessions import SharePartitionId
from tidelog.groups.share.state_coordinator import ShareStateCoordinator
from tidelog.metadata.controller import Controller
from tidelog.metadata.records import BrokerRecord, Endpoint
from tidelog.metadata.registration import Registration
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.record.builder import BatchBuilder
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.open_files import OpenFiles
from tidelog.testing import VirtualClock, VirtualDisk, VirtualNetwork
from tidelog.types import NodeId

NODE = NodeId(1)
GROUP, TOPIC, LETTERS = "workers", "jobs", "letters"
LOCK_MS = 15_000


class ShareNode:
    def __init__(self, given: dict[str, str] | None = None) -> None:
        self.disk = VirtualDisk()
        self.clock = VirtualClock()
        self._given = given or {}
        self._metadata = connect(":memory:")

    async def start(self) -> ShareNode:
        random = Random(1)
        config = BrokerConfig.of({"share.coordinator.state.topic.num.partitions": "1", **self._given})
        self._store = await SqliteStore.over(self._metadata, None, self.clock)  # type: ignore[arg-type]
        self.controller = await Controller.start(self._store, NODE, config, random)
        folder = LogDirectory("/data", self.disk, self.clock, random, OpenFiles(64))
        self.dirs = LogDirs([folder], self.controller.topic_config)
        await self.dirs.start(self.controller.image.cluster_id, NODE)
        self.partitions = Partitions(
            NODE,
            self.dirs,
            self.controller.image,
            self.controller.topic_config,
            CopyPacer(self.clock, lambda: NO_LIMIT),
        )
        await self.partitions.start()
        self.shards = ShareStateCoordinator(NODE, self.controller, self.partitions, self.clock)
        peers = Peers(NODE, VirtualNetwork(random), lambda: self.controller.image, "PLAINTEXT")
        elsewhere = RemotePartitions(NODE, self.partitions, peers)
        self.shares = SharePartitions(self.controller, self.partitions, self.shards, elsewhere, self.clock)
        self.shards.start()
        self._following = asyncio.get_running_loop().create_task(self._follow())
        record = BrokerRecord((Endpoint("PLAINTEXT", "here", 9092),), None)
        revision = await Registration(self._store, NODE, record, self.clock).register()
        await self.controller.reached(revision)
        return self

    async def _follow(self) -> None:
        async for update in self.controller.follow():
            await self.partitions.apply(update)
            self.shards.apply(update)
            self.shares.apply(update)

    async def crash(self) -> None:
        """As kill -9: what was written stays, nothing is closed."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        self.shares.timers.clear()
        self.disk.kill()

    # What tests do

    async def make(self, name: str = TOPIC, **settings: str) -> SharePartitionId:
        """A topic with one partition that the group starts to read at its beginning."""
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        (made,) = await self.controller.create_topics([TopicSpec(name, 1, 1, configs=configs)])
        assert not isinstance(made, Exception), made
        return await self.ready(name)

    async def ready(self, name: str = TOPIC) -> SharePartitionId:
        topic_id = self.controller.image.topics[name].id
        await self.shards.initialize(ShareKey(GROUP, topic_id, 0), 1, 0)
        return topic_id, 0

    async def configure(self, **settings: str) -> None:
        changes = {name.replace("_", "."): value for name, value in settings.items()}
        await self.controller.alter_group_configs(GROUP, lambda before: {**before, **changes}, False)

    def topic(self, name: str = TOPIC) -> HostedPartition:
        return self.partitions.led_here(name, 0)

    def write(self, *values: bytes, name: str = TOPIC) -> None:
        builder = BatchBuilder()
        for value in values:
            builder.add(value, value, self.clock.now_ms(), ((f"of-{value.decode()}", b"x"),))
        self.topic(name).append(memoryview(bytearray(builder.build())), self.clock.now_ms(), True)

    async def fetch(
        self, member: str, part: SharePartitionId, most: int = 500, wait_ms: int = 0, strict: bool = True
    ) -> list[AcquiredRange]:
        limits = ShareFetchLimits(wait_ms, 1, 1 << 20, most, 0, strict)
        result = (await ShareFetch(self.shares, GROUP, member, limits).run([part])).get(part)
        if isinstance(result, Exception):
            raise result
        return result.acquired if isinstance(result, ShareFetchedRecords) else []

    async def acknowledge(
        self, member: str, part: SharePartitionId, first: int, last: int, kind: int
    ) -> None:
        led = self.shares.led(GROUP, part)
        assert led is not None
        done = led.acknowledge(member, [AcknowledgedRange(first, last, [kind])])
        if done is not None:
            await done

    def kept(self, topic_id: UUID) -> tuple[int, int]:
        """(start, finished behind it) as it is persisted."""
        state = next(self.shards.coordinator.shards()).machine.states[ShareKey(GROUP, topic_id, 0)]
        return state.start, state.finished
