"""Runs compaction jobs of several directories: as many at a time as `log.cleaner.threads` says.

Each job has a runner of its own, which is kept for the next job.  The number can change while jobs run; those that run
are finished."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from tidelog.storage.compaction.job import CompactionJob, CompactionProgress, Rewritten
from tidelog.storage.compaction.runner import Runner


class RunnerPool:
    def __init__(self, make: Callable[[], Runner], threads: int) -> None:
        self._make = make
        self._threads = threads
        self._running = 0
        self._idle: list[Runner] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    def resize(self, threads: int) -> None:
        self._threads = threads
        self._wake()

    async def run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        await self._turn()
        runner = self._idle.pop() if self._idle else self._make()
        try:
            async with aclosing(runner.run(job)) as answers:
                async for answer in answers:
                    yield answer
        finally:
            self._running -= 1
            self._idle.append(runner)
            self._wake()

    async def _turn(self) -> None:
        if self._running < self._threads:
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given a turn that it cannot take
                self._running -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._running < self._threads:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)

    async def close(self) -> None:
        for runner in self._idle:
            await runner.close()
        self._idle.clear()
