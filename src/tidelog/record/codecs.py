"""Compression of a batch's records section, in the framings that Kafka's clients read and write.

`decompress` never holds more than `size_max` bytes of output, whatever the input claims.  The libraries are
imported on first use: a broker that only passes batches on loads none of them.  lz4, which most use, has a native
module of its own for what clients send.
"""

from __future__ import annotations

import struct
import threading
from enum import IntEnum
from typing import TYPE_CHECKING

from tidelog._speed.log import lz4
from tidelog.errors import InvalidRecord, UnsupportedCompressionType

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Kafka's own brokers set no bound; this is far above what a batch of `max.message.bytes` holds in practice.
DECOMPRESSED_BYTES_MAX = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read it
_XERIAL_BLOCK_BYTES = 32 << 10
_INT32 = struct.Struct(">i")
_PIECE_BYTES = 16 << 20
_GZIP_WINDOW = 31  # the largest window, with gzip's header and trailer
_LZ4_HIGH_MIN, _LZ4_HIGH_MAX = 3, 12


class Codec(IntEnum):
    """The three lowest bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Per codec: lowest, highest and default level, as in the settings `compression.<codec>.level`.
LEVELS = {Codec.GZIP: (1, 9, -1), Codec.LZ4: (1, 17, 9), Codec.ZSTD: (-131072, 22, 3)}


def codec_named(name: str) -> Codec:
    """The codec of a name in settings; clients use `none`, and topics `uncompressed`."""
    plain = "NONE" if name.lower() == "uncompressed" else name.upper()
    try:
        return Codec[plain]
    except KeyError:
        raise UnsupportedCompressionType(
            f"no compression type {name!r}: use none, gzip, snappy, lz4 or zstd"
        ) from None


def level_for(codec: Codec, level: int | None) -> int:
    """The level to use: `level`, or the codec's default for None; raises ValueError if the codec has no such level."""
    if codec not in LEVELS:
        return 0
    low, high, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not low <= level <= high:
        raise ValueError(f"{codec.name.lower()} has levels {low} to {high}, not {level}")
    return level


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes | memoryview:
    """`data` in the codec's framing; `level` counts only for gzip, lz4 and zstd."""
    match _known(codec):
        case Codec.GZIP:
            return _gzip(data, level_for(Codec.GZIP, level))
        case Codec.SNAPPY:
            return _snappy(data)
        case Codec.LZ4:
            return _lz4(data, level_for(Codec.LZ4, level))
        case Codec.ZSTD:
            import cramjam

            return bytes(cramjam.zstd.compress(data, level=level_for(Codec.ZSTD, level)))
        case Codec.NONE:
            return bytes(data)


class ExpandsFurther(InvalidRecord):
    """The data expand to more than `size_max` bytes; decompression stopped there, so later damage may be unnoticed."""


