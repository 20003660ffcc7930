"""Log directory failure: partitions whose disk has failed are left to the replicas that have them.

A leader that cannot read or write its log would keep it from everybody, and in time find its followers behind.  The
replica is in doubt from then on, and where another holder runs, that one leads.  The last holder stays what it is, since
it alone may have everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from tidelog import errors
from tidelog.metadata.doubts import NO_LOG
from tidelog.metadata.records import Cause
from tidelog.storage.log_dir import LogDir
from tidelog.storage.log_dirs import LogDirs
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.replication")

LOOK_S = 0.5


class Metadata(Protocol):
    async def give_up(
        self, name: TopicPartition, cause: Cause, reach: Callable[[], tuple[int, int]]
    ) -> bool: ...


class DirectoryFailure:
    def __init__(self, dirs: LogDirs, metadata: Metadata) -> None:
        self._dirs = dirs
        self._metadata = metadata
        self._left: set[str] = set()

    async def run(self) -> None:
        """For ever: looks for directories that went offline."""
        while True:
            for where in self._dirs.dirs:
                if where.problem is not None and where.path not in self._left and await self._leave(where):
                    self._left.add(where.path)
            await asyncio.sleep(LOOK_S)

    async def _leave(self, where: LogDir) -> bool:
        left = 0
        try:
            for name in sorted(where.names):
                left += await self._metadata.give_up(name, Cause.DISK, lambda: NO_LOG)
        except errors.TidelogError as problem:
            log.warning("partitions in %s cannot be left to other brokers now: %s", where.path, problem)
            return False
        if left:
            log.warning("%d partitions in %s, which has failed, were left to other brokers", left, where.path)
        return True
