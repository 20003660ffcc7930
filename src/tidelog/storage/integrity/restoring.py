"""Overwrites the bytes of a damaged range with those of another replica, in the same place.

Nothing else of the log changes, so a replica with damage in one place still has all other records for replicas with damage
elsewhere.  `replication.repair` gets the bytes; nobody may truncate the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tidelog._speed.log.batch import Header
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.damage_notes import note_damage, note_learned
from tidelog.storage.integrity.verification import find_damage
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.producer_state import snapshots
from tidelog.storage.producer_state.producers import Producers
from tidelog.storage.recovery.loading import list_segments
from tidelog.storage.segments.segments import Segments
from tidelog.storage.segments.txn_index import Aborted
from tidelog.storage.shared_files import make_own

_FILES = 64


def fits(bad: BadRange, size: int) -> bool:
    """Whether batches of so many bytes can take the place of the bad ones.  Replicas are compacted each by itself, so the
    same records may take another number of bytes elsewhere."""
    return size == bad.size


async def restore(log: Log, bad: BadRange, data: bytes, headers: Sequence[Header]) -> bool:
    """True when the range is whole again.  `data` has been checked, and `fits`."""
    disk, folder = log.volume.disk, log.folder
    segment = log.segments[log.segments.holding(bad.base)]
    if segment.base != bad.base or bad not in segment.bad:
        return False  # deleted meanwhile
    file, files, size, end = segment.file, segment.files, segment.size, segment.end
    suffix = files.suffix
    unlearned = any(each.start < bad.end and bad.start < each.end for each in log.state.damage.unlearned)
    relearn = unlearned and any(header.producer_id >= 0 for header in headers)

    def write() -> list[BadRange]:
        if relearn:
            # These were written without what the range says of producers.
            for offset in snapshots.offsets_in(disk.list(folder)):
                if offset > bad.start:
                    disk.remove(snapshots.path_of(folder, offset))
        # A fork of the cluster that shares the file keeps the bad bytes until it repairs its own.
        target = files.open() if make_own(files.path()) else file
        target.write(data, bad.position)
        target.sync()
        return find_damage(files.open_direct(), bad.base, size, end)

    left = await disk.run(write)
    segment.release()  # it may be another file now
    if bad not in segment.bad or files.suffix != suffix:
        return False
    if relearn:
        next_offset = log.next
        damaged = [*(each for each in log.damaged if each.base != bad.base), *left]
        producers, aborted = await disk.run(partial(_learn, log, damaged))
        if log.next == next_offset:  # a leader of last resort is written to meanwhile, and knows what came
            log.state.producers = producers
        note_learned(log, aborted, damaged)
    note_damage(log, segment, left)
    return all(other.position != bad.position for other in left)


def _learn(log: Log, damaged: Sequence[BadRange]) -> tuple[Producers, list[Aborted]]:
    """What the log says of producers, and the transactions that were aborted since the newest snapshot that is right.  In
    the disk's thread, with files of its own, as recovery does."""
    volume = replace(log.volume, files=OpenFiles(_FILES))
    disk, folder = volume.disk, log.folder
    segments = list_segments(volume, folder, [segment.base for segment in log.segments], log.config)
    for segment in segments:
        segment.bad = [bad for bad in damaged if bad.base == segment.base]
    segments[-1].end = log.end
    producers, known_to = snapshots.load(disk, folder, disk.list(folder), log.start, log.end)
    aborted = [each for _, each in snapshots.complete(producers, Segments(segments), known_to, log.end)]
    for segment in segments:
        segment.release_all()
    return producers, aborted
