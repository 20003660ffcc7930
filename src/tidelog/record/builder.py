"""Builds record batches: those of producers, the broker's own, and control batches.

`BatchBuilder` encodes each record as it is added (natively), so its size is known at any time; `build`
compresses and puts the header in front.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tidelog._speed.log.batch import HEADER_SIZE, Header, header_at
from tidelog._speed.log.records import Record
from tidelog._speed.log.writer import Writer, replace_records
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
_CODEC_BITS = 0x07


class BatchBuilder(Writer):
    """Add records until `add` reports that the batch is full, then build it; `clear` prepares for the next batch."""

    def build(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> bytes:
        attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
        packed = compress(codec, self, level) if codec is not Codec.NONE else None
        return self.seal(
            attributes, base_offset, leader_epoch, producer_id, producer_epoch, base_sequence, packed
        )


def build_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """One batch of all `records`; they get the offsets from `base_offset` on, and their own offsets are ignored."""
    builder = BatchBuilder()
    for record in records:
        builder.add(record.key, record.value, record.timestamp, record.headers)
    return builder.build(
        codec=codec,
        level=level,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


class Marker(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that decided it."""

    marker: Marker
    coordinator_epoch: int


_MARKER_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch


def build_marker(
    end: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction in a partition."""
    builder = BatchBuilder()
    builder.add(_MARKER_KEY.pack(0, end.marker), _MARKER_VALUE.pack(0, end.coordinator_epoch), timestamp)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(record: Record) -> EndMarker | None:
    """The marker; None for a control record of another type, which readers skip."""
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        raise InvalidRecord(f"the control record at offset {record.offset} has no type in its key")
    _version, kind = _MARKER_KEY.unpack_from(record.key)
    if kind not in (Marker.ABORT, Marker.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise InvalidRecord(f"the transaction marker at offset {record.offset} has no coordinator epoch")
    _version, epoch = _MARKER_VALUE.unpack_from(record.value)
    return EndMarker(Marker(kind), epoch)


def recompress(
    batch: Buffer, codec: Codec, level: int | None = None, size_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The batch with its records compressed by another codec; all other header fields stay."""
    header = whole_batch(batch)
    plain = decompress(header.compression, memoryview(batch)[HEADER_SIZE : header.size], size_max)
    return replace_records(batch, compress(codec, plain, level), header.attributes & ~_CODEC_BITS | codec)


def whole_batch(batch: Buffer) -> Header:
    """The header of the one batch that `batch` holds."""
    header = header_at(batch)
    if header is None or header.size != memoryview(batch).nbytes:
        raise CorruptMessage("not one whole record batch: its length field and its bytes disagree")
    return header
