"""A controller on an in-memory store and virtual time, followed as a broker would follow it."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tidelog.config import BrokerConfig
from tidelog.metadata.controller import Controller
from tidelog.metadata.elections.replica_doubts import NO_LOG, ReplicaCondition
from tidelog.metadata.elections.unclean_restart import report
from tidelog.metadata.image.changes import Update
from tidelog.metadata.records import BrokerRecord, Endpoint
from tidelog.metadata.registration import Registration
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.testing import VirtualClock
from tidelog.types import NodeId

EXECUTOR = ThreadPoolExecutor(1)
NODE = NodeId(1)


class Node:
    """Starts as broker 1; `restarted` is the next process on the same store."""

    def __init__(self, store: SqliteStore, controller: Controller, connection: sqlite3.Connection) -> None:
        self.store = store
        self.controller = controller
        self.connection = connection
        self.updates: list[Update] = []
        self.registration = Registration(store, NODE, record(9092), VirtualClock())
        self._following = asyncio.ensure_future(self._follow())

    @staticmethod
    async def start(
        random: Random,
        config: BrokerConfig | None = None,
        connection: sqlite3.Connection | None = None,
        clean: bool = True,
    ) -> Node:
        connection = connection or connect(":memory:")
        store = await SqliteStore.over(connection, EXECUTOR, VirtualClock())
        if not clean:
            sure = ReplicaCondition(None, lambda: NO_LOG)
            await report(store, NODE, lambda topic, partition: sure, unclean=True, at_risk=False)
        controller = await Controller.start(store, NODE, config or BrokerConfig(), random)
        node = Node(store, controller, connection)
        await controller.reached(await node.registration.register())
        return node

    async def restarted(self, random: Random, clean: bool) -> Node:
        self._following.cancel()
        return await Node.start(random, connection=self.connection, clean=clean)

    async def join(self, node: int, rack: str | None = None) -> Registration:
        """Another broker becomes known."""
        other = Registration(self.store, NodeId(node), record(9092 + node, rack), VirtualClock())
        await self.controller.reached(await other.register())
        return other

    async def _follow(self) -> None:
        async for update in self.controller.follow():
            self.updates.append(update)


def record(port: int, rack: str | None = None) -> BrokerRecord:
    return BrokerRecord((Endpoint("PLAINTEXT", "127.0.0.1", port),), rack)
