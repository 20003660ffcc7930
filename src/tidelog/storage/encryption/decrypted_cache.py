"""Plain bytes of encrypted files that were used lately, in windows: consumers of the same tail share one decryption.

Bounded in bytes; the window that was not used for longest goes first.  One for all log directories of a broker."""

from __future__ import annotations

import threading
from collections import OrderedDict

WINDOW = 1 << 17


class DecryptedCache:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        self.hits = 0
        self._windows: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._next_file = 0

    def new_file(self) -> int:
        """A number that no other file has."""
        with self._lock:
            self._next_file += 1
            return self._next_file

    def get(self, file: int, window: int) -> bytes:
        """What is known from the start of the window on."""
        with self._lock:
            data = self._windows.get((file, window))
            if data is None:
                return b""
            self._windows.move_to_end((file, window))
            self.hits += 1
            return data

    def put(self, file: int, window: int, data: bytes) -> None:
        with self._lock:
            self.size += len(data) - len(self._windows.pop((file, window), b""))
            self._windows[file, window] = data
            while self.size > self.bytes_max:
                _, gone = self._windows.popitem(last=False)
                self.size -= len(gone)

    def drop(self, file: int, first_window: int = 0) -> None:
        """All of a file from this window on: it was cut, written over or closed."""
        with self._lock:
            for key in [key for key in self._windows if key[0] == file and key[1] >= first_window]:
                self.size -= len(self._windows.pop(key))
