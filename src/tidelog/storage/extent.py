"""What a log holds, from `start` to `end`: its segments, and every way in which it gets shorter.

`log` adds how it gets longer and how it is read.  A change that fails half-way takes the directory offline, so nobody
goes on with a log that is neither the old nor the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tidelog._speed.log.append import NativeLog
from tidelog.config import TopicConfig
from tidelog.errors import OffsetOutOfRange
from tidelog.storage import snapshots
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.durability import Durability, GroupAppend
from tidelog.storage.epochs import Epochs
from tidelog.storage.integrity.damage import BadRange, Damage
from tidelog.storage.loading import Loaded, list_segments
from tidelog.storage.producers import Producers
from tidelog.storage.retention import UNLIMITED, deletable
from tidelog.storage.segments import rolling, swapping
from tidelog.storage.segments.ordered import Segments
from tidelog.storage.segments.segment import NEVER, Segment
from tidelog.storage.segments.trash import Trash
from tidelog.storage.segments.txn_index import Aborted
from tidelog.types import TopicPartition


class Extent(NativeLog):
    __slots__ = (
        "_changed",
        "_damage",
        "_trash",
        "config",
        "folder",
        "name",
        "segments",
    )

    epochs: Epochs
    producers: Producers
    _active: Segment
    _durability: Durability
    _group_append: GroupAppend | None
    _volume: Volume

    def __init__(
        self, volume: Volume, folder: str, name: TopicPartition, config: TopicConfig, loaded: Loaded
    ) -> None:
        self.folder = folder
        self.name = name
        self.config = config
        self.segments = Segments(loaded.segments)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.start = loaded.start
        self.end = self.next = loaded.end
        self._volume = volume
        self._active = self.segments.last
        self._damage = Damage(volume, folder, name, loaded.bad)
        self._trash = Trash()
        self._durability = Durability(volume, folder, config, self.epochs, self._active)
        self._durability.opened(min(loaded.recovery_point, self._active.end), loaded.created)
        self._changed = loaded.created or loaded.scanned

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self.segments.size

    @property
    def damaged(self) -> tuple[BadRange, ...]:
        """Ranges whose bytes rotted: reads of them fail.  A follower can cut its log at the first and fetch."""
        return tuple(self._damage.ranges)

    @property
    def unlearned(self) -> frozenset[BadRange]:
        """Ranges that were damaged when the log was searched for producers and transactions: it knows none of them."""
        return self._damage.unlearned

    def learned_anew(self, aborted: Sequence[Aborted], damaged: Iterable[BadRange]) -> None:
        """The log was searched again, all but what is `damaged` now, and these transactions were aborted.  Blocks."""
        self._damage.unlearned = frozenset(damaged)
        self._change(partial(self._note_aborted, aborted), f"note aborted transactions of {self.name}")

    def _note_aborted(self, aborted: Sequence[Aborted]) -> None:
        by_segment: dict[int, list[Aborted]] = {}
        for each in aborted:
            if each.last_offset >= self.segments.first.base:
                by_segment.setdefault(self.segments.holding(each.last_offset), []).append(each)
        for number, found in by_segment.items():
            self.segments[number].transactions.put(found)

    @property
    def volume(self) -> Volume:
        return self._volume

    def damage_found(self, segment: Segment, ranges: Sequence[BadRange]) -> None:
        """These ranges of `segment`, and no others, are damaged: found just now, or what a repair has left.  Blocks."""
        self._change(partial(self._set_damage, segment, list(ranges)), f"remember damage of {self.name}")

    def _set_damage(self, segment: Segment, ranges: list[BadRange]) -> None:
        self._damage.put(segment.base, ranges)
        segment.bad = ranges
        # A search never walks over a bad range: indexes must know the way behind it.
        segment.rebuild_indexes()

    def suspect(self, offset: int | None) -> None:
        """Somebody could not make sense of the bytes at `offset`: they are to be checked."""
        self._volume.suspects[self.name] = offset

    def read_failed(self, problem: OSError) -> Exception:
        """The error for a reader that could not read the bytes of a slice."""
        return self._volume.failed(problem, f"read {self.name}")

    # Segments

    def roll(self, base: int | None = None) -> Segment:
        """Seals the active segment and starts one at `base`, the next offset if not told; KafkaStorageError
        leaves things as they were."""
        base = self.next if base is None else base
        old = self._active
        if old.base == base:
            return old
        try:
            fresh = self._create(base)
            snapshot = self._seal(old, fresh) if old.size or old.reserved else None
        except OSError as problem:
            raise self._volume.failed(problem, f"start a segment of {self.name}") from problem
        if snapshot is None:
            self.segments.take_from(len(self.segments) - 1)[0].remove()
            self._durability.rolled(fresh)
        else:
            self._durability.rolled(fresh, old, snapshot)
        self.segments.add(fresh)
        self._active = fresh
        self.start = max(self.start, self.segments.first.base)
        return fresh

    def _seal(self, old: Segment, fresh: Segment) -> str:
        try:
            old.seal()
            end = self.next if old.reserved > old.size else old.end
            return snapshots.write(self._volume.disk, self.folder, fresh.base, self.producers, end)
        except OSError:
            fresh.remove()
            raise

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
        rolling.set_limits(segment, config)
        return segment

    def _discard(self, segments: list[Segment]) -> None:
        """Renamed now, removed from the disk after `file.delete.delay.ms`."""
        self._trash.put(segments, self._volume.clock.now_ms() + self.config.file_delete_delay_ms)
        self._volume.trashed[self] = None
        self._durability.dropped(segments)

    # Cutting

    def _lower_recovery_point(self, offset: int, doing: str) -> None:
        """Before a cut.  Nothing has changed yet: a full disk costs the cut and no more."""
        if self._volume.problem is not None:
            raise self._volume.offline()
        try:
            self._volume.recovery_points.lower(self.name, offset)
        except OSError as problem:
            raise self._volume.failed(problem, doing) from problem

    def _cut(self, offset: int) -> None:
        self._volume.recovery_points.lower(self.name, offset)
        if offset < self.segments.first.base:
            self._clear(offset)
            return
        self._discard(self.segments.take_from(self.segments.holding(offset) + 1))
        # What is gone must stay gone: after a crash nobody could tell it from what is written in its place.
        self._volume.disk.sync_folder(self.folder)
        self._active = self.segments.last
        self._active.truncate_to(offset)
        self._active.file.sync()
        self._volume.recovery_points.lower(self.name, self._active.end)
        self.end = self.next = offset
        self.start = min(self.start, offset)
        self._shrunk(offset)
        if not self.producers.truncate_to(offset):
            self._reload_producers()

    def _clear(self, offset: int) -> None:
        self._volume.recovery_points.lower(self.name, 0)
        # The old names go first: a crash in between leaves an empty folder, which opens where the checkpoints say.
        self._discard(self.segments.take_from(0))
        self._volume.disk.sync_folder(self.folder)
        self._active = self._create(offset)
        self.segments.add(self._active)
        self.start = self.end = self.next = offset
        self.producers.clear()
        self._shrunk(0)

    def _shrunk(self, offset: int) -> None:
        """Nothing at `offset` or behind is left of what was there."""
        disk = self._volume.disk
        self._durability.cut(self._active)
        self.epochs.truncate_to(offset)
        for each in snapshots.offsets_in(disk.list(self.folder)):
            if each > offset:
                disk.remove(snapshots.path_of(self.folder, each))
        self._damage.keep(lambda bad: bad.end <= offset)
        self._active.bad = [bad for bad in self._damage.ranges if bad.base == self._active.base]
        rolling.set_limits(self._active, self.config)

    def _reload_producers(self) -> None:
        names = self._volume.disk.list(self.folder)
        self.producers, known_to = snapshots.load(self._volume.disk, self.folder, names, self.start, self.end)
        snapshots.complete(self.producers, self.segments, known_to, self.end)

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
        if self._volume.problem is not None:
            raise self._volume.offline()
        try:
            count = self._deletable(committed)
        except OSError as problem:
            raise self._volume.failed(problem, f"look up times of {self.name}") from problem
        if count:
            self._change(partial(self._delete_first, count), f"delete segments of {self.name}")
        return count

    def _deletable(self, committed: int) -> int:
        config, segments = self.config, list(self.segments)
        deletes = "delete" in config.cleanup_policy
        # What is on its way to the disk belongs to its segment already.
        ends = [segment.base for segment in segments[1:]] + [self.next]
        return deletable(
            segments,
            ends,
            now_ms=self._volume.clock.now_ms(),
            retention_ms=config.retention_ms if deletes else UNLIMITED,
            retention_bytes=config.retention_bytes if deletes else UNLIMITED,
            start=self.start,
            committed=committed,
        )

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

    def retention_due_ms(self) -> int:
        """Before this time no segment can be too old, if nothing is appended."""
        config, first = self.config, self.segments.first
        if "delete" not in config.cleanup_policy or config.retention_ms < 0 or not first.size:
            return NEVER
        try:
            return first.age_from() + config.retention_ms
        except OSError as problem:
            raise self._volume.failed(problem, f"look up times of {self.name}") from problem

    def take_deleted(self) -> tuple[list[str], bool]:
        """Files to be removed now, whose `file.delete.delay.ms` has passed, and whether these were the last."""
        due = self._trash.take(self._volume.clock.now_ms())
        return due, not self._trash

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

    def _change(self, change: Callable[[], None], doing: str) -> None:
        if self._volume.problem is not None:
            raise self._volume.offline()
        self._changed = True
        try:
            change()
        except OSError as problem:
            raise self._volume.failed(problem, doing, at_risk=True) from problem
