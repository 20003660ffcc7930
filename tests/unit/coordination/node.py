"""A node with partitions and one coordinator, without a server: on a disk and a store that outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

from tidelog.config import BrokerConfig
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.coordination.records import CoordinatorRecord, RecordType, RecordTypes
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.metadata.controller import Controller
from tidelog.metadata.records import BrokerRecord, Endpoint
from tidelog.metadata.registration import Registration
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.open_files import OpenFiles
from tidelog.testing import VirtualClock, VirtualDisk
from tidelog.types import NodeId
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

TOPIC = "__ledger"
NODE = NodeId(1)
KINDS = RecordTypes(RecordType(OffsetCommitKey, OffsetCommitValue, 3))


def entry(name: str, amount: int | None) -> CoordinatorRecord:
    value = None if amount is None else OffsetCommitValue(offset=amount)
    return CoordinatorRecord(OffsetCommitKey(group=name, topic="t"), value)


class Ledger:
    """The smallest machine there is: amounts by name, and those of open transactions apart."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}
        self.pending: dict[int, list[CoordinatorRecord]] = {}

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(entry)
        elif entry.value is None:
            self.amounts.pop(entry.key.group, None)
        else:
            self.amounts[entry.key.group] = entry.value.offset

    def ended(self, producer_id: int, committed: bool) -> None:
        for entry in self.pending.pop(producer_id, []):
            if committed:
                self.replay(entry, -1)


class Node:
    def __init__(self, configs: Mapping[str, str] | None = None) -> None:
        self.disk = VirtualDisk()
        self.clock = VirtualClock()
        self._configs = configs or {}
        self._metadata = connect(":memory:")

    async def start(self) -> CoordinatorRuntime[Ledger]:
        random = Random(1)
        config = BrokerConfig()
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
        shape = TopicShape(3, 3, {"cleanup.policy": "compact", **self._configs})
        topic = InternalTopic(TOPIC, self.controller, lambda: shape)
        self.coordinator = CoordinatorRuntime(topic, NODE, self.partitions, self.clock, KINDS, Ledger)
        self.coordinator.start(self.controller.image)
        self._following = asyncio.get_running_loop().create_task(self._follow())
        record = BrokerRecord((Endpoint("PLAINTEXT", "here", 9092),), None)
        revision = await Registration(self._store, NODE, record, self.clock).register()
        await self.controller.reached(revision)
        return self.coordinator

    async def _follow(self) -> None:
        async for update in self.controller.follow():
            await self.partitions.apply(update)
            self.coordinator.apply(update)

    async def crash(self) -> None:
        """As kill -9: what was written stays, nothing is closed."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        self.disk.kill()
