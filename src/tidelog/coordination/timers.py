"""Deadlines by name, for sessions, rebalances and locks.  One timer of the loop serves all of them.

Most deadlines are postponed long before they pass (each heartbeat postpones its member's), so postponing is a write to a
dictionary; the queue is corrected when the old time comes."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable
from itertools import count

from tidelog.clock import Clock

log = logging.getLogger("tidelog.timers")

Act = Callable[[], None]


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[Hashable, tuple[int, Act]] = {}
        self._queued: dict[Hashable, int] = {}  # the time at which the queue looks at a name next
        self._queue: list[tuple[int, int, Hashable]] = []
        self._order = count()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ms = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._due

    def set(self, name: Hashable, after_ms: int, act: Act) -> None:
        """`act` is called once, `after_ms` from now; a deadline that `name` had before is replaced."""
        due = self._clock.monotonic_ms() + max(after_ms, 0)
        self._due[name] = (due, act)
        queued = self._queued.get(name)
        if queued is None or due < queued:
            self._push(name, due)

    def cancel(self, name: Hashable) -> None:
        self._due.pop(name, None)

    def clear(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._queue.clear()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _push(self, name: Hashable, due: int) -> None:
        self._queued[name] = due
        heapq.heappush(self._queue, (due, next(self._order), name))
        if self._wake is None or due < self._wake_ms:
            self._arm()

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._queue:
            self._wake_ms = self._queue[0][0]
            wait = max(self._wake_ms - self._clock.monotonic_ms(), 0) / 1000
            self._wake = asyncio.get_running_loop().call_later(wait, self._run)

    def _run(self) -> None:
        self._wake = None
        now = self._clock.monotonic_ms()
        ready: list[tuple[Hashable, int, Act]] = []
        while self._queue and self._queue[0][0] <= now:
            at, _, name = heapq.heappop(self._queue)
            if self._queued.get(name) != at:
                continue  # an earlier time was queued since, and has been handled
            del self._queued[name]
            deadline = self._due.get(name)
            if deadline is None:
                continue
            due, act = deadline
            if due <= now:
                ready.append((name, due, act))
            else:
                self._push(name, due)
        for name, due, act in ready:
            deadline = self._due.get(name)
            if deadline is None or deadline[0] != due:
                continue  # an earlier action has cancelled or moved it
            del self._due[name]
            try:
                act()
            except Exception:
                log.exception("the action of deadline %s failed", name)
        if self._wake is None:
            self._arm()
