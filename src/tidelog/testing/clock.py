"""The clock of a simulated machine: it advances with the virtual loop, and its wall time can be set wrong."""

from __future__ import annotations

import asyncio

from tidelog.testing.loop import VirtualLoop

START_MS = 1_750_000_000_000


class VirtualClock:
    """On a `VirtualLoop`, the clock shows the loop's time.  Elsewhere only `elapse_ms` advances it."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._loop = _running()
        self._wall_ms = start_ms - self._passed_ms()
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        return self._wall_ms + self._elapsed_ms + self._passed_ms()

    def monotonic_ms(self) -> int:
        return self._elapsed_ms + self._passed_ms()

    def jump_ms(self, ms: int) -> None:
        """Sets the wall time forward or, with a negative `ms`, back; timers and `monotonic_ms` are not affected."""
        self._wall_ms += ms

    def jump_monotonic_ms(self, ms: int) -> None:
        """Advances `monotonic_ms` alone, as if timers were late by `ms`: the wall time stays."""
        self._elapsed_ms += ms
        self._wall_ms -= ms

    def elapse_ms(self, ms: int) -> None:
        """Advances both times by `ms` for readers of this clock; no timer of the loop fires."""
        self._elapsed_ms += ms

    async def advance_ms(self, ms: int) -> None:
        """Lets `ms` pass on the loop: runs every timer in between, and everything that the timers cause."""
        if self._loop is None:
            raise RuntimeError("no VirtualLoop runs: start the scenario with tidelog.testing.run")
        await asyncio.sleep(ms / 1000)
        await self._loop.settle()

    def _passed_ms(self) -> int:
        return self._loop.elapsed_ms() if self._loop else 0


def _running() -> VirtualLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualLoop) else None
