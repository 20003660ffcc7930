"""The producer's buffer memory: the bytes of records that are not acknowledged yet, bounded by `buffer_memory`.
Waiters get room in their order, so a large record is not starved by small ones.

Any thread may take room while there is some (`Memory`, native); waiting for room and giving it back happens on the
loop."""

from __future__ import annotations

import asyncio
from collections import deque

from tidelog._speed.client.intake import Memory
from tidelog.client.errors import BufferExhausted


class BufferMemory(Memory):
    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def exhausted(self) -> bool:
        """A caller waits for room."""
        return bool(self._waiting)

    async def take(self, size: int, timeout_ms: float) -> None:
        if self.try_take(size):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, granted)
        self._waiting.append(place)
        self.contended = True
        # Room may have been given back between the two looks.
        self._hand_out()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await granted
        except BaseException as problem:
            if granted.done() and not granted.cancelled():
                # The room was given just as the wait ended.
                if isinstance(problem, TimeoutError):
                    return
                self.give(size)
            else:
                if place in self._waiting:
                    self._waiting.remove(place)
                self._hand_out()
            if isinstance(problem, TimeoutError):
                raise BufferExhausted(
                    f"buffer_memory of {self.bytes_max} bytes stayed full for {timeout_ms:.0f} ms: "
                    "is the broker reachable and fast enough?"
                ) from None
            raise

    def give(self, size: int) -> None:
        self.give_back(size)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            size, granted = self._waiting[0]
            if not granted.done():
                if self.used + size > self.bytes_max:
                    return
                self.force_take(size)
                granted.set_result(None)
            self._waiting.popleft()
        self.contended = False
