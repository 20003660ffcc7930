"""How a compacted segment takes the place of the old ones, so that a crash at any point leaves one or the others.

The compactor writes the new files under names that end in `.cleaned` and syncs them.  `make_ready` renames them to
`<base>.log.swap` and so on: once the log has that name they are the truth.  `Log.replace_segments` renames the old
files to `.deleted` and the new ones to their final names.  `finish` brings to an end what a crash interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog._speed.log.batch import HEADER_SIZE, header_at
from tidelog.storage.disk import Disk
from tidelog.storage.segments.segment import INDEX, LOG, SUFFIXES, TIME_INDEX, TXN_INDEX, stem

CLEANED = ".cleaned"
SWAP = ".swap"
# The log comes last both times: `<base>.log.swap` is there exactly as long as the swap is under way.
_ORDER = (TXN_INDEX, INDEX, TIME_INDEX, LOG)
_NAME = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex)(\.swap)?")


def make_ready(disk: Disk, folder: str, base: int, cleaned: str = CLEANED) -> None:
    """From `<base><kind><cleaned>`.  Blocks; touches only the new files, so any thread may do it."""
    for kind in _ORDER:
        path = stem(folder, base) + kind
        # Transactions are rare: where neither the old segments nor the new one have any there is no file.
        if kind != TXN_INDEX or disk.exists(path + cleaned):
            disk.rename(path + cleaned, path + SWAP)
    disk.sync_folder(folder)


def rename_final(disk: Disk, folder: str, base: int) -> None:
    for kind in _ORDER:
        path = stem(folder, base) + kind
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)


def finish(disk: Disk, folder: str, names: Iterable[str]) -> bool:
    """Undoes or completes what a crash interrupted; true if there was anything, and the names have changed."""
    names = list(names)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    swaps = [match for name in names if (match := _NAME.fullmatch(name)) and match[3]]
    if not cleaned and not swaps:
        return False
    for name in cleaned:
        disk.remove(f"{folder}/{name}")
    ready = sorted(int(match[1]) for match in swaps if match[2] == LOG)
    for match in swaps:
        if int(match[1]) not in ready:
            disk.remove(f"{folder}/{match[0]}")
    existing = [
        int(match[1])
        for name in names
        if (match := _NAME.fullmatch(name)) and match[2] == LOG and not match[3]
    ]
    for base in ready:
        _complete(disk, folder, base, existing)
    disk.sync_folder(folder)
    return True


def _complete(disk: Disk, folder: str, base: int, existing: list[int]) -> None:
    """What the new segment replaces are the old ones that start within it.  One that starts behind its last record
    has nothing left in the new one, and may stay: it is only not compacted yet."""
    last = _last_offset(disk, stem(folder, base) + LOG + SWAP, base)
    for old in existing:
        if base <= old <= last:
            # The old log goes before its indexes, and these go only where the new ones do not lie already.
            disk.remove(stem(folder, old) + LOG)
            for kind in SUFFIXES:
                if old != base or disk.exists(stem(folder, base) + kind + SWAP):
                    disk.remove(stem(folder, old) + kind)
    rename_final(disk, folder, base)


def _last_offset(disk: Disk, path: str, base: int) -> int:
    """Walks the headers: a swapped segment was synced, so its batches are whole."""
    file = disk.open(path)
    size, position, last = file.size(), 0, base
    while position < size:
        header = header_at(file.read(HEADER_SIZE, position))
        if header is None:
            break
        last = header.last_offset
        position += header.size
    return last
