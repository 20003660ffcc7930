"""Volumes, logs and batches for tests of storage."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog._speed.log.batch import Header, walk
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.record.builder import build_batch
from tidelog.record.reader import read_records
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import Disk
from tidelog.storage.fetched_log import Slice
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

FOLDER = "/data/orders-0"
NAME = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


@dataclass
class HandClock:
    """Moves when the test says so."""

    ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def make_volume(disk: Disk | None = None, files: int = 64) -> Volume:
    disk = VirtualDisk(Random(1)) if disk is None else disk
    disk.make_folder("/data")
    disk.sync_folder("/")
    return Volume.of("/data", disk, HandClock(), Random(2), OpenFiles(files))


def open_log(volume: Volume, config: TopicConfig | None = None, **facts: int) -> Log:
    return Log.open(volume, FOLDER, NAME, config or TopicConfig(), **facts)


def batch(
    base: int,
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    value: bytes = b"value",
    epoch: int = 0,
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """Records with values `value` and timestamps one apart; `producer` is (id, epoch, first sequence)."""
    records = [Record(base + n, timestamp + n, None, value, ()) for n in range(count)]
    identity = dict(
        zip(("producer_id", "producer_epoch", "base_sequence"), producer or (-1, -1, -1), strict=True)
    )
    return build_batch(records, base_offset=base, leader_epoch=epoch, **identity)


def append(log: Log, data: bytes) -> object:
    """As a partition does it; whatever `Log.append` returns."""
    headers = walk(data)
    assert headers and headers[-1].position + headers[-1].size == len(data)
    newest: Header = max(headers, key=lambda header: (header.max_timestamp, -header.base_offset))
    return log.append(
        data,
        headers[0].base_offset,
        headers[-1].last_offset,
        newest.max_timestamp,
        newest.last_offset,
        headers[-1].leader_epoch,
    )


def fill(log: Log, count: int, **shape: int | bytes) -> None:
    """`count` batches of one record each, one after the other."""
    for _ in range(count):
        append(log, batch(log.next, **shape))  # type: ignore[arg-type]


def content(found: Slice | None) -> bytes:
    return b"" if found is None else found.file.read(found.size, found.position)


def read_all(log: Log, offset: int | None = None, bytes_max: int = 1 << 20) -> list[Record]:
    """Everything from `offset` (the start) to the end or to damage, through as many reads as it takes."""
    offset = log.start if offset is None else offset
    found: list[Record] = []
    while offset < log.end:
        try:
            records = list(read_records(content(log.reader.read(offset, bytes_max, log.end)), offset))
        except CorruptMessage:
            break
        if not records:
            break
        found += records
        offset = records[-1].offset + 1
    return found


def offsets(log: Log, offset: int | None = None, bytes_max: int = 1 << 20) -> list[int]:
    return [record.offset for record in read_all(log, offset, bytes_max)]
