"""What the logs of one directory share: the disk, time, chance, the bound on open files, and whether the disk
failed."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tidelog.clock import Clock
from tidelog.errors import KafkaStorageError
from tidelog.storage.checkpoints import DAMAGED_LOGS, RECOVERY_POINTS, OffsetFile, encode_offsets
from tidelog.storage.dirs import identity
from tidelog.storage.disk import Disk
from tidelog.storage.flush.flusher import Flusher
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.tiers.tiers import Tiers
from tidelog.types import TopicPartition

# A full disk is the operator's to empty: what is on it is whole, so its logs stay readable and come back by
# themselves.
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
# A key that is away, or was deleted, is no fault of the disk.
NO_KEY = errno.ENOKEY
# Nor is it the disk's fault when the process is at its own limits.
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
TELL_EVERY_MS = 10_000

logger = logging.getLogger("tidelog.storage")


class Syncable(Protocol):
    async def sync_sealed(self) -> None: ...


class Emptied(Protocol):
    def take_deleted(self) -> tuple[list[str], bool]: ...


class Rotten(Protocol):
    @property
    def start(self) -> int: ...


class Damaged(Protocol):
    @property
    def ranges(self) -> Sequence[Rotten]: ...


@dataclass(slots=True)
class Volume:
    path: str
    disk: Disk
    clock: Clock
    random: Random
    files: OpenFiles
    flusher: Flusher
    recovery_points: OffsetFile
    problem: OSError | None = None
    """What took the directory offline, and with it every log in it."""

    rolled: dict[Syncable, None] = field(default_factory=dict)
    """Logs that are new, or have sealed segments which are not synced yet, in the order they came: sets have none, and a
    simulated run has to repeat itself."""
    trashed: dict[Emptied, None] = field(default_factory=dict)
    """Logs that have deleted files still on disk."""
    damaged: dict[TopicPartition, Damaged] = field(default_factory=dict)
    """Logs with bytes that rotted."""
    suspects: dict[TopicPartition, int | None] = field(default_factory=dict)
    """Logs whose bytes somebody could not make sense of, and the offset; None for all of it.  `scrubber` checks them."""
    tiers: Tiers | None = None
    """Remote storage, if this broker has one."""
    told_ms: int | None = None
    """When a full disk, or a limit of the process, was last written to the log."""

    @classmethod
    def of(cls, path: str, disk: Disk, clock: Clock, random: Random, files: OpenFiles) -> Volume:
        points = OffsetFile(disk, f"{path}/{RECOVERY_POINTS}")
        return cls(path, disk, clock, random, files, Flusher(disk), points)

    def failed(self, problem: OSError, doing: str, at_risk: bool = False) -> KafkaStorageError:
        """The error for the caller.  Anything but a full disk takes the whole directory offline, and so does a full disk
        when bytes that readers may have seen are `at_risk`."""
        if problem.errno == NO_KEY:
            return self._tell(f"{doing}: {problem}")
        if problem.errno in FULL and not at_risk:
            return self._tell(f"{doing}: the disk of {self.path} is full; free some space and try again")
        if problem.errno in _EXHAUSTED and not at_risk:
            return self._tell(f"{doing}: {problem.strerror}; raise the limits of this process")
        if self.problem is None:
            self.problem = problem
            logger.error("%s failed: %s", doing, self.offline())
            if not identity.mark_failed(self.disk, self.path):
                logger.error(
                    "%s does not take the note that it has failed: before this broker is started again, restart the "
                    "machine or remove %s/%s, or else records that never reached the disk count as written",
                    self.path,
                    self.path,
                    identity.RUNNING,
                )
        return self.offline()

    def save_damaged(self) -> None:
        """Blocks.  Names the damaged logs for the next start."""
        offsets = {name: min(bad.start for bad in log.ranges) for name, log in self.damaged.items()}
        self.disk.replace_file(f"{self.path}/{DAMAGED_LOGS}", encode_offsets(offsets))

    def _tell(self, message: str) -> KafkaStorageError:
        """Once in a while: every producer runs into a full disk again and again."""
        now_ms = self.clock.monotonic_ms()
        if self.told_ms is None or now_ms - self.told_ms >= TELL_EVERY_MS:
            self.told_ms = now_ms
            logger.error("%s", message)
        return KafkaStorageError(message)

    def offline(self) -> KafkaStorageError:
        return KafkaStorageError(
            f"log directory {self.path} is offline after a disk error ({self.problem}): "
            f"repair the disk and restart"
        )
