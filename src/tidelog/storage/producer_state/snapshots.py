"""Snapshots of a log's producers on disk: `<offset>.snapshot` holds what was known when the log ended there.

One is written when a segment starts and when the log is closed.  They need not survive: a missing or torn one only
means that more of the log is scanned.  Used by `log`, `roller`, `cutter`, `loading` and `recovery`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from tidelog._speed.log.batch import Header
from tidelog.record.builder import Marker, read_marker
from tidelog.record.reader import read_batches
from tidelog.storage.disk import Disk
from tidelog.storage.producer_state.producers import CorruptSnapshot, Producers
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.txn_index import Aborted

SUFFIX = ".snapshot"
_NAME = re.compile(r"(\d{20})\.snapshot")


def path_of(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020d}{SUFFIX}"


def offsets_in(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among the names in a folder, ascending."""
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def write(disk: Disk, folder: str, offset: int, producers: Producers, log_end: int) -> str:
    """Not synced: its checksum tells whether it is whole.  The path it has.  `log_end` is the offset after the last
    batch before `offset`; less than that where there is a gap."""
    path = path_of(folder, offset)
    file = disk.open(path, create=True)
    data = producers.snapshot(log_end)
    file.write(data, 0)
    if file.size() != len(data):
        file.truncate(len(data))
    return path


def log_end_before(disk: Disk, folder: str, offset: int) -> int | None:
    """Where the last batch before `offset` ended; None when no whole snapshot tells."""
    path = path_of(folder, offset)
    try:
        return Producers().restore(disk.read_file(path)) if disk.exists(path) else None
    except CorruptSnapshot:
        return None


def forget_log_end(disk: Disk, folder: str, offset: int) -> None:
    """The batches before `offset` are about to be compacted: the end of the last one means nothing from now on.  The
    state of producers stays, for the batches themselves may go.  Blocks."""
    path, producers = path_of(folder, offset), Producers()
    try:
        log_end = producers.restore(disk.read_file(path)) if disk.exists(path) else 0
    except CorruptSnapshot:
        return
    if log_end:
        disk.replace_file(path, producers.snapshot(0))


def remove_strays(disk: Disk, folder: str, bases: Iterable[int], end: int) -> None:
    """All but those of segments and the one at the end: earlier stops left them."""
    kept = {*bases, end}
    for offset in offsets_in(disk.list(folder)):
        if offset not in kept:
            disk.remove(path_of(folder, offset))


def load(
    disk: Disk, folder: str, names: Iterable[str], start: int, end: int, newest: int | None = None
) -> tuple[Producers, int]:
    """The newest sound snapshot of a log from `start` to `end`, and the offset to continue from; snapshots outside of the
    log and corrupt ones are removed.  Snapshots above `newest` are ignored, if that is given."""
    producers, restored_to = Producers(), -1
    for offset in reversed(offsets_in(names)):
        path = path_of(folder, offset)
        if start <= offset <= end:
            if restored_to >= 0 or (newest is not None and offset > newest):
                continue
            try:
                producers.restore(disk.read_file(path))
            except CorruptSnapshot:
                disk.remove(path)
            else:
                restored_to = producers.restored_to = offset
        else:
            disk.remove(path)
    return producers, max(restored_to, start)


def complete(
    producers: Producers, segments: Iterable[Segment], start: int, end: int
) -> list[tuple[Segment, Aborted]]:
    """Learns from the batches between `start` and `end`; the transactions that were aborted there, each with the segment of
    its marker."""
    aborted_in: list[tuple[Segment, Aborted]] = []
    for segment in segments:
        if segment.end <= start or segment.base >= end or segment.size == 0:
            continue
        # A search would begin with the first batch, which may be damaged.
        first = 0 if start <= segment.base else segment.locate(start)[0]
        for position, header in segment.headers(first):
            if header.base_offset >= end:
                return aborted_in
            if header.producer_id >= 0 and header.base_offset >= start:
                aborted = learn(producers, header, partial(segment.file.read, header.size, position))
                if aborted is not None:
                    aborted_in.append((segment, aborted))
    return aborted_in


def learn(producers: Producers, header: Header, batch: Callable[[], bytes | memoryview]) -> Aborted | None:
    """From one batch that has a producer; its bytes are asked for only where the header does not say all.  The
    transaction that it aborts, if it does."""
    if not header.control:
        producers.appended(header, header.base_offset)
        return None
    aborted = None
    for each in read_batches(batch(), check_crc=False):
        for record in each.records():
            marker = read_marker(record)
            if marker is not None:
                if marker.marker is Marker.ABORT:
                    aborted = producers.aborted_at(header.producer_id, header.base_offset)
                producers.ended(
                    header.producer_id,
                    header.producer_epoch,
                    marker.coordinator_epoch,
                    header.base_offset,
                    header.max_timestamp,
                )
    return aborted
