"""The clock of a simulated machine: it moves with the virtual loop, and its wall time can be set wrong."""

from __future__ import annotations

import asyncio

from tidelog.testing.loop import VirtualLoop

START_MS = 1_750_000_000_000


class VirtualClock:
    """On a `VirtualLoop`, time passes as the loop's does.  Anywhere else it passes only by `elapse_ms`."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._loop = _running()
        self._wall_ms = start_ms - self._passed_ms()
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        return self._wall_ms + self._elapsed_ms + self._passed_ms()

    def monotonic_ms(self) -> int:
        return self._elapsed_ms + self._passed_ms()

    def jump_ms(self, ms: int) -> None:
        """Wall time is set forward or, below zero, back; timers and `monotonic_ms` do not notice."""
        self._wall_ms += ms

    def elapse_ms(self, ms: int) -> None:
        """Both times move on by `ms` for readers of this clock; no timer of the loop fires."""
        self._elapsed_ms += ms

    async def advance_ms(self, ms: int) -> None:
        """Lets `ms` pass on the loop, with every timer in between, and then all that these set off."""
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
