"""Brings a log back after an unclean stop: finds out what is whole, cuts what is torn, remembers what rotted.

What was synced, everything below the recovery point, is not read again.  From there on every batch is checked.  The
first bad one ends the log if nothing whole follows: a torn write.  If whole batches follow it depends:

- the machine lost power, and the bad batch is above the recovery point.  Pages reach a disk in any order, so this
  is what writes that were never synced look like.  Nothing behind it was promised to be durable, and a log that ends
  there is a prefix of what it was: producers that go on find their own gap and fill it, a follower fetches it again.
  So the log is cut there.
- otherwise the bytes were written, and rotted.  Cutting would throw away what was acknowledged behind them: the range
  is recorded as damage, reads of it fail, and all others go on.

Afterwards the folder is as a clean stop would have left it; `loading` opens it.  Nothing is synced here but what
is written again: whoever recovers many logs makes all of them durable at once, before he says that it is done.  Blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog._speed.log.batch import HEADER_SIZE, Header
from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage import checkpoints
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import File
from tidelog.storage.integrity import damage
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.scan import CHUNK_BYTES, next_whole, plausible, whole_batches
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.producer_state import snapshots
from tidelog.storage.recovery.loading import list_segments, log_start, read_damage, read_epochs, scan_folder
from tidelog.storage.segments import scanning
from tidelog.storage.segments.index import CorruptIndex
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segments import Segments
from tidelog.storage.shared_files import make_own


@dataclass(slots=True)
class Report:
    """What recovery did to one log."""

    folder: str
    start: int = 0
    end: int = 0
    recovery_point: int = 0
    """The offset after the last batch: less than `end` when the log starts behind it."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_segments: int = 0
    cut_batches: bool = False
    """What was cut was more than space that had been reserved: part of a write, or a batch that rotted."""
    indexes_rebuilt: int = 0
    damaged: list[BadRange] = field(default_factory=list)
    """Found now."""
    bad: list[BadRange] = field(default_factory=list)
    """All, with those that were known."""

    def __str__(self) -> str:
        text = f"{self.folder}: scanned {self.scanned_bytes} bytes, log ends at {self.end}"
        if self.cut_bytes or self.cut_segments:
            text += f", cut {self.cut_bytes} bytes that were not whole and {self.cut_segments} segments behind them"
        for bad in self.damaged:
            text += f", offsets {bad.start} to {bad.end} are damaged"
        return text


