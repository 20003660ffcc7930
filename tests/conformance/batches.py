"""Record batches (magic 2) as bytes, written plainly so that a test can get any field wrong on purpose,
and read back from what a Fetch returned."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiokafka.codec import lz4_decode, lz4_encode, snappy_decode, snappy_encode, zstd_decode, zstd_encode
from aiokafka.record.util import calc_crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_END = 21  # the checksum covers everything from the attributes on
HEADER_BYTES = HEADER.size

_COMPRESS = {1: gzip.compress, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
_DECOMPRESS = {1: gzip.decompress, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0


class Batch(NamedTuple):
    """One batch as it stands in a log or an answer."""

    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    body: bytes
    crc_ok: bool

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    def records(self) -> list[tuple[int, Record]]:
        """(offset, record) of each record."""
        data = bytes(_DECOMPRESS[self.codec](self.body)) if self.codec else self.body
        found, at = [], 0
        for _ in range(self.record_count):
            offset_delta, record, at = _read_record(data, at)
            found.append((self.base_offset + offset_delta, record))
        assert at == len(data)
        return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(
    records: Iterable[Record | bytes | None] = (b"value",), codec: str = "none", **header: Any
) -> bytes:
    """A batch of `records`, right in every field unless `header` says otherwise.

    Keys of `header`: base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp,
    max_timestamp, producer_id, producer_epoch, base_sequence, count, body (the encoded records).
    """
    items = [r if isinstance(r, Record) else Record(r) for r in records]
    base_timestamp = header.get("base_timestamp", now_ms())
    body = b"".join(encode_record(index, record) for index, record in enumerate(items))
    attributes = CODECS[codec]
    if attributes:
        body = bytes(_COMPRESS[attributes](body))
    body = header.get("body", body)
    newest = base_timestamp + max((r.timestamp_delta for r in items), default=0)
    tail = struct.pack(
        ">hiqqqhii",
        header.get("attributes", 0) | attributes,
        header.get("last_offset_delta", len(items) - 1),
        base_timestamp,
        header.get("max_timestamp", newest),
        header.get("producer_id", -1),
        header.get("producer_epoch", -1),
        header.get("base_sequence", -1),
        header.get("count", len(items)),
    )
    rest: bytes = tail + body
    head = struct.pack(
        ">qiibI",
        header.get("base_offset", 0),
        header.get("length", len(rest) + 9),
        header.get("leader_epoch", -1),
        header.get("magic", 2),
        header.get("crc", calc_crc32c(rest)),
    )
    return head + rest


def old_message(value: bytes, magic: int) -> bytes:
    """A message of the formats before record batches (magic 0 and 1), with a right CRC-32."""
    rest = struct.pack(">bb", magic, 0)
    if magic == 1:
        rest += struct.pack(">q", now_ms())
    rest += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(rest)) + rest
    return struct.pack(">qi", 0, len(message)) + message


def read(data: bytes | None) -> list[Batch]:
    """The whole batches in `data`; a cut one at the end is left out, as clients do."""
    return list(_walk(data or b""))


def _walk(data: bytes) -> Iterator[Batch]:
    at = 0
    while len(data) - at >= HEADER_BYTES:
        length = struct.unpack_from(">i", data, at + 8)[0]
        end = at + 12 + length
        if end > len(data):
            return
        base, _, epoch, magic, crc, *rest = HEADER.unpack_from(data, at)
        body = data[at + HEADER_BYTES : end]
        crc_ok = calc_crc32c(data[at + CRC_END : end]) == crc
        yield Batch(*(base, epoch, magic, crc, *rest, body, crc_ok))
        at = end


def encode_record(offset_delta: int, record: Record) -> bytes:
    out = bytearray(b"\0") + varint(record.timestamp_delta) + varint(offset_delta)
    out += _blob(record.key) + _blob(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        out += _blob(name.encode()) + _blob(value)
    return varint(len(out)) + bytes(out)


def _blob(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def varint(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _read_blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _read_record(data: bytes, at: int) -> tuple[int, Record, int]:
    size, at = _read_varint(data, at)
    end = at + size
    timestamp_delta, at = _read_varint(data, at + 1)
    offset_delta, at = _read_varint(data, at)
    key, at = _read_blob(data, at)
    value, at = _read_blob(data, at)
    header_count, at = _read_varint(data, at)
    headers = []
    for _ in range(header_count):
        name, at = _read_blob(data, at)
        content, at = _read_blob(data, at)
        headers.append(((name or b"").decode(), content))
    assert at == end
    return offset_delta, Record(value, key, tuple(headers), timestamp_delta), at
