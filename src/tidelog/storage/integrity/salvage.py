"""Gets a log past damage that no other replica can mend, on the files of a broker that is stopped.

Each bad range is replaced by an empty batch with the same offsets, as compaction leaves them: readers and followers of
every kind step over it.  The bad bytes are set aside in the partition's folder, and `lost-ranges` there remembers what
was given up.  A crash in between leaves the old segment or the new one.  Blocks; called by `tidelog log repair`.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from tidelog._speed.log.batch import ATTRIBUTES_AT, HEADER_SIZE, header_at
from tidelog._speed.log.crc32c import crc32c
from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.storage import snapshots
from tidelog.storage.disk import Disk, File
from tidelog.storage.integrity import damage
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.scan import CHUNK_BYTES
from tidelog.storage.integrity.verification import find_damage
from tidelog.storage.loading import read_damage, read_epochs
from tidelog.storage.segments.segment_files import INDEX, LOG, TIME_INDEX, SegmentFiles, parse, stem
from tidelog.storage.segments.swapping import CLEANED

LOST = "lost-ranges"
ASIDE = ".rotten"
LOCK = ".lock"

_BATCH = Struct(">qiibIhiqqqhii")


class Loss(NamedTuple):
    """What giving up a bad range costs.  Times are those of the whole batches around it, -1 where there is none."""

    bad: BadRange
    after_ms: int
    before_ms: int
    epoch: int
    """The leader epoch at its start."""


def find_losses(disk: Disk, folder: str) -> list[Loss]:
    """Every bad range of a log, found by reading all of it."""
    names = [parsed for name in disk.list(folder) if (parsed := parse(name))]
    bases = sorted(name.base for name in names if name.kind == LOG and not name.suffix)
    losses: list[Loss] = []
    for number, base in enumerate(bases):
        files = SegmentFiles(disk, folder, base)
        file, size = files.open(), files.size()
        last = number == len(bases) - 1
        end = _end_of_log(disk, folder, base) if last else bases[number + 1]
        whole_from = 0
        for bad in find_damage(files.open_direct(), base, size, end):
            if last and bad.position + bad.size == size and bad.end <= bad.start:
                continue  # a torn end: the broker cuts it when it starts
            losses.append(_loss(file, bad, whole_from, _epoch_at(disk, folder, bad.start)))
            whole_from = bad.position + bad.size
    return losses


def _epoch_at(disk: Disk, folder: str, offset: int) -> int:
    return max((epoch for epoch, start in read_epochs(disk, folder) if start <= offset), default=0)


def _end_of_log(disk: Disk, folder: str, base: int) -> int:
    """As far as small files tell: where the bytes at the end are bad, they cannot."""
    try:
        damage_ends = [bad.end for bad in read_damage(disk, folder) if bad.base == base]
    except CorruptMessage:
        damage_ends = []
    return max([base, *damage_ends, *snapshots.offsets_in(disk.list(folder))])


def _loss(file: File, bad: BadRange, whole_from: int, epoch: int) -> Loss:
    before, at = None, whole_from
    while at < bad.position and (header := header_at(file.read(HEADER_SIZE, at))) is not None:
        before, at = header, at + header.size
    after = header_at(file.read(HEADER_SIZE, bad.position + bad.size))
    return Loss(
        bad,
        -1 if before is None else before.max_timestamp,
        -1 if after is None else after.base_timestamp,
        epoch if before is None else before.leader_epoch,
    )


def give_up_losses(disk: Disk, folder: str, losses: list[Loss]) -> None:
    """KafkaStorageError when a broker uses the files."""
    directory = folder.rstrip("/").rpartition("/")[0] or "."
    try:
        lock = disk.lock(f"{directory}/{LOCK}")
    except BlockingIOError:
        raise KafkaStorageError(f"{directory} is in use by a broker: stop it first") from None
    try:
        for base in sorted({loss.bad.base for loss in losses}):
            _replace(disk, folder, base, [loss for loss in losses if loss.bad.base == base])
    finally:
        lock.close()


def _replace(disk: Disk, folder: str, base: int, losses: list[Loss]) -> None:
    files, cleaned = SegmentFiles(disk, folder, base), SegmentFiles(disk, folder, base, CLEANED)
    old, size = files.open(), files.size()
    for loss in losses:
        disk.replace_file(
            f"{stem(folder, base)}.{loss.bad.position}{ASIDE}", old.read(loss.bad.size, loss.bad.position)
        )
    _remember(disk, folder, [loss.bad for loss in losses])
    new = cleaned.create()
    position = written = 0
    for loss in losses:
        written = _copy(old, position, loss.bad.position, new, written)
        empty = _empty_batch(loss)
        new.write(empty, written)
        written += len(empty)
        position = loss.bad.position + loss.bad.size
    _copy(old, position, size, new, written)
    new.sync()
    files.remove(INDEX, TIME_INDEX)  # built anew when they are needed
    cleaned.rename("", needed=(LOG,))
    _forget(disk, folder, base)
    disk.sync_folder(folder)


def _copy(old: File, start: int, end: int, new: File, at: int) -> int:
    while start < end:
        data = old.read(min(CHUNK_BYTES, end - start), start)
        new.write(data, at)
        start, at = start + len(data), at + len(data)
    return at


def _empty_batch(loss: Loss) -> bytes:
    start, end = loss.bad.start, loss.bad.end
    fields = 0, end - start - 1, loss.after_ms, loss.after_ms, -1, -1, -1, 0
    batch = bytearray(_BATCH.pack(start, HEADER_SIZE - 12, loss.epoch, 2, 0, *fields))
    batch[17:21] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(batch)


def read_lost(disk: Disk, folder: str) -> list[BadRange]:
    """What was given up so far; positions are those of the segments as they were."""
    path = f"{folder}/{LOST}"
    try:
        return damage.decode(disk.read_file(path)) if disk.exists(path) else []
    except ValueError:
        return []


def _remember(disk: Disk, folder: str, ranges: list[BadRange]) -> None:
    remembered = read_lost(disk, folder)
    fresh = [bad for bad in ranges if bad not in remembered]
    disk.replace_file(f"{folder}/{LOST}", damage.encode([*remembered, *fresh]))


def _forget(disk: Disk, folder: str, base: int) -> None:
    path = f"{folder}/{damage.DAMAGE}"
    if disk.exists(path):
        try:
            left = [bad for bad in read_damage(disk, folder) if bad.base != base]
        except CorruptMessage:
            left = []
        disk.replace_file(path, damage.encode(left))
