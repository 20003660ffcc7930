"""Rolls a log: starts a new active segment, seals the one before, and closes segments that are not needed any more.

The last segment is the only one that is appended to.  A roll that fails leaves the log in the old segment.  Used by
`Appender` and `Cutter`; the rule when a segment is full is in `_speed/log/append.pyx`."""

from __future__ import annotations

from tidelog.config import TopicConfig
from tidelog.storage.log_state import LogState
from tidelog.storage.producer_state import snapshots
from tidelog.storage.segments import rolling
from tidelog.storage.segments.deleted_segments import DeletedSegments
from tidelog.storage.segments.segment import Segment


class Roller:
    __slots__ = ("_log", "trash")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self.trash = DeletedSegments(log.volume)

    def roll(self, base: int | None = None) -> Segment:
        """Seals the active segment and starts one at `base`, the next offset if not told; KafkaStorageError
        leaves things as they were."""
        log = self._log
        base = log.next if base is None else base
        old = log.segments.last
        if old.base == base:
            return old
        try:
            fresh = self.create(base)
            snapshot = self._seal(old, fresh) if old.size or old.reserved else None
        except OSError as problem:
            raise log.volume.failed(problem, f"start a segment of {log.name}") from problem
        if snapshot is None:
            log.segments.take_from(len(log.segments) - 1)[0].remove()
            log.durability.rolled(fresh)
        else:
            log.durability.rolled(fresh, old, snapshot)
        log.segments.add(fresh)
        if log.cold is None:
            log.start = max(log.start, log.segments.first.base)
        return fresh

    def _seal(self, old: Segment, fresh: Segment) -> str:
        log = self._log
        try:
            old.seal()
            end = log.next if old.reserved > old.size else old.end
            return snapshots.write(log.volume.disk, log.folder, fresh.base, log.producers, end)
        except OSError:
            fresh.remove()
            raise

    def create(self, base: int) -> Segment:
        """An empty segment, which is not one of the log's yet."""
        log, config = self._log, self._log.config
        segment = Segment.create(
            log.volume,
            log.folder,
            base,
            config.segment_index_bytes,
            config.index_interval_bytes,
            config.segment_bytes if config.preallocate else 0,
        )
        segment.jitter_ms = rolling.jitter_ms(config, log.volume.random)
        rolling.set_limits(segment, config)
        return segment

    def discard(self, segments: list[Segment]) -> None:
        """Renamed now, removed from the disk after `file.delete.delay.ms`."""
        log = self._log
        self.trash.put(segments, log.volume.clock.now_ms() + log.config.file_delete_delay_ms)
        log.durability.dropped(segments)

    def reconfigure(self, config: TopicConfig) -> None:
        active = self._log.segments.last
        active.jitter_ms = rolling.jitter_ms(config, self._log.volume.random)
        rolling.set_limits(active, config)
