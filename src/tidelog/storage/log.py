"""One partition's log: a row of segments of which the last is appended to.

`start` <= `end` <= `next`.  What lies below `end` is written, whole, and may be read; `next` is ahead of it
only while appends of a topic that asks for a sync on every one are on their way to the disk.  All methods run
on the event loop's thread; only the work handed to the flusher does not.  `replication.partition` is the one
writer of a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.config import TopicConfig
from tidelog.errors import OffsetOutOfRange
from tidelog.storage.damage import BadRange
from tidelog.storage.durability import Append, Durability
from tidelog.storage.flusher import Plan
from tidelog.storage.loading import DELETED, Loaded, load
from tidelog.storage.reading import Slice, cut_slice, read_anywhere
from tidelog.storage.segment import ALWAYS, NEVER, OFFSETS_MAX, Segment
from tidelog.storage.segments import Segments
from tidelog.storage.volume import Volume
from tidelog.types import TopicPartition


class Log:
    __slots__ = (
        "_active",
        "_bad",
        "_durability",
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
        self._bad: list[BadRange] = loaded.bad
        self.epochs = loaded.epochs
        self.start = max(loaded.start, self.segments.first.base)
        self.end = self.next = max(self._active.end, self.start)
        self._trash: list[tuple[int, Segment]] = []
        self._queued = 0
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
        write = Append(self, segment, file, position, bytes(data), last + 1)
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
        self._set_roll_at(segment)

    def _set_roll_at(self, segment: Segment) -> None:
        if segment.roll_at == ALWAYS and segment.size:
            return  # its index is full
        if segment.size == segment.reserved == 0:
            segment.roll_at = NEVER
        elif segment.first_timestamp < 0:
            segment.roll_at = ALWAYS  # batches without a time: the slow check asks the clock
        else:
            segment.roll_at = segment.first_timestamp + self.config.segment_ms - segment.jitter_ms

    def _roll_if_due(self, size: int, added: int, base: int, last: int, max_timestamp: int) -> Segment:
        segment = self._active
        if size == 0 and last - segment.base <= OFFSETS_MAX:
            return segment
        age_ms = (
            max_timestamp - segment.first_timestamp
            if segment.first_timestamp >= 0 and max_timestamp >= 0
            else self._volume.clock.now_ms() - segment.created_ms
        )
        if (
            size + added > self._segment_bytes
            or age_ms > self.config.segment_ms - segment.jitter_ms
            or last - segment.base > OFFSETS_MAX
            or segment.index_full
        ):
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
            self._durability.rolled(fresh, None)
        else:
            old.seal()
            self._durability.rolled(fresh, old)
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
        segment.jitter_ms = self._jitter()
        return segment

    def _jitter(self) -> int:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._volume.random.randrange(jitter_ms) if jitter_ms > 0 else 0

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._active.jitter_ms = self._jitter()
        self._set_roll_at(self._active)
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
        if offset < segment.base or self._bad:
            return read_anywhere(self.segments, self._bad, offset, bytes_max, end, whole_batch)
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
        if offset < self.segments.first.base:
            self._clear(offset)
            return
        keep = self.segments.holding(offset)
        self._discard(self.segments.take_from(keep + 1))
        self._active = self.segments.last
        self._active.truncate_to(offset)
        self.end = self.next = offset
        self._shrunk()

    def _clear(self, offset: int) -> None:
        # The old names go first: a crash in between leaves an empty folder, which opens where the checkpoint
        # says.
        self._discard(self.segments.take_from(0))
        self._active = self._create(offset)
        self.segments.add(self._active)
        self.start = self.end = self.next = offset
        self._shrunk()

    def _shrunk(self) -> None:
        offset = self.end
        self.start = min(self.start, offset)
        self._durability.cut(self._active, offset)
        self.epochs.truncate_to(offset)
        if self._bad:
            self._bad = [bad for bad in self._bad if bad.start < offset and bad.end <= offset]
        self._set_roll_at(self._active)

    def _discard(self, segments: list[Segment]) -> None:
        """Renamed now, removed from the disk after `file.delete.delay.ms`."""
        due_ms = self._volume.clock.now_ms() + self.config.file_delete_delay_ms
        for segment in segments:
            segment.rename(DELETED)
            self._trash.append((due_ms, segment))
        self._durability.dropped(segments)

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
            self._queueing = self.config.flush_messages == 1

    def append_failed(self, problem: OSError) -> Exception:
        """Offsets that were given out and not written are taken back, those of later appends with them: a log
        has no holes."""
        error = self._volume.failed(problem, f"append to {self.name}")
        withdrawn = self._volume.flusher.withdraw(self)
        self._queued = 0
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
        self._durability.flush_now()
        for _, segment in self._trash:
            segment.remove()
        self._trash.clear()


__all__ = ["Log", "Slice"]
