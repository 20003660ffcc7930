"""The kinds of result that `Log.fetch` returns.

A slice of a file, bytes in memory, records of remote storage in a file of its cache, or word that the records are not
here yet.  Whoever calls `Log.fetch` handles all of them; `fetch_bytes` does so for readers inside of the broker that only
want the bytes."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

from tidelog.storage.disk import File
from tidelog.storage.segments.txn_index import Aborted


class CachedFile(Protocol):
    path: str

    def size(self) -> int: ...
    def read(self, size: int, position: int) -> bytes: ...
    def send(self, socket: Any, position: int, size: int) -> int: ...


class Slice(NamedTuple):
    """Bytes of a file, from the start of a batch; holding it keeps the file readable."""

    file: File
    position: int
    size: int

    def send(self, socket: Any, done: int) -> int:
        """Bytes moved to a non-blocking socket, of those that are not `done` yet."""
        return self.file.send(socket, self.position + done, self.size - done)

    def read(self) -> bytes:
        return self.file.read(self.size, self.position)


class RecordBytes(NamedTuple):
    """Whole batches in memory; `end` is past their last record."""

    data: bytes
    end: int

    @property
    def size(self) -> int:
        return len(self.data)

    def send(self, socket: Any, done: int) -> int:
        """As that of a slice."""
        sent: int = socket.send(memoryview(self.data)[done:])
        return sent

    def read(self) -> bytes:
        return self.data


class NotHereYet(NamedTuple):
    """Records that are on their way: worth another read when `ready` is done.  Whoever makes it sees to it that `ready` is
    done in bounded time.  Records that cannot be had at all raise with the next read; while remote storage does not answer,
    every read says so again."""

    ready: asyncio.Future[None]
    remote: bool = False
    """They come from remote storage, for which a fetch waits `remote.fetch.max.wait.ms`, as in Kafka."""


class ColdRecords(NamedTuple):
    """Whole batches of a segment in remote storage, in a file of the cache."""

    file: CachedFile
    position: int
    size: int
    end: int
    """Past the last batch."""
    aborted: list[Aborted]

    def send(self, socket: Any, done: int) -> int:
        """As that of a slice."""
        return self.file.send(socket, self.position + done, self.size - done)

    def read(self) -> bytes:
        return self.file.read(self.size, self.position)


Records = Slice | RecordBytes | ColdRecords


class FetchedLog(Protocol):
    def fetch(
        self, offset: int, bytes_max: int, end: int, whole_batch: bool = True
    ) -> Records | NotHereYet | None: ...
    def read_bytes(self, records: Records) -> bytes: ...


async def fetch_bytes(log: FetchedLog, offset: int, bytes_max: int, end: int) -> bytes | None:
    """The bytes of `Log.fetch`, as soon as they are here; None when there are none.  The log may have changed meanwhile.
    KafkaStorageError when its disk cannot be read."""
    while isinstance(records := log.fetch(offset, bytes_max, end), NotHereYet):
        await asyncio.wait([records.ready])
    return None if records is None else log.read_bytes(records)