class Recovery:
    """One log, once."""

    def __init__(
        self,
        volume: Volume,
        folder: str,
        config: TopicConfig,
        power_lost: bool,
        write_again: bool = False,
    ) -> None:
        """`write_again`: a sync has failed since the machine was started.  The system then shows bytes that it
        could not write, and takes them for written: what is kept has to be written once more."""
        self._write_again = write_again
        self._volume = volume
        self._disk = volume.disk
        self._folder = folder
        self._config = config
        self._power_lost = power_lost
        self._recovery_point = 0
        self._epochs = Epochs()
        self._segments = Segments([])
        self.report = Report(folder)

    def run(self, start: int, recovery_point: int) -> Report:
        """`start` and `recovery_point` as the directory's checkpoints have them."""
        report, folder = self.report, self._folder
        files = scan_folder(self._disk, folder)
        report.start = report.end = start
        if not files.bases:
            return report
        segments = self._segments = Segments(list_segments(self._volume, folder, files.bases, self._config))
        damage_before: list[BadRange] | None = None
        try:
            damage_before = read_damage(self._disk, folder)
        except CorruptMessage:
            recovery_point = 0  # what is damaged has to be found again
        for segment in segments:
            segment.bad = [bad for bad in damage_before or () if bad.base == segment.base]
        self._recovery_point = recovery_point
        self._epochs = read_epochs(self._disk, folder)
        # A segment that was sealed when all of it was synced has indexes that were not.
        first = segments.holding(recovery_point - 1)
        oldest = first  # from here on the indexes of transactions are built anew
        for number, segment in enumerate(segments.below(first)):
            scanning.trim_indexes(segment)
            if oldest == first and not segment.indexes.transactions.sane(segment.base):
                oldest = number
        end = self._scan_from(first)
        report.start = log_start(self._config, start, segments.first.base)
        report.end = max(end, report.start)
        report.recovery_point = end
        self._epochs.truncate_to(report.end)
        self._epochs.advance_start(report.start)
        self._close(first)
        self._save(files.others, damage_before, end, segments[min(oldest, len(segments) - 1)].base)
        return report

    # Scanning

    def _scan_from(self, first: int) -> int:
        """The offset after the last whole batch."""
        number, expected = first, self._segments[first].base
        while number < len(self._segments):
            segment = self._segments[number]
            if number > first and (segment.base < expected or self._gap(segment, expected)):
                # One that starts too early was dropped by a truncation whose renames did not reach the disk.
                self._drop_segments(number)
                break
            expected = max(expected, segment.base)
            position, expected = self._begin(segment, expected)
            if number == first:
                self._epochs.truncate_to(expected)
            expected = self._scan_segment(number, segment, position, expected)
            segment.reserved = segment.size
            if self._write_again:
                _rewrite(segment.file, position, segment.size)
                segment.file.sync()  # of this file alone: an error that others have seen is not told to a sync of all
            number += 1
        return expected

    def _gap(self, segment: Segment, expected: int) -> bool:
        """Whether what lay before the segment was lost with the power, or never written: appends that wait for
        their sync get their place first, and a roll may follow before they are written.  Logs may have gaps of
        their own: what was known when the segment was started tells them apart.  Where that is lost, compaction had
        no hand in it: it moves the recovery point first."""
        if not segment.base > expected >= self._recovery_point:
            return False
        if not self._power_lost:
            later = [each for each in self._segments if each.base >= segment.base]
            if any(self._holds_any(each, expected) for each in later):
                return False  # a kill leaves nothing written behind what was not
        ended = snapshots.log_end_before(self._disk, self._folder, segment.base)
        return ended is None or expected < ended

    def _begin(self, segment: Segment, expected: int) -> tuple[int, int]:
        """Where to start reading, and the offset expected there.  Below the recovery point the log is believed, and
        the indexes as far as they fit it."""
        if self._recovery_point > segment.base:
            try:
                return self._find_recovery_point(segment)
            except (CorruptIndex, CorruptMessage, FileNotFoundError):
                self.report.indexes_rebuilt += 1
        segment.bad = []
        scanning.restart(segment, 0)
        return 0, expected

    def _find_recovery_point(self, segment: Segment) -> tuple[int, int]:
        physical = segment.size
        if not segment.indexes.sane():
            raise CorruptIndex(f"{segment.path} has an index whose entries do not ascend")
        expected, position = segment.index.floor(self._recovery_point)
        for at, header in segment.headers(position):
            if at == position and header.base_offset != expected and position:
                raise CorruptIndex(f"{segment.path} has an index that points between batches")
            if header.base_offset >= self._recovery_point or not plausible(header, expected, physical - at):
                break
            expected, position = header.last_offset + 1, at + header.size
        segment.bad = [bad for bad in segment.bad if bad.position < position]
        segment.index.truncate_to(expected)
        segment.time_index.truncate_to(expected)
        if not scanning.newest_entry_fits(segment):
            raise CorruptIndex(f"{segment.path} has a time index that does not fit its batches")
        scanning.restart(segment, position)
        return position, expected

    def _scan_segment(self, number: int, segment: Segment, position: int, expected: int) -> int:
        file, physical, behind_bad = segment.file, segment.file.size(), -1
        last_max = segment.base + SEGMENT_OFFSETS_MAX
        while True:
            began = position
            for at, header in whole_batches(file, position, physical, expected, last_max):
                scanning.scanned(segment, at, header, at == behind_bad)
                self._epochs.assign(header.leader_epoch, header.base_offset)
                expected, position = header.last_offset + 1, at + header.size
            self.report.scanned_bytes += position - began
            if position == physical:
                return expected
            next_batch = next_whole(file, position + 1, physical, expected, last_max)
            if self._is_torn(number, next_batch, expected):
                self._cut(segment, position)
                if number + 1 < len(self._segments) and self._segments[number + 1].base != expected:
                    self._drop_segments(number + 1)
                return expected
            if next_batch is None:
                # Whole batches follow in the next segment: what lies before them was there once.
                next_base = self._segments[number + 1].base
                self._damaged(
                    segment, BadRange(expected, next_base, segment.base, position, physical - position)
                )
                segment.size = physical
                return next_base
            behind_bad, base_offset = next_batch[0], next_batch[1].base_offset
            self._damaged(
                segment, BadRange(expected, base_offset, segment.base, position, behind_bad - position)
            )
            position, expected = behind_bad, base_offset

    def _is_torn(self, number: int, next_batch: tuple[int, Header] | None, expected: int) -> bool:
        """Bytes that are no batch: is the log to end before them?"""
        if next_batch is None:
            later = self._segments.above(number)
            if later and later[0].base == expected:
                return True  # nothing is missing: space that was reserved, or the start of a failed write
            if not any(self._holds_any(each, expected) for each in later):
                return True
        return self._power_lost and expected >= self._recovery_point

    def _holds_any(self, segment: Segment, expected: int) -> bool:
        return (
            next_whole(segment.file, 0, segment.size, expected, segment.base + SEGMENT_OFFSETS_MAX)
            is not None
        )

    def _damaged(self, segment: Segment, bad: BadRange) -> None:
        segment.bad = [*segment.bad, bad]
        self.report.damaged.append(bad)

    def _cut(self, segment: Segment, position: int) -> None:
        self.report.cut_bytes += segment.file.size() - position
        self.report.cut_batches |= any(segment.file.read(HEADER_SIZE, position))
        if make_own(segment.path):
            segment.release_all()
        segment.file.truncate(position)
        segment.size = segment.reserved = position

    def _drop_segments(self, number: int) -> None:
        for segment in self._segments.take_from(number):
            self.report.cut_segments += 1
            self.report.cut_batches |= segment.size > 0
            self.report.cut_bytes += segment.size
            segment.remove()

    # Leaving things as a clean stop would

    def _close(self, first: int) -> None:
        for segment in self._segments.above(first - 1):
            segment.close()

    def _save(
        self, others: list[str], damage_before: list[BadRange] | None, end: int, transactions_from: int
    ) -> None:
        disk, folder, report = self._disk, self._folder, self.report
        bad = [each for segment in self._segments for each in segment.bad]
        report.bad = bad
        if bad != damage_before:
            disk.replace_file(f"{folder}/{damage.DAMAGE}", damage.encode(bad))
        if self._epochs.version:
            data = checkpoints.encode_epochs(self._epochs)
            disk.replace_file(f"{folder}/{checkpoints.LEADER_EPOCHS}", data)
        for segment in self._segments:
            if segment.base >= transactions_from:
                segment.indexes.transactions.clear()
        producers, known_to = snapshots.load(
            disk, folder, others, report.start, report.end, transactions_from
        )
        if known_to < report.end:
            for segment, aborted in snapshots.complete(producers, self._segments, known_to, report.end):
                if aborted.last_offset >= transactions_from:
                    segment.indexes.transactions.append(aborted)
            snapshots.write(disk, folder, report.end, producers, end)
        for segment in self._segments:
            segment.release_all()


def _rewrite(file: File, position: int, end: int) -> None:
    while position < end and (data := file.read(min(CHUNK_BYTES, end - position), position)):
        file.write(data, position)
        position += len(data)
