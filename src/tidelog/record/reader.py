"""Records read from the bytes of batches, as they come from a fetch or from a segment.

A batch that is cut at the end of the bytes is left out: a fetch may end in the middle of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog._speed.log.batch import HEADER_SIZE, Header, crc_ok, header_at
from tidelog._speed.log.records import Record, read
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, Codec, decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = 2
OFFSET_LAST = (1 << 63) - 1


class Batch:
    """One whole batch in a buffer that outlives it; nothing is decoded before it is asked for."""

    __slots__ = ("_data", "_size_max", "header")

    def __init__(self, data: memoryview, header: Header, size_max: int) -> None:
        self.header = header
        self._data = data
        self._size_max = size_max

    @property
    def view(self) -> memoryview:
        """Header and records, unchanged."""
        return self._data[self.header.position : self.header.position + self.header.size]

    def section(self) -> bytes | memoryview:
        """The records section, decompressed."""
        packed = self.view[HEADER_SIZE:]
        if self.header.compression == Codec.NONE:
            return packed
        return decompress(self.header.compression, packed, self._size_max)

    def records(self, first: int = 0, last: int = OFFSET_LAST) -> list[Record]:
        """The records with offsets from `first` to `last`."""
        header = self.header
        append_timestamp = header.max_timestamp if header.log_append_time else None
        return read(
            self.section(),
            header.count,
            header.base_offset,
            header.base_timestamp,
            append_timestamp,
            first,
            last,
        )


def read_batches(
    data: Buffer, *, check_crc: bool = True, size_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Batch]:
    """The whole batches in `data`, in order; raises CorruptMessage at the first damaged one.

    `size_max` bounds what one batch may expand to.
    """
    view = memoryview(data).cast("B")
    at = 0
    while at < len(view):
        header = header_at(view, at)
        if header is None:
            if len(view) - at < HEADER_SIZE:
                return
            raise CorruptMessage(f"no record batch at byte {at}: the length field is impossible")
        if header.magic != MAGIC:
            raise InvalidRecord(
                f"the batch at offset {header.base_offset} has format {header.magic}, not {MAGIC}"
            )
        if header.size > len(view) - at:
            return
        if check_crc and not crc_ok(view, at):
            raise CorruptMessage(f"the batch at offset {header.base_offset} fails its checksum")
        yield Batch(view, header, size_max)
        at += header.size


def read_records(
    data: Buffer, start: int = 0, *, check_crc: bool = True, size_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records from offset `start` on; control records are not for applications and are left out."""
    for batch in read_batches(data, check_crc=check_crc, size_max=size_max):
        if batch.header.control or batch.header.last_offset < start:
            continue
        for record in batch.records():
            if record.offset >= start:
                yield record
