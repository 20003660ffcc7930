"""The kinds of result that `Log.fetch` returns.

A slice of a file, bytes in memory, records of remote storage in a file of its cache, or word that the records are not
here yet.  Whoever calls `Log.fetch` handles all of them; `fetch_bytes` does so for readers inside of the broker that only
want the bytes, and checks them: unlike consumers, these readers cannot ask another replica."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

from tidelog._speed.log.batch import crc_ok, walk
from tidelog.errors import CorruptMessage
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
    def suspect(self, offset: int | None) -> None: ...


async def fetch_bytes(log: FetchedLog, offset: int, bytes_max: int, end: int) -> bytes | None:
    """The batches of `Log.fetch`, as soon as they are here; None when there are none.  The log may have changed meanwhile.

    All returned batches are whole and pass their checksums.  They end before a damaged batch, whose segment is then
    checked in the background; CorruptMessage if the first batch is damaged.  KafkaStorageError if the disk cannot be
    read."""
    while isinstance(records := log.fetch(offset, bytes_max, end), NotHereYet):
        await asyncio.wait([records.ready])
    if records is None:
        return None
    data = log.read_bytes(records)
    size, damaged = _sound(data)
    if damaged and isinstance(records, Slice):
        log.suspect(offset)
    if damaged and not size:
        raise CorruptMessage(
            f"the batch at offset {offset} is damaged: its segment is being checked, try again"
        )
    return data if size == len(data) else data[:size]


def _sound(data: bytes) -> tuple[int, bool]:
    """The size of the whole batches at the start of `data` that pass their checksums, and whether damage ended them: the
    last batch may also be cut, but never the first."""
    size = 0
    for header in walk(data):
        if not crc_ok(data, header.position):
            return size, True
        size = header.position + header.size
    return size, bool(data) and not size
