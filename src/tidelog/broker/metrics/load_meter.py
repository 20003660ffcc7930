"""Measures the load of a broker every few seconds: rates over the last minute, and how late the event loop is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog._speed.log.request_metrics import Histogram
from tidelog.replication.partitions import Counts

TICK_S = 1.0
SAMPLE_TICKS = 5
WINDOW_S = 60
DELAY_BOUNDS_MS = (1, 5, 10, 50, 100, 500, 1000)


class RatesPerSecond(NamedTuple):
    """A second, over the last minute or as long as the broker runs."""

    messages_in: float
    bytes_in: float
    messages_out: float
    bytes_out: float
    replicated_in: float


class LoadMeter:
    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts
        # One more than fit into the window: rates reach back to the first of them.
        self._samples: deque[tuple[float, Counts]] = deque(maxlen=int(WINDOW_S / TICK_S / SAMPLE_TICKS) + 1)
        self.delay_ms = Histogram(DELAY_BOUNDS_MS)
        self._sample()

    def _sample(self) -> None:
        self._samples.append((asyncio.get_running_loop().time(), self._counts()))

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(SAMPLE_TICKS):
                due = loop.time() + TICK_S
                await asyncio.sleep(TICK_S)
                self.delay_ms.observe(max(1000 * (loop.time() - due), 0))
            self._sample()

    def rates(self) -> RatesPerSecond:
        now, counts = asyncio.get_running_loop().time(), self._counts()
        since, before = next(
            (sample for sample in self._samples if now - sample[0] <= WINDOW_S), self._samples[-1]
        )
        seconds = max(now - since, 1.0)
        return RatesPerSecond(*((new - old) / seconds for new, old in zip(counts, before, strict=True)))
