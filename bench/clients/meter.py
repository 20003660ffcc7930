"""What a client is to move, and a meter for what that takes it."""

from __future__ import annotations

import json
import os
import resource
import time
from dataclasses import dataclass

BATCH_BYTES = 128 * 1024
LINGER_MS = 5
BUFFER_BYTES = 32 * 1024 * 1024
POOL = 1_024  # different records, used in turn; a power of two
TRACE = ("trace", b"4bf92f3577b34da6")


@dataclass(frozen=True)
class Load:
    """`same`: batches of 128 KiB and 5 ms of linger for everybody, instead of each client's defaults.

    `full`: records with keys, null values among them, a header each, and lz4; plain ones have a value only."""

    bootstrap: str
    topic: str
    size: int
    count: int
    same: bool
    full: bool

    @property
    def value(self) -> bytes:
        return os.urandom(self.size)

    def pool(self) -> tuple[list[bytes | None], list[bytes | None]]:
        """Keys and values: text of which lz4 saves about half; every eighth key and every 32nd value is null."""
        keys: list[bytes | None] = [b"customer-%06d" % at if at % 8 else None for at in range(POOL)]
        values: list[bytes | None] = [
            os.urandom(self.size // 2).hex().encode() if at % 32 else None for at in range(POOL)
        ]
        return keys, values


class Meter:
    """CPU of all threads and time, between `begin` and `end`."""

    def begin(self) -> None:
        self._cpu, self._wall = self._now(), time.perf_counter()

    def end(self, count: int) -> None:
        cpu, wall = self._now() - self._cpu, time.perf_counter() - self._wall
        print(json.dumps({"cpu_us": cpu / count * 1e6, "rate": count / wall}))

    def _now(self) -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
