"""Who waits for a partition to move: producers for `committed` to pass their records, fetches for enough bytes.

Waits are plain futures, settled by the partition; a wait that ends another way (time-out, closed connection) takes
itself out, so nothing is kept for a caller that has gone."""

from __future__ import annotations

import asyncio
from collections import deque

from tidelog.types import Offset


class FetchWait:
    """One fetch that found too little, on all of its partitions."""

    __slots__ = ("_missing_bytes", "future", "read_committed")

    def __init__(self, missing_bytes: int, read_committed: bool = False) -> None:
        self._missing_bytes = missing_bytes
        self.read_committed = read_committed
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grew(self, count: int) -> None:
        """One of the partitions has `count` more bytes to give."""
        self._missing_bytes -= count
        if self._missing_bytes <= 0:
            self.changed()

    def changed(self) -> None:
        """Something other than size: the partition moved away, shrank or was deleted."""
        if not self.future.done():
            self.future.set_result(None)


class CommitWaits:
    """Producers waiting for `committed`, in the order of their offsets, which is the order they came in."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[Offset, asyncio.Future[None]]] = deque()

    def wait(self, end: Offset) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((end, future))
        return future

    def committed(self, committed: Offset) -> None:
        while self.waiting and (self.waiting[0][0] <= committed or self.waiting[0][1].done()):
            _, future = self.waiting.popleft()
            if not future.done():
                future.set_result(None)

    def failed(self, problem: Exception) -> None:
        while self.waiting:
            _, future = self.waiting.popleft()
            if not future.done():
                future.set_exception(problem)
