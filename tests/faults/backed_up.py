"""What tests of backups share: a store whose requests can be made to fail, and backups taken and restored in this
process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tidelog.backup import repository as repositories
from tidelog.backup.creating import BackupCreation, Created
from tidelog.backup.data_directory import NewDataDirectory
from tidelog.backup.point import RestorePoint
from tidelog.backup.repository import BackupRepository
from tidelog.backup.restoring import Restoration, RestoredPartition, Selection
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.environment import Environment
from tidelog.storage.tiers.object_store import ObjectStore, StoredObject
from tidelog.types import NodeId

TIMEOUT_MS = 30_000


class ProcessKilled(BaseException):
    """Stands for kill -9: nothing after it runs."""


class FaultyStore:
    """Raises `problem` in place of the requests from number `first` on, `count` of them (-1: all)."""

    def __init__(self, store: ObjectStore, first: int, problem: BaseException, count: int = -1) -> None:
        self._store = store
        self._first, self._count, self._problem = first, count, problem
        self.requests = 0

    def _next(self) -> None:
        self.requests += 1
        if self.requests > self._first and (self._count < 0 or self.requests <= self._first + self._count):
            raise self._problem

    async def get(self, name: str) -> bytes:
        self._next()
        return await self._store.get(name)

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        self._next()
        return await self._store.get_range(name, start, end)

    async def size(self, name: str) -> int:
        self._next()
        return await self._store.size(name)

    async def create(self, name: str, data: bytes) -> None:
        self._next()
        await self._store.create(name, data)

    async def put(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        self._next()
        await self._store.put(name, pieces)

    async def list(self, prefix: str) -> list[StoredObject]:
        self._next()
        return await self._store.list(prefix)

    async def remove_unfinished(self, prefix: str) -> None:
        self._next()
        await self._store.remove_unfinished(prefix)

    async def delete(self, names: Sequence[str]) -> None:
        self._next()
        await self._store.delete(names)


def fail_requests(
    monkeypatch: pytest.MonkeyPatch, first: int, problem: BaseException, count: int = -1
) -> list[FaultyStore]:
    """Every store that is opened from now on fails so; the stores."""
    opened: list[FaultyStore] = []
    open_store = repositories.open_object_store

    def open_faulty(url: str, setting: str) -> FaultyStore:
        opened.append(FaultyStore(open_store(url, setting), first, problem, count))
        return opened[-1]

    monkeypatch.setattr(repositories, "open_object_store", open_faulty)
    monkeypatch.setattr(repositories, "PAUSE_S", 0.0)
    return opened


@asynccontextmanager
async def cluster_at(bootstrap: str) -> AsyncIterator[Cluster]:
    options = ConnectionOptions(
        client_id="tests",
        request_timeout_ms=TIMEOUT_MS,
        connect_timeout_ms=TIMEOUT_MS,
        retry_backoff_ms=20,
        retry_backoff_max_ms=200,
        security=None,
    )
    cluster = Cluster(parse_addresses(bootstrap), options, Environment.system())
    try:
        await cluster.open()
        yield cluster
    finally:
        await cluster.close()


def no_progress(*_: int) -> None:
    pass


async def back_up(bootstrap: str, url: str, name: str) -> Created:
    repository = await BackupRepository.open(url, {}, create=True)
    async with cluster_at(bootstrap) as cluster:
        return await BackupCreation(cluster, repository, TIMEOUT_MS, no_progress).run(name)


async def restore(
    url: str,
    name: str,
    data: Path,
    point: RestorePoint | None = None,
    selection: Selection | None = None,
) -> list[RestoredPartition]:
    repository = await BackupRepository.open(url, {})
    manifest = await repository.manifest(name)
    directory = NewDataDirectory(str(data), NodeId(1))
    try:
        restoration = Restoration(
            repository, manifest, point or RestorePoint(), selection or Selection(), no_progress
        )
        return await restoration.run(directory)
    finally:
        directory.close()


def log_bytes(data: Path, partition: str) -> bytes:
    """The batches of all segments of a partition."""
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))
