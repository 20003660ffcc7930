"""How a compacted segment takes the place of the old ones, so that a crash at any point leaves one or the others.

The compactor writes the new files under names that end in `.cleaned` and syncs them.  `make_ready` renames them to
`<base>.log.swap` and so on: once the log has that name they are the truth.  `Cutter.replace_segments` renames the old
files to `.deleted` and the new ones to their final names.  `finish` brings to an end what a crash interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog._speed.log.batch import HEADER_SIZE, header_at
from tidelog.storage.disk import Disk
from tidelog.storage.segments.segment_files import BESIDE_LOG, LOG, NEEDED, SegmentFiles, parse

CLEANED = ".cleaned"
SWAP = ".swap"


def make_ready(disk: Disk, folder: str, base: int, cleaned: str = CLEANED) -> None:
    """From `<base><kind><cleaned>`.  Blocks; touches only the new files, so any thread may do it.  The log comes last, here
    and in `rename_final`: `<base>.log.swap` is there exactly as long as the swap is under way."""
    SegmentFiles(disk, folder, base, cleaned).rename(SWAP, log_last=True, needed=NEEDED)
    disk.sync_folder(folder)


def rename_final(disk: Disk, folder: str, base: int) -> None:
    SegmentFiles(disk, folder, base, SWAP).rename("", log_last=True)


def finish(disk: Disk, folder: str, names: Iterable[str]) -> bool:
    """Undoes or completes what a crash interrupted; true if there was anything, and the names have changed."""
    names = list(names)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    files = [file for name in names if (file := parse(name))]
    swaps = [file for file in files if file.suffix == SWAP]
    if not cleaned and not swaps:
        return False
    for name in cleaned:
        disk.remove(f"{folder}/{name}")
    ready = sorted(file.base for file in swaps if file.kind == LOG)
    for file in swaps:
        if file.base not in ready:
            SegmentFiles(disk, folder, file.base, SWAP).remove(file.kind)
    existing = [file.base for file in files if file.kind == LOG and not file.suffix]
    for base in ready:
        _complete(disk, folder, base, existing)
    disk.sync_folder(folder)
    return True


def _complete(disk: Disk, folder: str, base: int, existing: list[int]) -> None:
    """The new segment replaces the old ones that start within it.  An old one that starts past its last record has no
    records in the new one, and may stay: it is only not compacted yet."""
    swap = SegmentFiles(disk, folder, base, SWAP)
    last = _last_offset(swap, base)
    for number in existing:
        if base <= number <= last:
            # The old log goes before its indexes, and these go only where the new ones do not lie already.
            old = SegmentFiles(disk, folder, number)
            old.remove(LOG)
            for kind in BESIDE_LOG:
                if number != base or swap.exists(kind):
                    old.remove(kind)
    rename_final(disk, folder, base)


def _last_offset(swap: SegmentFiles, base: int) -> int:
    """Walks the headers: a swapped segment was synced, so its batches are whole."""
    file = swap.open()
    size, position, last = file.size(), 0, base
    while position < size:
        header = header_at(file.read(HEADER_SIZE, position))
        if header is None:
            break
        last = header.last_offset
        position += header.size
    return last
