"""Group commit: writes and syncs of all logs of one disk, off the event loop.

Whatever is queued while one group is on its way becomes the next group; an idle flusher starts at once.  A
group writes, then syncs each file it touched once, then each folder, and only then completes its jobs, in the
order they were submitted.  Several logs are synced at the same time: a file system joins such syncs, and ten of
them take hardly longer than two, one after the other.  Used by `log`; one per log directory.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Protocol

from tidelog._speed.log.request_metrics import Histogram
from tidelog.storage.disk import Disk, File

SYNCS_MAX = 8
FLUSH_BOUNDS_MS = (1, 5, 10, 50, 100, 500, 1000)


class NotDurable(OSError):
    """A sync failed, whatever the reason: bytes written before it may be gone, and a later sync does not tell."""


class Plan:
    """What one job wants done, gathered on the loop when its group starts: plain calls for the disk's
    thread."""

    __slots__ = ("files", "folder", "others", "writes")

    def __init__(self) -> None:
        self.writes: list[tuple[File, bytes, int]] = []
        self.files: list[File] = []
        self.others: list[Callable[[], None]] = []
        self.folder: str | None = None


Part = list[tuple[int, list[Plan]]]  # the plans of some owners, each with all of its own


class Job(Protocol):
    @property
    def owner(self) -> object:
        """Jobs of one owner fail together."""
        ...

    def start(self) -> Plan:
        """Called on the loop when the group that holds the job starts."""
        ...

    def finish(self, problem: OSError | None) -> None:
        """Called on the loop when all of the plan is done and durable, or part of it failed."""
        ...

    def fail(self, error: Exception) -> None:
        """Called instead when the job was withdrawn."""
        ...


class Due(Protocol):
    def flush_due(self) -> None: ...


class Flusher:
    """`submit` never blocks and never runs anything before it returns."""

    __slots__ = ("_disk", "_due", "_order", "_queue", "_running", "_timer", "groups", "took_ms")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.groups = 0
        self.took_ms = Histogram(FLUSH_BOUNDS_MS)
        self._queue: list[Job] = []
        self._running: asyncio.Task[None] | None = None
        self._due: list[tuple[float, int, Due]] = []
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._drain())

    def withdraw(self, owner: object) -> list[Job]:
        """Takes the jobs of `owner` that have not started out of the queue."""
        taken = [job for job in self._queue if job.owner is owner]
        self._queue = [job for job in self._queue if job.owner is not owner]
        return taken

    async def drained(self) -> None:
        """When everything submitted so far is finished."""
        while self._running is not None:
            await asyncio.shield(self._running)

    def call_later(self, delay_ms: int, due: Due) -> None:
        """`due.flush_due()` in a while; one timer serves all."""
        loop = asyncio.get_running_loop()
        self._order += 1
        heappush(self._due, (loop.time() + delay_ms / 1000, self._order, due))
        self._arm(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        first = self._due[0][0] if self._due else None
        if self._timer is not None:
            if first is not None and self._timer.when() <= first:
                return
            self._timer.cancel()
        self._timer = None if first is None else loop.call_at(first, self._call_due)

    def _call_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        # A clock that rounds must not make us arm the same instant again and again.
        now = loop.time() + 0.0005
        while self._due and self._due[0][0] <= now:
            heappop(self._due)[2].flush_due()
        self._arm(loop)

    def stop(self) -> None:
        """No more calls from the timer."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _drain(self) -> None:
        try:
            while self._queue:
                jobs, self._queue = self._queue, []
                self.groups += 1
                began = asyncio.get_running_loop().time()
                by_owner: dict[int, list[Plan]] = {}
                for job in jobs:
                    by_owner.setdefault(id(job.owner), []).append(job.start())
                owners = list(by_owner.items())
                parts = [owners[first::SYNCS_MAX] for first in range(min(SYNCS_MAX, len(owners)))]
                if len(parts) == 1:
                    problems = await self._run(parts[0])
                else:
                    problems = {}
                    for part_problems in await asyncio.gather(*map(self._run, parts)):
                        problems |= part_problems
                self.took_ms.observe(1000 * (asyncio.get_running_loop().time() - began))
                for job in jobs:
                    job.finish(problems.get(id(job.owner)))
        finally:
            self._running = None

    async def _run(self, part: Part) -> dict[int, OSError]:
        try:
            return await self._disk.run(partial(self._perform, part))
        except Exception as bug:
            # Nobody may wait for ever, and nothing may be taken for durable.
            problem = OSError(errno.EIO, f"could not perform a group of writes: {bug!r}")
            return {owner: problem for owner, _ in part}

    def _perform(self, part: Part) -> dict[int, OSError]:
        """In a thread of the disk.  One owner's trouble is not another's: the first error of each is
        returned."""
        problems: dict[int, OSError] = {}
        for steps in (self._write, self._sync, self._finish):
            for owner, group in part:
                if owner not in problems:
                    try:
                        steps(group)
                    except OSError as problem:
                        problems[owner] = problem
        return problems

    def _write(self, plans: list[Plan]) -> None:
        """Neighbours in a file go out in one call."""
        pieces: list[bytes] = []
        file: File | None = None
        start = end = 0
        for plan in plans:
            for target, data, position in plan.writes:
                if target is not file or position != end:
                    if file is not None:
                        file.write(pieces[0] if len(pieces) == 1 else b"".join(pieces), start)
                    pieces, file, start, end = [], target, position, position
                pieces.append(data)
                end += len(data)
        if file is not None:
            file.write(pieces[0] if len(pieces) == 1 else b"".join(pieces), start)

    def _sync(self, plans: list[Plan]) -> None:
        for file in {id(file): file for plan in plans for file in plan.files}.values():
            sync(file)

    def _finish(self, plans: list[Plan]) -> None:
        for plan in plans:
            for step in plan.others:
                step()
        for folder in {plan.folder for plan in plans if plan.folder is not None}:
            self._disk.sync_folder(folder)


def sync(file: File) -> None:
    try:
        file.sync()
    except OSError as problem:
        raise NotDurable(*problem.args) from problem
