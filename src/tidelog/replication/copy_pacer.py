"""Copies between log directories at a bounded rate: a copier waits here after each chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.clock import Clock
from tidelog.replication.throttle import Throttle


class CopyPacer:
    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._throttle = Throttle(rate)

    async def copied(self, count: int) -> None:
        """All that are copied at this pace share it."""
        self._throttle.took(count, self._clock.monotonic_ms())
        while wait_ms := self._throttle.wait_ms(self._clock.monotonic_ms()):
            await asyncio.sleep(wait_ms / 1000)
