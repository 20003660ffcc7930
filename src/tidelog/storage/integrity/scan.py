"""Checks batches where nothing can be taken for granted, and finds the next whole one behind bytes that are not.

The format's checksum leaves out base offset and leader epoch, which brokers stamp.  An offset that rotted shows by
the batch after it; in the last batch it may not.  Used by `recovery` and `verification`, in the disk's thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog._speed.log.batch import ATTRIBUTES_AT, HEADER_SIZE, Header, crc_ok, header_at
from tidelog._speed.log.crc32c import crc32c
from tidelog.storage.disk import Source

CHUNK_BYTES = 1 << 20
MAGIC = 2
_ATTRIBUTES_KNOWN = 0x7F


def whole_batches(
    file: Source, position: int, size: int, expected: int, last_max: int
) -> Iterator[tuple[int, Header]]:
    """(position, header) of the batches below `size` that are whole: plausible, in ascending offsets from
    `expected` to `last_max`, and with the right CRC.  Stops at the first that is not."""
    data, start = b"", position
    while size - position >= HEADER_SIZE:
        at = position - start
        if len(data) - at < HEADER_SIZE:
            data, start, at = file.read(min(CHUNK_BYTES, size - position), position), position, 0
        header = header_at(data, at)
        if (
            header is None
            or not plausible(header, expected, size - position)
            or header.last_offset > last_max
        ):
            return
        if header.base_offset > expected and _contradicted(file, position, header, expected):
            return
        if header.size > len(data) - at and header.size <= CHUNK_BYTES:
            data, start, at = file.read(min(CHUNK_BYTES, size - position), position), position, 0
        whole = crc_ok(data, at) if header.size <= len(data) - at else large_crc_ok(file, position, header)
        if not whole:
            return
        yield position, header
        expected = header.last_offset + 1
        position += header.size


def next_whole(
    file: Source, position: int, size: int, expected: int, last_max: int
) -> tuple[int, Header] | None:
    """The first whole batch at `position` or behind, at whatever byte it starts."""
    # Of a header, the upper half of the base offset and the format are known: few places look like that.
    tops = {expected >> 32, (expected >> 32) + 1}
    pattern = b"|".join(re.escape(top.to_bytes(4, "big")) for top in sorted(tops) if top < 1 << 32)
    looks_right = re.compile(b"(?=(?:" + pattern + b").{12}\\x02)", re.DOTALL)
    while size - position >= HEADER_SIZE:
        data = file.read(min(CHUNK_BYTES, size - position), position)
        for match in looks_right.finditer(data):
            at = position + match.start()
            header = header_at(file.read(HEADER_SIZE, at))
            if header is None or not plausible(header, expected, size - at):
                continue
            if header.last_offset <= last_max and large_crc_ok(file, at, header):
                return at, header
        # A header may begin at the end of this chunk: what is too short to match is looked at again.
        position += max(1, len(data) - 16)
    return None


def plausible(header: Header, expected: int, bytes_left: int) -> bool:
    return (
        header.magic == MAGIC
        and header.base_offset >= expected
        and header.size <= bytes_left
        and header.last_offset_delta >= 0
        and 0 <= header.count <= header.last_offset_delta + 1
        and header.attributes & ~_ATTRIBUTES_KNOWN == 0
    )


def _contradicted(file: Source, position: int, header: Header, expected: int) -> bool:
    """No checksum covers the base offset.  Offsets may have gaps, but if the next batch fits before this one ends,
    this one's has rotted."""
    following = header_at(file.read(HEADER_SIZE, position + header.size))
    return (
        following is not None
        and following.magic == MAGIC
        and expected <= following.base_offset <= header.last_offset
    )


def large_crc_ok(file: Source, position: int, header: Header) -> bool:
    """In pieces: a length that rotted may claim most of the file."""
    at, end, value = position + ATTRIBUTES_AT, position + header.size, 0
    while at < end:
        piece = file.read(min(CHUNK_BYTES, end - at), at)
        if not piece:
            return False
        value = crc32c(piece, value)
        at += len(piece)
    return value == header.crc
