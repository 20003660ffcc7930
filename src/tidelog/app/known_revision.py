"""Detects that the metadata store was restored from a backup since this broker last ran.

The broker keeps the newest revision that it has seen on its own disk; a store with an older revision has lost something."""

from __future__ import annotations

import asyncio
import logging

from tidelog.metadata.controller import Controller
from tidelog.storage.dirs.known_revision import read_known_revision, write_known_revision
from tidelog.storage.dirs.log_dirs import LogDirs

log = logging.getLogger("tidelog")

WRITE_S = 10


class KnownRevision:
    def __init__(self, dirs: LogDirs, controller: Controller) -> None:
        self._dirs = dirs
        self._controller = controller

    def was_rolled_back(self, restored: bool) -> bool:
        """True if the store is older than what the broker has seen, or if the operator says so (`restored`)."""
        stored = self._controller.image.revision
        seen = max(
            (read_known_revision(where.volume.disk, where.path) for where in self._dirs.online()[:1]),
            default=0,
        )
        if stored >= seen and not restored:
            return False
        log.error(
            "The metadata, at revision %d, were restored from a backup: this broker has seen revision %d.  A partition has "
            "no leader until the brokers of all its replicas have reported their logs.",
            stored,
            seen,
        )
        return True

    async def run(self) -> None:
        """Writes the revision from time to time, until it is cancelled."""
        kept = self._controller.image.revision
        while True:
            await asyncio.sleep(WRITE_S)
            for where in self._dirs.online()[:1]:
                if self._controller.image.revision > kept:
                    kept = self._controller.image.revision
                    await where.volume.disk.run(self.remember)

    def remember(self) -> None:
        """Writes the newest revision to disk; blocks."""
        for where in self._dirs.online()[:1]:
            try:
                write_known_revision(where.volume.disk, where.path, self._controller.image.revision)
            except OSError as problem:
                log.warning("The revision of the metadata cannot be written to %s: %s", where.path, problem)
