"""Plain bytes of encrypted files that were used lately, in windows: consumers of the same tail share one decryption.

Bounded in bytes; the window that was not used for longest goes first.  One for all log directories of a broker."""

from __future__ import annotations

import threading
from collections import OrderedDict

WINDOW = 1 << 18  # a frame on the edge of two is opened for both


class DecryptedCache:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        self.hits = 0
        self._windows: OrderedDict[tuple[int, int], tuple[bytearray, int]] = (
            OrderedDict()
        )  # with the size that counts
        self._lock = threading.Lock()
        self._next_file = 0

    def new_file(self) -> int:
        """A number that no other file has."""
        with self._lock:
            self._next_file += 1
            return self._next_file

    def get(self, file: int, window: int) -> bytearray:
        """What is known from the start of the window on; the file that it is of may add to it, and calls `put` then."""
        with self._lock:
            entry = self._windows.get((file, window))
            if entry is None:
                return bytearray()
            self._windows.move_to_end((file, window))
            self.hits += 1
            return entry[0]

    def put(self, file: int, window: int, data: bytearray) -> None:
        with self._lock:
            _, counted = self._windows.pop((file, window), (data, 0))
            self.size += len(data) - counted
            self._windows[file, window] = data, len(data)
            while self.size > self.bytes_max:
                _, (_, counted) = self._windows.popitem(last=False)
                self.size -= counted

    def drop(self, file: int, first_window: int = 0) -> None:
        """All of a file from this window on: it was cut, written over or closed."""
        with self._lock:
            for key in [key for key in self._windows if key[0] == file and key[1] >= first_window]:
                self.size -= self._windows.pop(key)[1]
