"""Time, passed in.  Waiting is the event loop's business (`asyncio.sleep`, `loop.call_later`): a loop on virtual
time and the `Clock` that belongs to it move together, see `tidelog.testing`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Never goes back; only differences mean anything."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
