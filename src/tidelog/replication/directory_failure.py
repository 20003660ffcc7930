"""Log directory failure: hands partitions on a failed disk over to replicas on other disks.

A leader that cannot read or write its log would make the partition unavailable, and in time drop all its followers.  From
the failure on the replica is in doubt, and another running holder leads.  The last holder keeps its place, since it alone
may have every record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from tidelog import errors
from tidelog.metadata.elections.replica_doubts import NO_LOG
from tidelog.metadata.image.image import Image
from tidelog.metadata.records import Cause
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.replication")

LOOK_S = 0.5


class DirectoryFailureMetadata(Protocol):
    @property
    def image(self) -> Image: ...
    async def give_up(
        self, name: TopicPartition, cause: Cause, reach: Callable[[], tuple[int, int]]
    ) -> bool: ...


class DirectoryFailure:
    def __init__(self, node: NodeId, dirs: LogDirs, metadata: DirectoryFailureMetadata) -> None:
        self._node = node
        self._dirs = dirs
        self._metadata = metadata
        self._told = False

    async def run(self) -> None:
        """For ever: looks for directories that went offline.  Again and again: a holder that is away now can take over
        when it is back."""
        while True:
            for where in self._dirs.dirs:
                if where.problem is not None:
                    await self._leave(where)
            await asyncio.sleep(LOOK_S)

    async def _leave(self, where: LogDirectory) -> None:
        left = 0
        try:
            for name in [name for name in sorted(where.names) if self._counts(name)]:
                left += await self._metadata.give_up(name, Cause.DISK, lambda: NO_LOG)
            self._told = False
        except errors.TidelogError as problem:
            if not self._told:
                log.warning("partitions in %s cannot be left to other brokers now: %s", where.path, problem)
            self._told = True
        if left:
            log.warning("%d partitions in %s, which has failed, were left to other brokers", left, where.path)

    def _counts(self, name: TopicPartition) -> bool:
        """True if this broker is a holder without a doubt."""
        stored = self._metadata.image.partition(*name)
        return stored is not None and self._node in stored.holders and self._node not in stored.doubted
