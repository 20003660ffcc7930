"""The three kinds of result that `Log.fetch` returns.

A slice of a file, bytes in memory, or word that the records are not here yet: what keeps segments elsewhere, or
encrypts them, has its place behind these three.  Whoever calls `Log.fetch` handles all of them; `fetch_bytes` does so
for readers inside of the broker that only want the bytes."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

from tidelog.storage.disk import File


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
    done in bounded time, also when the records cannot be had: the next read then raises."""

    ready: asyncio.Future[None]


Records = Slice | RecordBytes


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
