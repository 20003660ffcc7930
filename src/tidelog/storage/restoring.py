"""Writes the bytes of a damaged range anew, as another replica has them, in their old place.

Nothing else of the log changes, so a replica that was damaged in one place still has all other records for those that are
damaged elsewhere.  `replication.repair` gets the bytes; nobody may cut the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidelog._speed.batch import Header
from tidelog.storage import snapshots
from tidelog.storage.damage import BadRange
from tidelog.storage.files import OpenFiles
from tidelog.storage.loading import list_segments
from tidelog.storage.log import Log
from tidelog.storage.producers import Producers
from tidelog.storage.segments import Segments
from tidelog.storage.verification import find_damage

_FILES = 64


def fits(log: Log, bad: BadRange, size: int, headers: Sequence[Header]) -> bool:
    """Whether these batches, of so many bytes, can take the place of the bad ones.  Replicas are compacted each by itself,
    so the same records may take another number of bytes elsewhere.  Markers that were missed when the log was opened
    belong into an index, too: for these it has to be built from here on."""
    missed = bad in log.missed_at_load and any(header.control for header in headers)
    return size == bad.size and not missed


async def restore(log: Log, bad: BadRange, data: bytes, headers: Sequence[Header]) -> bool:
    """True when the range is whole again.  `data` has been checked, and `fits`."""
    disk, folder = log.volume.disk, log.folder
    segment = log.segments[log.segments.holding(bad.base)]
    if segment.base != bad.base or bad not in segment.bad:
        return False  # deleted meanwhile
    file, size, end, path = segment.file, segment.size, segment.end, segment.path
    relearn = bad in log.missed_at_load and any(header.producer_id >= 0 for header in headers)

    def write() -> list[BadRange]:
        if relearn:
            # These were written without what the range says of producers.
            for offset in snapshots.offsets_in(disk.list(folder)):
                if offset > bad.start:
                    disk.remove(snapshots.path_of(folder, offset))
        file.write(data, bad.position)
        file.sync()
        return find_damage(disk.open_direct(path), bad.base, size, end)

    left = await disk.run(write)
    if bad not in segment.bad or segment.path != path:
        return False
    if relearn:
        next_offset = log.next
        others = [each for each in log.damaged if each.base != bad.base]
        producers = await disk.run(lambda: _learn(log, [*others, *left]))
        if log.next == next_offset:  # a leader of last resort is written to meanwhile, and knows what came
            log.producers = producers
    log.damage_found(segment, left)
    return all(other.position != bad.position for other in left)


def _learn(log: Log, damaged: Sequence[BadRange]) -> Producers:
    """In the disk's thread, with files of its own, as recovery does."""
    volume = replace(log.volume, files=OpenFiles(_FILES))
    disk, folder = volume.disk, log.folder
    segments = list_segments(volume, folder, [segment.base for segment in log.segments], log.config)
    for segment in segments:
        segment.bad = [bad for bad in damaged if bad.base == segment.base]
    segments[-1].end = log.end
    producers, known_to = snapshots.load(disk, folder, disk.list(folder), log.start, log.end)
    snapshots.complete(producers, Segments(segments), known_to, log.end)
    for segment in segments:
        segment.release_all()
    return producers
