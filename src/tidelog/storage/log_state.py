"""What the parts of one log share: its bounds, its segments, what is known of epochs, producers and damage.

`start` <= `end` <= `next`.  What lies below `end`, the log end offset (LEO), is written, whole, and may be read; `next` is
ahead of it only while appends of a topic that asks for a sync on every one are on their way to the disk.  `Log` makes it;
`Appender`, `Roller`, `Cutter` and `Reader` work on it.  All of them run on the event loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog._speed.log.append import NativeLogState
from tidelog.config import TopicConfig
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.flush.durability import Durability
from tidelog.storage.integrity.damage import Damage
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.producer_state.producers import Producers
from tidelog.storage.recovery.loading import Loaded
from tidelog.storage.segments.segments import Segments
from tidelog.storage.tiers.cold_log import ColdLog
from tidelog.types import TopicPartition


class RemotePart(NamedTuple):
    """What a log that begins with its first local record takes over from remote storage."""

    start: int
    """The start of the whole log: remote storage has the records from here to the local log."""
    epochs: Sequence[tuple[int, int]]
    producers: bytes
    """A snapshot as of the first local record; empty where there is none."""


class LogState(NativeLogState):
    __slots__ = ("changed", "cold", "config", "cuts", "damage", "folder")

    durability: Durability
    epochs: Epochs
    name: TopicPartition
    producers: Producers
    segments: Segments
    volume: Volume

    def __init__(
        self, volume: Volume, folder: str, name: TopicPartition, config: TopicConfig, loaded: Loaded
    ) -> None:
        self.volume = volume
        self.folder = folder
        self.name = name
        self.config = config
        self.segments = Segments(loaded.segments)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.start = loaded.start
        self.end = self.next = loaded.end
        self.queued = 0
        self.cold: ColdLog | None = None  # the part that is in remote storage, if the topic has one
        self.cuts = 0  # how often records went from its end
        self.damage = Damage(volume, folder, name, loaded.bad)
        self.changed = loaded.created or loaded.scanned  # otherwise than by appends
        active = self.segments.last
        self.durability = Durability(volume, folder, config, self.epochs, active)
        self.durability.opened(min(loaded.recovery_point, active.end), loaded.created)

    def settle_start(self) -> None:
        """What remote storage has is known: the log does not start before what can be read."""
        manifest = None if self.cold is None else self.cold.manifest
        if manifest is not None and manifest.number:
            first = self.segments.first.base
            if manifest.start is None or manifest.end is None or manifest.end < first:
                start = first
            else:
                start = max(manifest.start, manifest.log_start)
            if start > self.start:
                self.start = min(start, self.end)
                self.epochs.advance_start(self.start)

    def check_online(self) -> None:
        if self.volume.problem is not None:
            raise self.volume.offline()

    def change(self, change: Callable[[], None], doing: str) -> None:
        """A change that fails half-way takes the directory offline, so that nobody uses a log that is neither the old nor
        the new one."""
        self.check_online()
        self.changed = True
        try:
            change()
        except OSError as problem:
            raise self.volume.failed(problem, doing, at_risk=True) from problem
