"""Disk space reserved beside the metadata store, so that a full disk can be emptied: to delete a topic, or only to start
and stop, the store has to write a little first.  Used by `sqlite.store`, in its thread."""

from __future__ import annotations

import os

ROOM_BYTES = 1 << 20
STEP_BYTES = 64 << 10  # freed at a time: the process that fills the disk takes free space, too
FREE_BYTES_MIN = 4 * ROOM_BYTES  # the space is reserved again only if this much is free


class DiskReserve:
    """A file that is as large as the reserved space."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = os.stat(path).st_size if os.path.exists(path) else 0

    def give(self) -> bool:
        """Frees some space; false when no reserved space is left."""
        if not self._size:
            return False
        self._size = max(0, self._size - STEP_BYTES)
        os.truncate(self._path, self._size)
        return True

    def give_all(self) -> None:
        while self.give():
            pass

    def take(self) -> None:
        """Reserves all of the space again if the disk has plenty; a failure is ignored, since a later call tries again."""
        if self._size >= ROOM_BYTES:
            return
        try:
            disk = os.statvfs(os.path.dirname(self._path) or ".")
            if disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN:
                self._fill()
        except OSError:
            pass

    def _fill(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(fd, 0, ROOM_BYTES)
            self._size = ROOM_BYTES
        finally:
            os.close(fd)