def decompress(codec: int, data: Buffer, size_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | memoryview:
    """The decompressed records; raises InvalidRecord if `data` is damaged, ExpandsFurther if the result is larger than
    `size_max` bytes.  Other threads can run while it works."""
    match _known(codec):
        case Codec.GZIP:
            return _gunzip(memoryview(data), size_max)
        case Codec.SNAPPY:
            return _unsnappy(memoryview(data), size_max)
        case Codec.LZ4:
            plain = lz4.read_frame(data, size_max)
            # The library reads unusual frames, and explains what is wrong with damaged ones.
            return _expand(Codec.LZ4, data, size_max) if plain is None else plain
        case Codec.ZSTD:
            return _expand(Codec.ZSTD, data, size_max)
        case Codec.NONE:
            if memoryview(data).nbytes > size_max:
                raise _too_large(Codec.NONE, size_max)
            return bytes(data)


def _known(codec: int) -> Codec:
    try:
        return Codec(codec)
    except ValueError:
        raise UnsupportedCompressionType(f"compression type {codec} is not one of 0 to 4") from None


def _too_large(codec: Codec, size_max: int) -> ExpandsFurther:
    return ExpandsFurther(
        f"{codec.name.lower()} records expand to more than {size_max} bytes: send smaller batches"
    )


def _damaged(codec: Codec, why: object) -> InvalidRecord:
    return InvalidRecord(f"these are not {codec.name.lower()} data: {why}")


def _gzip(data: Buffer, level: int) -> bytes:
    import zlib

    stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    return stream.compress(data) + stream.flush()


def _gunzip(data: memoryview, size_max: int) -> bytes | memoryview:
    import zlib

    pieces: list[bytes] = []
    bytes_left = size_max
    rest: Buffer = data
    try:
        while rest:
            stream = zlib.decompressobj(_GZIP_WINDOW)
            while not stream.eof:
                # Piece by piece: a large result is put together without holding up other threads for long.
                piece = stream.decompress(rest, min(bytes_left + 1, _PIECE_BYTES))
                rest = stream.unconsumed_tail
                bytes_left -= len(piece)
                if bytes_left < 0:
                    raise _too_large(Codec.GZIP, size_max)
                if not piece and not rest and not stream.eof:
                    raise _damaged(Codec.GZIP, "the end is missing")
                pieces.append(piece)
            rest = stream.unused_data
    except zlib.error as problem:
        raise _damaged(Codec.GZIP, problem) from None
    if not pieces:
        raise _damaged(Codec.GZIP, "the end is missing")
    return _joined(pieces, size_max - bytes_left)


def _joined(pieces: list[bytes], size: int) -> bytes | memoryview:
    if size <= _PIECE_BYTES:
        return b"".join(pieces)
    pages, at = _pages(size), 0
    for piece in pieces:
        pages[at : at + len(piece)] = piece
        at += len(piece)
    return pages


def _pages(size: int) -> memoryview:
    """Memory whose pages are allocated when they are touched, and freed with the view."""
    import mmap

    return memoryview(mmap.mmap(-1, size))


def _snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data).cast("B")
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _unsnappy(data: memoryview, size_max: int) -> bytes | memoryview:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, size_max, size_max)
    parts = []
    bytes_left = size_max
    at = 0
    while at < len(data):
        if data[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)  # another stream may follow the first
            continue
        if len(data) - at < _INT32.size:
            raise _damaged(Codec.SNAPPY, "a block's length is cut")
        (size,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if not 0 <= size <= len(data) - at:
            raise _damaged(Codec.SNAPPY, f"a block of {size} bytes with {len(data) - at} left")
        parts.append(_unsnappy_block(data[at : at + size], bytes_left, size_max))
        bytes_left -= len(parts[-1])
        at += size
    return _joined(parts, size_max - bytes_left)


def _unsnappy_block(data: memoryview, bytes_left: int, size_max: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > bytes_left:
            raise _too_large(Codec.SNAPPY, size_max)
        # Snappy expands 3 bytes to 64 at best: memory for a larger claim must not be allocated.
        if size > 24 * len(data):
            raise _damaged(Codec.SNAPPY, f"{len(data)} bytes cannot hold the {size} they claim")
        plain = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(data, plain)
    except cramjam.DecompressionError as problem:
        raise _damaged(Codec.SNAPPY, problem) from None
    return bytes(plain) if written == size else bytes(plain[:written])


def _lz4(data: Buffer, level: int) -> bytes | memoryview:
    # Kafka's default level means the fast compressor, any other one the thorough one.
    if level == LEVELS[Codec.LZ4][2]:
        return lz4.write_frame(data)
    import cramjam

    stream = cramjam.lz4.Compressor(
        level=min(max(level, _LZ4_HIGH_MIN), _LZ4_HIGH_MAX),
        content_checksum=False,
        block_linked=False,  # Java's reader refuses blocks that depend on each other
    )
    stream.compress(bytes(data))
    return bytes(stream.finish())


# One buffer for each thread, kept: filling a new one with zeros took a good part of the decompression time.
_scratch = threading.local()
_SCRATCH_BYTES_MAX = 4 << 20
_NO_ROOM = "failed to write whole buffer"  # the library's message when the output does not fit


def _room(size: int) -> memoryview:
    kept: bytearray = getattr(_scratch, "kept", bytearray())
    if len(kept) < size:
        kept = _scratch.kept = bytearray(min(2 * size, _SCRATCH_BYTES_MAX))
    return memoryview(kept)[:size]


def _expand(codec: Codec, data: Buffer, size_max: int) -> bytes | memoryview:
    """Decompresses into a buffer of a likely size, then into a mapping of `size_max`, whose pages come when touched."""
    import cramjam

    into = (cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd).decompress_into
    likely = min(max(8 * memoryview(data).nbytes, 64 << 10), size_max, _SCRATCH_BYTES_MAX)
    plain = _room(likely)
    try:
        written: int = into(data, plain)
        return bytes(plain[:written])
    except cramjam.DecompressionError as problem:
        if _NO_ROOM not in str(problem):
            raise _damaged(codec, problem) from None
        if likely == size_max:
            raise _too_large(codec, size_max) from None
    pages = _pages(size_max)
    try:
        written = into(data, pages)
    except cramjam.DecompressionError as problem:
        if _NO_ROOM in str(problem):
            raise _too_large(codec, size_max) from None
        raise _damaged(codec, problem) from None
    return pages[:written]
