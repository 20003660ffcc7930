"""Shortens a log: truncation, retention, DeleteRecords, and the swap of compacted segments.

What is gone stays gone: before anything is written in its place, the names of removed files are durable and the recovery
point is not above the cut.  Used by `Log`, `background` (retention) and `compaction` (swaps)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidelog.errors import OffsetOutOfRange
from tidelog.storage.log_state import LogState, RemotePart
from tidelog.storage.producer_state import snapshots
from tidelog.storage.producer_state.producers import CorruptSnapshot
from tidelog.storage.recovery.loading import list_segments
from tidelog.storage.retention import UNLIMITED, deletable, local_retention
from tidelog.storage.roller import Roller
from tidelog.storage.segments import rolling, swapping
from tidelog.storage.segments.segment import NEVER, Segment


class Cutter:
    __slots__ = ("_log", "_roller")

    def __init__(self, log: LogState, roller: Roller) -> None:
        self._log = log
        self._roller = roller

    # At the end

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or beyond; `end` is `offset` afterwards, if it was
        larger."""
        log = self._log
        assert not log.queued, "a log is not cut while appends are on their way to it"
        if offset < log.end:
            self._lower_recovery_point(offset, f"truncate {log.name}")
            log.cuts += 1
            log.change(partial(self.cut, offset), f"truncate {log.name}")

    def restart_at(self, offset: int, before: RemotePart | None = None) -> None:
        """Empty, with `offset` as the next one: for a follower whose leader has nothing older, or has it in remote
        storage only (`before`)."""
        log = self._log
        assert not log.queued, "a log is not cut while appends are on their way to it"
        self._lower_recovery_point(0, f"restart {log.name}")
        log.cuts += 1
        restart = partial(self._clear, offset) if before is None else partial(self._take_over, offset, before)
        log.change(restart, f"restart {log.name}")

    def _lower_recovery_point(self, offset: int, doing: str) -> None:
        """Before a cut.  Nothing has changed yet: a full disk costs the cut and no more."""
        log = self._log
        log.check_online()
        try:
            log.volume.recovery_points.lower(log.name, offset)
        except OSError as problem:
            raise log.volume.failed(problem, doing) from problem

    def cut(self, offset: int) -> None:
        """As `truncate_to`, where the caller answers for an OSError: `Appender` takes failed appends back."""
        log = self._log
        points, segments = log.volume.recovery_points, log.segments
        points.lower(log.name, offset)
        if offset < segments.first.base:
            # What is in remote storage was committed: a cut behind it leaves that part as it is.
            kept = log.start if log.cold is not None else offset
            self._clear(offset, min(kept, offset))
            return
        self._roller.discard(segments.take_from(segments.holding(offset) + 1))
        # What is gone must stay gone: after a crash nobody could tell it from what is written in its place.
        log.volume.disk.sync_folder(log.folder)
        active = segments.last
        active.truncate_to(offset)
        active.file.sync()
        points.lower(log.name, active.end)
        log.end = log.next = offset
        log.start = min(log.start, offset)
        self._shrunk(offset)
        if not log.producers.truncate_to(offset):
            self._reload_producers()

    def _clear(self, offset: int, start: int | None = None) -> None:
        log = self._log
        start = offset if start is None else start
        log.volume.recovery_points.lower(log.name, 0)
        # The old names go first: a crash in between leaves an empty folder, which opens where the checkpoints say.
        self._roller.discard(log.segments.take_from(0))
        log.volume.disk.sync_folder(log.folder)
        log.segments.add(self._roller.create(offset))
        log.start, log.end, log.next = start, offset, offset
        log.producers.clear()
        self._shrunk(0 if start == offset else offset)

    def _shrunk(self, offset: int) -> None:
        """The log has lost all its records from `offset` on."""
        log, active = self._log, self._log.segments.last
        disk = log.volume.disk
        log.durability.cut(active)
        log.epochs.truncate_to(offset)
        for snapshot in snapshots.offsets_in(disk.list(log.folder)):
            if snapshot > offset:
                disk.remove(snapshots.path_of(log.folder, snapshot))
        log.damage.keep(lambda bad: bad.end <= offset)
        active.bad = [bad for bad in log.damage.ranges if bad.base == active.base]
        rolling.set_limits(active, log.config)

    def _reload_producers(self) -> None:
        log, disk = self._log, self._log.volume.disk
        names = disk.list(log.folder)
        log.producers, known_to = snapshots.load(disk, log.folder, names, log.start, log.end)
        snapshots.complete(log.producers, log.segments, known_to, log.end)

    def _take_over(self, offset: int, before: RemotePart) -> None:
        log = self._log
        self._clear(offset)
        log.start = before.start
        for epoch, first in before.epochs:
            log.epochs.assign(epoch, first)
        log.epochs.advance_start(before.start)
        if before.producers:
            try:
                log.producers.restore(before.producers)
            except CorruptSnapshot:
                return
            snapshots.write(log.volume.disk, log.folder, offset, log.producers, offset)

    # At the start

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; their segments go with the next `apply_retention`."""
        log = self._log
        if offset > log.end:
            raise OffsetOutOfRange(f"{log.name} ends at {log.end}: it cannot start at {offset}")
        if offset > log.start:
            log.start = offset
            log.epochs.advance_start(offset)

    def apply_retention(self, committed: int) -> int:
        """Deletes the segments that the topic's settings let go, below `committed`; how many."""
        log = self._log
        log.check_online()
        try:
            self._roll_for_remote(committed)
            count = self._deletable(committed, self._copied())
        except OSError as problem:
            raise log.volume.failed(problem, f"look up times of {log.name}") from problem
        if count:
            log.change(partial(self._delete_first, count), f"delete segments of {log.name}")
        return count

    def _copied(self) -> int:
        """Remote storage has everything below, and the log's folder says so: only then may segments go."""
        cold = self._log.cold
        return 0 if cold is None or not cold.seen else cold.end or 0

    def waits_for_copies(self, committed: int) -> bool:
        """Whether segments would go from this disk if remote storage had them, and it may have more than is known here."""
        return self._deletable(committed, committed) > self._deletable(committed, self._copied())

    def _deletable(self, committed: int, copied: int) -> int:
        log, config = self._log, self._log.config
        segments = list(log.segments)
        deletes = "delete" in config.cleanup_policy
        # What is on its way to the disk belongs to its segment already.
        ends = [segment.base for segment in segments[1:]] + [log.next]
        retention_ms, retention_bytes = config.retention_ms, config.retention_bytes
        if config.remote_storage_enable and not config.remote_log_copy_disable:
            # Of these, only what is copied, or deleted by DeleteRecords, may go.
            retention_ms, retention_bytes = local_retention(config)
            committed = min(committed, max(copied, log.start))
        return deletable(
            segments,
            ends,
            now_ms=log.volume.clock.now_ms(),
            retention_ms=retention_ms if deletes else UNLIMITED,
            retention_bytes=retention_bytes if deletes else UNLIMITED,
            start=log.start,
            committed=committed,
        )

    def _roll_for_remote(self, committed: int) -> None:
        """Only sealed segments are copied: the records of a topic at rest must not stay local, nor outlive the topic's
        retention, because nobody adds to them."""
        log, active = self._log, self._log.segments.last
        if log.cold is None or log.config.remote_log_copy_disable or not active.size or log.next > committed:
            return
        retention_ms, _ = local_retention(log.config)
        if retention_ms >= 0 and log.volume.clock.now_ms() - active.age_from() > retention_ms:
            self._roller.roll()

    def _delete_first(self, count: int) -> None:
        log = self._log
        if count == len(log.segments):
            self._roller.roll()
        gone = log.segments.take_first(count)
        first = log.segments.first.base
        self._roller.discard(gone)
        if self._copied() < first:
            log.start = max(log.start, first)
            log.epochs.advance_start(log.start)
        for segment in gone:
            log.volume.disk.remove(snapshots.path_of(log.folder, segment.base))
        log.damage.keep(lambda bad: bad.base >= first)

    def retention_due_ms(self) -> int:
        """Before this time no segment can be too old, if nothing is appended."""
        log, first = self._log, self._log.segments.first
        if "delete" not in log.config.cleanup_policy or log.config.retention_ms < 0 or not first.size:
            return NEVER
        try:
            return first.age_from() + log.config.retention_ms
        except OSError as problem:
            raise log.volume.failed(problem, f"look up times of {log.name}") from problem

    # In between

    def replace_segments(self, old: Sequence[Segment], base: int) -> Segment:
        """Puts a compacted segment, whose files `swapping.make_ready` has made ready, in the place of `old`:
        neighbours of which the first starts at `base`."""
        log, segments = self._log, self._log.segments
        number = segments.holding(old[0].base)
        assert old[0].base == base and [segments[number + n] for n in range(len(old))] == list(old)
        assert old[-1] is not segments.last, "the active segment is not compacted"
        log.change(partial(self._replace, number, list(old), base), f"swap segments of {log.name}")
        return segments[number]

    def _replace(self, number: int, old: list[Segment], base: int) -> None:
        log, disk = self._log, self._log.volume.disk
        end = old[-1].end
        self._roller.discard(old)
        swapping.rename_final(disk, log.folder, base)
        (fresh,) = list_segments(log.volume, log.folder, [base], log.config)
        fresh.end = end
        log.segments.replace(number, len(old), [fresh])
        for segment in old[1:]:
            disk.remove(snapshots.path_of(log.folder, segment.base))
