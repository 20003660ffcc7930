"""Work that takes long, such as hashing a password or one step of a TLS handshake, on a few threads of its own.

What cannot begin yet waits in a bounded queue, and addresses have turns: whoever asks a thousand times waits for itself.
When the queue is full, the address with the most waiting loses its newest."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NICENESS = 5
"""Answers to clients that are let in come first where processors are scarce."""


class ThreadsCrowded(ConnectionError):
    """Too much is waiting: the connection is closed, and its client may come again."""


class FairQueue:
    def __init__(self, at_once: int, waiting_max: Callable[[], int]) -> None:
        self._at_once = at_once
        self._waiting_max = waiting_max
        self._running = 0
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # by who asks; the first one is next
        self.waiting = 0

    async def enter(self, key: str) -> None:
        """Raises `ThreadsCrowded`; otherwise `leave` must follow."""
        if self._running < self._at_once:
            self._running += 1
            return
        self._make_room(key)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(key, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # the turn came too late
            else:
                self._drop(key, turn)
            raise

    def leave(self) -> None:
        while self._lines:
            key, line = next(iter(self._lines.items()))
            turn = line.popleft()
            self.waiting -= 1
            del self._lines[key]
            if line:
                self._lines[key] = line  # the last one again
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _make_room(self, key: str) -> None:
        if self.waiting < self._waiting_max():
            return
        most = max(self._lines, key=lambda other: len(self._lines[other]), default=key)
        if key == most or len(self._lines[most]) <= len(self._lines.get(key, ())) + 1:
            raise ThreadsCrowded(f"{self.waiting} wait already, and {key} has its share of them")
        turn = self._lines[most][-1]
        self._drop(most, turn)
        if not turn.done():
            turn.set_exception(
                ThreadsCrowded(f"others have to wait less because {most} has the most waiting")
            )

    def _drop(self, key: str, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(key)
        if line is not None and turn in line:
            line.remove(turn)
            self.waiting -= 1
            if not line:
                del self._lines[key]


class FairThreads:
    def __init__(self, name: str, waiting_max: Callable[[], int], threads: int | None = None) -> None:
        self._name = name
        self._threads = threads or max(1, min(4, (os.cpu_count() or 1) // 2))
        self._queue = FairQueue(self._threads, waiting_max)
        self._executor: ThreadPoolExecutor | None = None

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    async def run(self, key: str, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """`key`: the address for which the work is done.  Raises `ThreadsCrowded`."""
        await self._queue.enter(key)
        try:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, f"tidelog-{self._name}", _stand_back)
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)
        finally:
            self._queue.leave()


def _stand_back() -> None:
    # On Linux a priority is one of the thread alone.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
