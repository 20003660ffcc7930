"""The environments of the metadata stores: the loop, the time, and how to open a store again after a crash."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, Protocol, Self
from uuid import uuid4

from tests.contract.etcd import Etcd, Member
from tidelog import testing
from tidelog.clock import Clock, SystemClock
from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import EtcdAccess, EtcdClient
from tidelog.metadata.etcd.store import EtcdStore
from tidelog.metadata.local.server import LocalServer
from tidelog.metadata.local.store import LocalStore
from tidelog.metadata.sqlite.store import CHANGES_KEPT_MAX, SqliteStore, connect
from tidelog.metadata.store import MetadataStore, Put, Unanswered
from tidelog.testing import VirtualClock, VirtualMetadata, Weather
from tidelog.testing.metadata import VirtualStore

SECONDS_MAX = 180
WRITER = "1"

Test = Callable[[Random], Coroutine[Any, Any, None]]


class World(Protocol):
    ttl_ms: int
    """The shortest that a lease can be."""

    def run(self, test: Test) -> None: ...

    async def open(self) -> MetadataStore:
        """Opens the store as a newly started process does; the store opened before is dropped without being closed."""
        ...

    async def forget(self, store: MetadataStore) -> None:
        """Makes the store drop its changes up to now; its entries stay."""
        ...


class SimulatedSqlite:
    """In memory, on virtual time, as the simulated broker uses it."""

    ttl_ms = 100

    def __init__(self) -> None:
        self._connection = connect(":memory:")
        self._executor = ThreadPoolExecutor(1)

    def run(self, test: Test) -> None:
        testing.run(test)

    async def open(self) -> SqliteStore:
        return await SqliteStore.over(self._connection, self._executor, VirtualClock())

    async def forget(self, store: MetadataStore) -> None:
        await _change_much(store)


class SimulatedEtcd:
    """The store that simulated clusters share, with requests and answers that take time."""

    ttl_ms = 100

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self.metadata: VirtualMetadata

    def run(self, test: Test) -> None:
        async def with_metadata(random: Random) -> None:
            self.metadata = VirtualMetadata(random, self._weather)
            await test(random)

        testing.run(with_metadata)

    async def open(self) -> VirtualStore:
        return self.metadata.connect("broker")

    async def forget(self, store: MetadataStore) -> None:
        self.metadata.compact()


class ThreadedSqlite:
    """In a file, with the real thread and the real clock."""

    ttl_ms = 100

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "metadata.sqlite")
        self._executor = ThreadPoolExecutor(1)
        self._clock: Clock = SystemClock()
        self._connection: sqlite3.Connection | None = None

    def run(self, test: Test) -> None:
        try:
            asyncio.run(asyncio.wait_for(test(Random(0)), SECONDS_MAX))
        finally:
            self._executor.shutdown()
            if self._connection is not None:
                self._connection.close()

    async def open(self) -> SqliteStore:
        if self._connection is not None:
            self._connection.close()
        self._connection = connect(self._path)
        return await SqliteStore.over(self._connection, self._executor, self._clock)

    async def forget(self, store: MetadataStore) -> None:
        await _change_much(store)


class SharedOnSocket:
    """A SQLite store behind a Unix socket, with the real thread and the real clock."""

    ttl_ms = 100

    def __init__(self, folder: Path) -> None:
        # Deeper than the 107 bytes that the kernel takes.
        self.folder = folder / ("d" * 100)
        self.folder.mkdir()
        self.socket = str(self.folder / "metadata.sock")
        self._executor = ThreadPoolExecutor(1)
        self._connection: sqlite3.Connection | None = None
        self.server: LocalServer | None = None
        self._stores: list[LocalStore] = []

    def run(self, test: Test) -> None:
        async def run_and_close() -> None:
            try:
                await asyncio.wait_for(test(Random(0)), SECONDS_MAX)
            finally:
                for store in self._stores:
                    await store.abandon()
                await self.kill_server()

        try:
            asyncio.run(run_and_close())
        finally:
            self._executor.shutdown()

    async def start_server(self) -> None:
        self._connection = connect(str(self.folder / "metadata.sqlite"))
        shared = await SqliteStore.over(self._connection, self._executor, SystemClock())
        self.server = LocalServer(shared, self.socket)
        await self.server.start()

    async def kill_server(self) -> None:
        """Leases are not ended, as by SIGKILL; what was committed stays."""
        if self.server is not None and self._connection is not None:
            await self.server.close()
            await asyncio.get_running_loop().run_in_executor(self._executor, self._connection.close)
        self.server = self._connection = None

    def store(self) -> LocalStore:
        """A store for another process, beside the existing ones."""
        self._stores.append(LocalStore(self.socket))
        return self._stores[-1]

    async def open(self) -> LocalStore:
        if self.server is None:
            await self.start_server()
        for store in self._stores:
            await store.abandon()
        return self.store()

    async def forget(self, store: MetadataStore) -> None:
        await _change_much(store)


async def _change_much(store: MetadataStore) -> None:
    batch = CHANGES_KEPT_MAX // 5
    for at in range(0, CHANGES_KEPT_MAX * 2, batch):
        await store.txn((), [Put(f"k/{number}", b"") for number in range(at, at + batch)])


class First(Random):
    """Clients start at their first endpoint."""

    def randrange(self, *_: Any) -> int:
        return 0


class RealEtcd:
    """A test's own root in an etcd that other tests also use."""

    ttl_ms = 1_000

    def __init__(self, etcd: Etcd, **access: Any) -> None:
        self.etcd = etcd
        self.root = f"/tests/{uuid4().hex}/"
        self._access = access
        self._clients: list[EtcdClient] = []

    def run(self, test: Test) -> None:
        async def run_and_close() -> None:
            async with self:
                await asyncio.wait_for(test(Random(0)), SECONDS_MAX)

        asyncio.run(run_and_close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()

    def client(self, **access: Any) -> EtcdClient:
        wanted = {"endpoints": self.etcd.endpoints, **self._access, **access}
        client = EtcdClient(EtcdAccess(**wanted), SystemClock(), First())
        self._clients.append(client)
        return client

    def store(self, writer: str = WRITER, **access: Any) -> EtcdStore:
        """A store for another process, beside the existing ones."""
        return EtcdStore(self.client(**access), self.root, writer)

    async def leader(self) -> Member:
        """Asks each member in turn."""
        for _ in range(200):
            for member in self.etcd.members:
                client = self.client(endpoints=(member.endpoint,))
                try:
                    answer = await client.call(messages.STATUS, b"", 500)
                except Unanswered:
                    continue
                status = messages.read_status(answer.data)
                if status.leader == status.member:
                    return member
            await asyncio.sleep(0.05)
        raise AssertionError("etcd has no leader")

    async def open(self) -> EtcdStore:
        for client in self._clients:
            await client.close()
        return self.store()

    async def forget(self, store: MetadataStore) -> None:
        revision = (await store.range("")).revision
        await self.client().call("/etcdserverpb.KV/Compact", messages.number(1, revision))
