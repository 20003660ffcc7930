"""Record batches: building, reading, compression.  The broker mostly passes batches on as bytes: `_speed.batch`."""

from tidelog._speed.log.batch import HEADER_SIZE, Header
from tidelog._speed.log.records import BadRecord, Record
from tidelog.record.builder import (
    BatchBuilder,
    EndMarker,
    Marker,
    build_batch,
    build_marker,
    read_marker,
    recompress,
)
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, Codec, codec_named, compress, decompress
from tidelog.record.reader import Batch, read_batches, read_records

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "HEADER_SIZE",
    "BadRecord",
    "Batch",
    "BatchBuilder",
    "Codec",
    "EndMarker",
    "Header",
    "Marker",
    "Record",
    "build_batch",
    "build_marker",
    "codec_named",
    "compress",
    "decompress",
    "read_batches",
    "read_marker",
    "read_records",
    "recompress",
]
