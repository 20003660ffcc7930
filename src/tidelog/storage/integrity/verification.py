"""Reads a segment from the disk and tells whether all of it is whole.  Blocks: runs in the disk's thread.

`SegmentCheck` is the fast way, natively and a piece at a time, for segments that are nearly always whole.  Where it finds
one that is not, `find_damage` walks the segment as recovery does and says which offsets are damaged.
"""

from __future__ import annotations

from tidelog._speed.log.batch import BatchCheck, header_at
from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.storage.disk import Disk, Source
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.scan import CHUNK_BYTES, large_crc_ok, next_whole, plausible, whole_batches
from tidelog.storage.segments.segment_files import INDEX, SegmentFiles


class SegmentCheck:
    """The first `size` bytes of one segment: `step` until it is `done`."""

    __slots__ = ("_check", "_file", "_size", "base", "done", "whole")

    def __init__(self, disk: Disk, folder: str, base: int, size: int, with_index: bool) -> None:
        self.base = base
        self.done = size == 0
        self.whole = True
        self._size = size
        files = SegmentFiles(disk, folder, base)
        self._file = files.open_direct()
        index = disk.read_file(files.path(INDEX)) if with_index and files.exists(INDEX) else b""
        # An index that was made larger than its entries ends with zeros.
        index = index[: -(-len(index.rstrip(b"\0")) // 8) * 8]
        self._check = BatchCheck(base, base + SEGMENT_OFFSETS_MAX, index)

    @property
    def index_fits(self) -> bool:
        """Every entry of the offset index that was passed names the start of a batch."""
        return self._check.index_fits

    def step(self) -> int:
        """Bytes read, of which at least one batch was checked."""
        check, bytes_left = self._check, self._size - self._check.position
        data = self._file.read(min(CHUNK_BYTES, bytes_left), check.position)
        if not check.feed(data) and not self._large(data, bytes_left):
            self.whole = False
        self.done = not self.whole or check.position == self._size
        return len(data)

    def _large(self, data: bytes, bytes_left: int) -> bool:
        """A batch that is larger than what is read at once."""
        check, header = self._check, header_at(data)
        if header is None or header.size <= len(data) or not plausible(header, check.expected, bytes_left):
            return False
        if header.last_offset > check.last_max or not large_crc_ok(self._file, check.position, header):
            return False
        check.passed(header)
        return True


def find_damage(file: Source, base: int, size: int, end: int) -> list[BadRange]:
    """The bad ranges among the first `size` bytes of the segment at `base`, after which offset `end` comes."""
    last_max = base + SEGMENT_OFFSETS_MAX
    ranges: list[BadRange] = []
    position, expected = 0, base
    while True:
        for at, header in whole_batches(file, position, size, expected, last_max):
            expected, position = header.last_offset + 1, at + header.size
        if position == size:
            return ranges
        following = next_whole(file, position + 1, size, expected, last_max)
        if following is None:
            return [*ranges, BadRange(expected, max(end, expected), base, position, size - position)]
        behind, header = following
        ranges.append(BadRange(expected, header.base_offset, base, position, behind - position))
        position, expected = behind, header.base_offset
