"""One partition's log: a row of segments of which the last is appended to.

`start` <= `end` <= `next`.  What lies below `end` is written, whole, and may be read; `next` is ahead of it
only while appends of a topic that asks for a sync on every one are on their way to the disk.  All methods run
on the event loop's thread; only the work handed to the flusher does not.  `replication.partition` is the one
writer of a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidelog.config import TopicConfig
from tidelog.errors import OffsetOutOfRange
from tidelog.storage import lookup, rolling, snapshots, swapping
from tidelog.storage.damage import BadRange, Damage
from tidelog.storage.durability import Append, Durability
from tidelog.storage.flusher import Plan
from tidelog.storage.loading import Loaded, list_segments, load
from tidelog.storage.lookup import TimedOffset
from tidelog.storage.reading import Slice, cut_slice, read_anywhere
from tidelog.storage.retention import UNLIMITED, deletable
from tidelog.storage.segment import OFFSETS_MAX, Segment
from tidelog.storage.segments import Segments
from tidelog.storage.trash import Trash
from tidelog.storage.volume import Volume
from tidelog.types import TopicPartition


class Log:
    __slots__ = (
        "_active",
        "_damage",
        "_durability",
        "_last_queued",
        "_queued",
        "_queueing",
        "_segment_bytes",
        "_trash",
        "_volume",
        "config",
        "end",
        "epochs",
        "folder",
        "name",
        "next",
        "producers",
        "segments",
        "start",
    )

    def __init__(
        self, volume: Volume, folder: str, name: TopicPartition, config: TopicConfig, loaded: Loaded
    ) -> None:
        """`loaded` is what `loading.load` found in the folder; `Log.open` is the usual way in."""
        self.folder = folder
        self.name = name
        self._volume = volume
        self.segments = Segments(loaded.segments)
        self._active = self.segments.last
        self._damage = Damage(volume.disk, folder, loaded.bad)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.start = loaded.start
        self.end = self.next = loaded.end
        self._trash = Trash()
        self._queued = 0
        self._last_queued: Append | None = None
        self._durability = Durability(volume, folder, config, self.epochs, self._active)
        self._durability.opened(min(loaded.recovery_point, self.end), loaded.created)
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        volume: Volume,
        folder: str,
        name: TopicPartition,
        config: TopicConfig,
        start: int = 0,
        recovery_point: int = 0,
    ) -> Log:
        """A log that was stopped cleanly or recovered, or a new one when the folder is empty."""
        volume.disk.make_folder(folder)
        return cls(volume, folder, name, config, load(volume, folder, config, start, recovery_point))

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self.segments.size

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk for certain."""
        return self._durability.recovery_point

    @property
    def durable(self) -> asyncio.Future[None] | None:
        """Done when the last append that is on its way to the disk is there, and with it all before."""
        return None if self._last_queued is None else self._last_queued.future

    @property
    def damaged(self) -> tuple[BadRange, ...]:
        """Ranges whose bytes rotted: reads of them fail.  A follower can cut its log at the first and fetch."""
        return tuple(self._damage.ranges)

    # Appending

    def append(
        self, data: Any, base: int, last: int, max_timestamp: int, max_timestamp_offset: int, epoch: int
    ) -> asyncio.Future[None] | None:
        """Whole batches of one leader epoch, stamped, from `base` (not below `next`) to `last`.

        None: they are in the page cache, `end` has moved.  A future: the topic asks for a sync, and it is
        done when `end` has moved and all is on disk.  A full or failing disk raises KafkaStorageError and
        changes nothing."""
        if self._queueing or self._volume.problem is not None:
            return self._append_queued(data, base, last, max_timestamp, max_timestamp_offset, epoch)
        segment = self._active
        if (
            segment.size + len(data) > self._segment_bytes
            or max_timestamp > segment.roll_at
            or last - segment.base > OFFSETS_MAX
        ):
            segment = self._roll_if_due(segment.size, len(data), base, last, max_timestamp)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, base)
        try:
            segment.append(data, base, last, max_timestamp, max_timestamp_offset)
        except OSError as problem:
            raise self._append_failed(problem) from problem
        if segment.first_timestamp < 0:
            self._started(segment, max_timestamp)
        self.end = self.next = last + 1
        if last >= self._durability.due_at:
            return self._durability.flush_if_due(last + 1)
        return None

    def _append_queued(
        self, data: Any, base: int, last: int, max_timestamp: int, max_timestamp_offset: int, epoch: int
    ) -> asyncio.Future[None]:
        if self._volume.problem is not None:
            raise self._volume.offline()
        segment = self._active
        if not self._queued:
            segment.reserved = segment.size
        segment = self._roll_if_due(segment.reserved, len(data), base, last, max_timestamp)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, base)
        try:
            file, position = segment.reserve(data, base, last, max_timestamp, max_timestamp_offset)
        except OSError as problem:
            raise self._volume.failed(problem, f"append to {self.name}") from problem
        if segment.first_timestamp < 0:
            self._started(segment, max_timestamp)
        self.next = last + 1
        self._queued += 1
        write = self._last_queued = Append(self, segment, file, position, bytes(data), last + 1)
        self._volume.flusher.submit(write)
        return write.future

    def _append_failed(self, problem: OSError) -> Exception:
        """Part of it may have been written.  If cutting it fails too, the next append overwrites it."""
        segment = self._active
        try:
            if segment.file.size() > segment.size:
                segment.file.truncate(segment.size)
        except OSError:
            pass
        return self._volume.failed(problem, f"append to {self.name}")

    # Rolling

    def _started(self, segment: Segment, timestamp: int) -> None:
        """The first batch decides when the segment is too old."""
        segment.first_timestamp = timestamp
        segment.roll_at = rolling.roll_at(segment, self.config)

    def _roll_if_due(self, size: int, added: int, base: int, last: int, timestamp: int) -> Segment:
        segment = self._active
        now_ms = self._volume.clock.now_ms()
        if rolling.due(segment, self.config, size, added, last, timestamp, now_ms):
            return self.roll(base)
        return segment

    def roll(self, base: int | None = None) -> Segment:
        """Seals the active segment and starts one at `base`, the next offset if not told; KafkaStorageError
        leaves things as they were."""
        base = self.next if base is None else base
        old = self._active
        if old.base == base:
            return old
        try:
            fresh = self._create(base)
        except OSError as problem:
            raise self._volume.failed(problem, f"start a segment of {self.name}") from problem
        if old.size == old.reserved == 0:
            self.segments.take_from(len(self.segments) - 1)[0].remove()
            self._durability.rolled(fresh)
        else:
            old.seal()
            path = snapshots.write(self._volume.disk, self.folder, base, self.producers)
            self._durability.rolled(fresh, old, path)
        self.segments.add(fresh)
        self._active = fresh
        return fresh

    def _create(self, base: int) -> Segment:
        config = self.config
        segment = Segment.create(
            self._volume,
            self.folder,
            base,
            config.segment_index_bytes,
            config.index_interval_bytes,
            config.segment_bytes if config.preallocate else 0,
        )
        segment.jitter_ms = rolling.jitter_ms(config, self._volume.random)
        return segment

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._active.jitter_ms = rolling.jitter_ms(config, self._volume.random)
        self._active.roll_at = rolling.roll_at(self._active, config)
        self._queueing = config.flush_messages == 1 or self._queued > 0
        self._durability.configure(config)

    # Reading

    def read(self, offset: int, bytes_max: int, end: int, whole_batch: bool = True) -> Slice | None:
        """From the batch that holds `offset`, up to `bytes_max` of one segment, nothing from the batch that
        holds `end` on.  With `whole_batch` the first batch comes whole however large; without, None when it
        does not fit."""
        if offset >= self.end or offset < self.start:
            if offset == self.end:
                return None
            raise OffsetOutOfRange(f"{self.name} has offsets {self.start} to {self.end}, not {offset}")
        segment = self._active
        bad = self._damage.ranges
        if offset < segment.base or bad:
            return read_anywhere(self.segments, bad, offset, bytes_max, end, whole_batch)
        position, header = segment.locate(offset)
        limit = segment.size if end >= segment.end else segment.locate(end)[0]
        return cut_slice(segment, position, header, limit, bytes_max, whole_batch)

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or beyond; `end` is `offset` afterwards, if it was
        larger."""
        assert not self._queued, "a log is not cut while appends are on their way to it"
        if offset < self.end:
            self._change(partial(self._cut, offset), f"truncate {self.name}")

    def restart_at(self, offset: int) -> None:
        """Empty, with `offset` as the next one: for a follower whose leader has nothing older."""
        assert not self._queued, "a log is not cut while appends are on their way to it"
        self._change(partial(self._clear, offset), f"restart {self.name}")

    def _cut(self, offset: int) -> None:
        self._volume.recovery_points.lower(self.name, offset)
        if offset < self.segments.first.base:
            self._clear(offset)
            return
        self._discard(self.segments.take_from(self.segments.holding(offset) + 1))
        self._active = self.segments.last
        self._active.truncate_to(offset)
        self.end = self.next = offset
        self.start = min(self.start, offset)
        self._shrunk(offset)
        if not self.producers.truncate_to(offset):
            self._reload_producers()

    def _clear(self, offset: int) -> None:
        self._volume.recovery_points.lower(self.name, 0)
        # The old names go first: a crash in between leaves an empty folder, which opens where the checkpoints say.
        self._discard(self.segments.take_from(0))
        self._active = self._create(offset)
        self.segments.add(self._active)
        self.start = self.end = self.next = offset
        self.producers.clear()
        self._shrunk(0)

    def _shrunk(self, offset: int) -> None:
        """Nothing at `offset` or behind is left of what was there."""
        disk = self._volume.disk
        self._durability.cut(self._active, self.end)
        self.epochs.truncate_to(offset)
        for each in snapshots.offsets_in(disk.list(self.folder)):
            if each > offset:
                disk.remove(snapshots.path_of(self.folder, each))
        self._damage.keep(lambda bad: bad.end <= offset)
        self._active.bad = [bad for bad in self._damage.ranges if bad.base == self._active.base]
        self._active.roll_at = rolling.roll_at(self._active, self.config)

    def _reload_producers(self) -> None:
        names = self._volume.disk.list(self.folder)
        self.producers, known_to = snapshots.load(self._volume.disk, self.folder, names, self.start, self.end)
        snapshots.complete(self.producers, self.segments, known_to, self.end)

    def _discard(self, segments: list[Segment]) -> None:
        """Renamed now, removed from the disk after `file.delete.delay.ms`."""
        self._trash.put(segments, self._volume.clock.now_ms() + self.config.file_delete_delay_ms)
        self._durability.dropped(segments)

    # Deleting

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; their segments go with the next `apply_retention`."""
        if offset > self.end:
            raise OffsetOutOfRange(f"{self.name} ends at {self.end}: it cannot start at {offset}")
        if offset > self.start:
            self.start = offset
            self.epochs.advance_start(offset)

    def apply_retention(self, committed: int) -> int:
        """Deletes the segments that the topic's settings let go, below `committed`; how many."""
        config, segments = self.config, self.segments
        deletes = "delete" in config.cleanup_policy
        count = deletable(
            list(segments),
            now_ms=self._volume.clock.now_ms(),
            retention_ms=config.retention_ms if deletes else UNLIMITED,
            retention_bytes=config.retention_bytes if deletes else UNLIMITED,
            start=self.start,
            committed=committed,
        )
        if count:
            self._change(partial(self._delete_first, count), f"delete segments of {self.name}")
        return count

    def _delete_first(self, count: int) -> None:
        if count == len(self.segments):
            self.roll()
        gone = self.segments.take_first(count)
        first = self.segments.first.base
        self._discard(gone)
        self.start = max(self.start, first)
        self.epochs.advance_start(self.start)
        for segment in gone:
            self._volume.disk.remove(snapshots.path_of(self.folder, segment.base))
        self._damage.keep(lambda bad: bad.base >= first)

    def remove_deleted(self) -> None:
        """Takes files off the disk whose `file.delete.delay.ms` has passed."""
        self._trash.empty(self._volume.clock.now_ms())

    def replace_segments(self, old: Sequence[Segment], base: int) -> Segment:
        """Puts a compacted segment, whose files `swapping.make_ready` has made ready, in the place of `old`:
        neighbours of which the first starts at `base`."""
        number = self.segments.holding(old[0].base)
        assert old[0].base == base and [self.segments[number + n] for n in range(len(old))] == list(old)
        assert old[-1] is not self._active, "the active segment is not compacted"
        self._change(partial(self._replace, number, list(old), base), f"swap segments of {self.name}")
        return self.segments[number]

    def _replace(self, number: int, old: list[Segment], base: int) -> None:
        volume, config = self._volume, self.config
        end = old[-1].end
        self._discard(old)
        swapping.rename_final(volume.disk, self.folder, base)
        (fresh,) = list_segments(volume, self.folder, [base], config)
        fresh.end = end
        self.segments.replace(number, len(old), [fresh])
        for segment in old[1:]:
            volume.disk.remove(snapshots.path_of(self.folder, segment.base))

    # Times

    def offset_for_time(self, timestamp: int) -> TimedOffset | None:
        """The first record that is not older than `timestamp`."""
        return lookup.offset_for_time(self.segments, timestamp, self.start)

    def max_timestamp(self) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return lookup.max_timestamp(self.segments)

    def _change(self, change: Callable[[], None], doing: str) -> None:
        if self._volume.problem is not None:
            raise self._volume.offline()
        try:
            change()
        except OSError as problem:
            raise self._volume.failed(problem, doing, at_risk=True) from problem

    # Making it durable

    def flush(self) -> asyncio.Future[None]:
        """Done when everything below the present `end` is on disk; the recovery point has moved then."""
        return self._durability.flush()

    def plan_names(self, plan: Plan) -> None:
        self._durability.plan_names(plan)

    def append_written(self, append: Append) -> None:
        append.segment.written(len(append.data), append.end)
        self.end = append.end
        self._durability.appended_durably(append.end)
        self._queued -= 1
        if not self._queued:
            self._last_queued = None
            self._queueing = self.config.flush_messages == 1

    def append_failed(self, problem: OSError) -> Exception:
        """Offsets that were given out and not written are taken back, those of later appends with them: a log
        has no holes."""
        error = self._volume.failed(problem, f"append to {self.name}")
        withdrawn = self._volume.flusher.withdraw(self)
        self._queued = 0
        self._last_queued = None
        if self.next > self.end:
            try:
                self._cut(self.end)
            except OSError as worse:
                self._volume.failed(worse, f"cut {self.name}", at_risk=True)
        self._queueing = self.config.flush_messages == 1
        for job in withdrawn:
            job.fail(error)
        return error

    def close(self) -> None:
        """Durable, and as `open` wants to find it.  Blocks; nothing may be on its way to the disk."""
        assert not self._queued, "a log is not closed while appends are on their way to it"
        self._active.close()
        for segment in self.segments:
            segment.release_all()
        snapshots.write(self._volume.disk, self.folder, self.end, self.producers)
        self._durability.flush_now(self.end)
        self._trash.empty()


__all__ = ["Log", "Slice"]
