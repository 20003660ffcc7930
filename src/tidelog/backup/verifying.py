"""Reads backups back: every object is there, has its checksum, and holds whole batches in ascending offsets that cover what
the manifest says."""

from __future__ import annotations

from collections.abc import Callable

from tidelog._speed.log.batch import crc_ok, walk
from tidelog.backup.manifest import BackupManifest, BackupObject, CorruptBackup, PartitionBackup, object_name
from tidelog.backup.repository import BackupRepository

Progress = Callable[[int, int], None]
"""Bytes read, of all."""


async def verify(repository: BackupRepository, manifest: BackupManifest, progress: Progress) -> list[str]:
    """What is wrong, one line each."""
    problems: list[str] = []
    done, total = 0, manifest.batch_bytes
    for partition in manifest.partitions:
        expected = min(partition.start, partition.objects[0].start) if partition.objects else partition.start
        for stored in partition.objects:
            try:
                if stored.start != expected:
                    raise CorruptBackup(f"{partition.name} lacks offsets {expected} to {stored.start - 1}")
                _check_batches(partition, stored, await repository.get_batches(partition, stored))
            except CorruptBackup as problem:
                problems.append(str(problem))
            expected = stored.end
            done += stored.batch_bytes
            progress(done, total)
    return problems


def _check_batches(partition: PartitionBackup, stored: BackupObject, data: bytes) -> None:
    name, position, expected = object_name(partition, stored), 0, stored.start
    for header in walk(data):
        if header.base_offset < expected or not crc_ok(data, header.position):
            raise CorruptBackup(f"{name} has a damaged batch at offset {header.base_offset}")
        position, expected = header.position + header.size, header.last_offset + 1
    if position != len(data) or expected != stored.end or len(data) != stored.batch_bytes:
        raise CorruptBackup(f"{name} does not hold offsets {stored.start} to {stored.end - 1}")
