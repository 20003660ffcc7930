"""The version of each key of a partition, for topics with `conditional.append.enable`: a batch whose records expect
another one is refused as a whole.

A version is the offset of the last record with the key; a key without a record, and one whose last record is a tombstone,
has version -1, so a key that compaction forgets keeps its version.  The leader has them in memory, about 150 bytes for each
key, and reads them from its log when the first such batch of its time as leader arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.record.conditions import NO_RECORD, Expectation, WrongExpectations, key_name
from tidelog.record.reader import read_batches
from tidelog.storage.fetched_log import fetch_bytes

if TYPE_CHECKING:
    from tidelog.replication.partition import HostedPartition
    from tidelog.storage.log import Log

log = logging.getLogger("tidelog.replication")

READ_BYTES = 256 << 10
RECORDS_TOLD_MAX = 1000


class KeyVersions:
    def __init__(self) -> None:
        self._versions: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def version(self, key: bytes, log_start: int) -> int:
        version = self._versions.get(key, NO_RECORD)
        return version if version >= log_start else NO_RECORD

    def check(self, expected: Sequence[Expectation], base: int, log_start: int) -> None:
        """WrongExpectations unless each record of a batch with this base offset finds what it expects; a record counts for
        those behind it."""
        moved: list[tuple[int, str]] = []
        inside: dict[bytes, int] = {}
        for index, record in enumerate(expected):
            if record.end is not None and record.end != base + index:
                moved.append((index, f"the partition ends at offset {base + index}, not at {record.end}"))
            if record.key is None:
                continue
            if record.version is not None:
                version = inside.get(record.key, self.version(record.key, log_start))
                if record.version != version:
                    moved.append((index, f"the version of its key is {version}, not {record.version}"))
            inside[record.key] = NO_RECORD if record.is_tombstone else base + index
        if moved:
            first, why = moved[0]
            raise WrongExpectations(
                f"record {first} of the batch is refused: {why}; nothing of the batch was appended",
                moved[:RECORDS_TOLD_MAX],
            )

    def appended(self, records: Iterable[Expectation], base: int) -> None:
        for offset, record in enumerate(records, base):
            if record.key is not None:
                self._put(record.key, record.is_tombstone, offset)

    def replay(self, data: bytes, first: int) -> int:
        """The records from offset `first` on, of batches that were checked; the offset behind the last whole batch."""
        for batch in read_batches(data, check_crc=False):
            header = batch.header
            if header.last_offset < first:
                continue
            if not header.control:
                for record in batch.records():
                    if record.key is not None:
                        self._put(key_name(record.key), record.value is None, record.offset)
            first = header.last_offset + 1
        return first

    def _put(self, key: bytes, is_tombstone: bool, offset: int) -> None:
        if is_tombstone:
            self._versions.pop(key, None)
        else:
            self._versions[key] = offset


def knows_keys(partition: HostedPartition) -> bool:
    """Whether this replica is the one that knows the versions of keys."""
    return partition.rules.conditional and partition.leader == partition.state.node


def checked_versions(partition: HostedPartition, expected: Sequence[Expectation]) -> KeyVersions:
    """For a batch that is no copy of an earlier one: a copy finds versions that its own first copy moved."""
    versions = partition.key_versions
    if versions is None or not expected:
        raise errors.NotLeaderOrFollower(
            f"{partition.name} has not read the versions of its keys yet: try again"
        )
    versions.check(expected, partition.log.next, partition.log.start)
    return versions


async def load(partition: HostedPartition) -> None:
    """Returns when the partition has its versions, or is led no more.  Until then nothing is appended to it."""
    while partition.key_versions is None and knows_keys(partition):
        if partition.loading_versions is None:
            partition.loading_versions = asyncio.get_running_loop().create_task(_load(partition))
        await asyncio.wait([partition.loading_versions])


async def _load(partition: HostedPartition) -> None:
    epoch, source = partition.state.epoch, partition.log
    try:
        versions = await _read(source)
        if partition.state.epoch == epoch and partition.log is source:
            partition.key_versions = versions
    except errors.TidelogError as problem:
        log.error("%s: the versions of its keys cannot be read: %s", partition.name, problem)
        await asyncio.sleep(1)
    finally:
        partition.loading_versions = None


async def _read(source: Log) -> KeyVersions:
    versions = KeyVersions()
    offset = source.start
    while offset < source.next:
        damage = next((damaged for damaged in source.damaged if damaged.start <= offset < damaged.end), None)
        if damage is not None:
            offset = damage.end
            continue
        data = await fetch_bytes(source, offset, READ_BYTES, source.end)
        if data is None:
            if offset >= source.end:
                await source.flush()  # appends that are not in the file yet
            if offset >= source.end or source.end == source.next:
                break
            continue
        before = offset
        offset = await asyncio.to_thread(versions.replay, data, offset)
        if offset == before:
            raise errors.CorruptMessage(f"there is no complete batch at offset {offset}")
    return versions
