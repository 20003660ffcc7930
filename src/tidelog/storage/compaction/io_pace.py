"""Keeps a compaction below `log.cleaner.io.max.bytes.per.second`: a read or write is followed by a wait for as long as
it may take at this rate.

Used in the worker process, whose thread may sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

SLEEP_S_MIN = 0.01  # shorter waits add up


class IoPace:
    def __init__(
        self,
        bytes_per_second: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()

    def used(self, size: int) -> None:
        now_s = self._now_s()
        self._due_s = max(self._due_s, now_s) + size / self._rate
        if self._due_s - now_s >= SLEEP_S_MIN:
            self._sleep(self._due_s - now_s)
