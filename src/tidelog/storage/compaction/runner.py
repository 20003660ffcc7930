"""Who carries out a compaction job: a process of its own for the machine's disk, the disk's own thread for others.

Both give the groups of segments as they are written, then the `CompactionProgress` of the whole round.
Giving up in the middle (closing the iterator) ends the work; files that were written
and not swapped in are the caller's to remove.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from tidelog.errors import TidelogError
from tidelog.storage.compaction.compactor import Compactor
from tidelog.storage.compaction.job import CompactionJob, CompactionProgress, Rewritten
from tidelog.storage.disk import Disk

IDLE_S = 60.0
_ANSWER_BYTES_MAX = 16 << 20
_WORKER = "tidelog.storage.compaction.worker"


class CompactionFailed(Exception):
    """`damaged`: the log itself is at fault, and trying again will not help."""

    def __init__(self, message: str, damaged: bool, errno: int | None = None) -> None:
        super().__init__(message)
        self.damaged = damaged
        self.errno = errno


class Runner(Protocol):
    def run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        """CompactionFailed when the job cannot be done."""
        ...

    async def close(self) -> None: ...


class InlineRunner:
    """In the disk's thread, one group of segments at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        try:
            compactor = await self._disk.run(lambda: Compactor(self._disk, job))
            groups = compactor.run()
            while (rewritten := await self._disk.run(lambda: next(groups, None))) is not None:
                yield rewritten
        except TidelogError as problem:
            raise CompactionFailed(str(problem), damaged=True) from problem
        except OSError as problem:
            raise CompactionFailed(str(problem), damaged=False, errno=problem.errno) from problem
        yield compactor.progress

    async def close(self) -> None:
        pass


class ProcessRunner:
    """A worker process, started when there is a job and ended when there was none for a while.

    Cleaners of several directories may share it: jobs are done one after the other, within the memory of one.
    """

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        async with self._turn, aclosing(self._run(job)) as answers:
            async for answer in answers:
                yield answer

    async def _run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        process = await self._started()
        finished = False
        try:
            async for answer in self._answers(process, job):
                finished = isinstance(answer, CompactionProgress)
                yield answer
        except CompactionFailed:
            finished = process.returncode is None
            raise
        except OSError as problem:
            raise CompactionFailed(f"the compaction worker is gone: {problem}", damaged=False) from problem
        finally:
            if finished:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._dismiss)
            else:
                await self._end(process)

    async def _answers(
        self, process: asyncio.subprocess.Process, job: CompactionJob
    ) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(job.as_plain()).encode() + b"\n")
        await process.stdin.drain()
        while True:
            line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                await process.wait()
                raise CompactionFailed(
                    f"the compaction worker ended with status {process.returncode} before its job was done",
                    damaged=False,
                )
            answer = json.loads(line)
            if "rewritten" in answer:
                yield Rewritten(*answer["rewritten"])
            elif "done" in answer:
                yield CompactionProgress(**answer["done"])
                return
            else:
                raise CompactionFailed(answer["failed"], answer["damaged"], answer.get("errno"))

    async def _started(self) -> asyncio.subprocess.Process:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the folder the broker was started in has no say in what is imported
                "-m",
                _WORKER,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_ANSWER_BYTES_MAX,
            )
        return self._process

    def _dismiss(self) -> None:
        self._idle = None
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if self._process is process:
            self._process = None
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._process is not None:
            await self._end(self._process)
