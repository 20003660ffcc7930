"""Codecs: round trips, other people's framings, bombs and damage."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys

import cramjam
import lz4.frame
import pytest
import zstandard

from tidelog.errors import InvalidRecord, UnsupportedCompressionType
from tidelog.record.codecs import LEVELS, Codec, codec_named, compress, decompress, level_for

TEXT = b"".join(b'{"id": %d, "name": "somebody"}' % number for number in range(5_000))
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000)], ids=["empty", "one", "text", "zeros"])
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    for form in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, form)) == data
    assert decompress(codec, memoryview(b"xx" + compress(codec, data))[2:]) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level_is_readable_and_the_extremes_differ(codec: Codec) -> None:
    low, high, default = LEVELS[codec]
    sizes = {}
    for level in (low, 1, 5, high, default):
        packed = compress(codec, TEXT, level)
        assert decompress(codec, packed) == TEXT
        sizes[level] = len(packed)
    assert sizes[high] < sizes[low] or codec is Codec.LZ4
    assert sizes[high] < len(compress(codec, TEXT))
    for level in (low - 3, high + 1):
        with pytest.raises(ValueError, match=codec.name.lower()):
            level_for(codec, level)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_at_the_bound(codec: Codec) -> None:
    data = bytes(1_000_000)
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    for size_max in (len(data) - 1, 70_000, 10, 0):
        with pytest.raises(InvalidRecord, match=str(size_max)):
            decompress(codec, packed, size_max)


BOMB = """
import resource, sys
from tidelog.errors import InvalidRecord
from tidelog.record.codecs import Codec, compress, decompress
codec = Codec[sys.argv[1]]
packed = b"".join(compress(codec, bytes(1 << 20)) for _ in range(400)) if codec is not Codec.LZ4 else None
if packed is None:
    import cramjam
    stream = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    for _ in range(400):
        stream.compress(bytes(1 << 20))
    packed = bytes(stream.finish())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, packed, 8 << 20)
except InvalidRecord:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_its_bound(codec: Codec) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMB, codec.name], capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 64 << 20, "400 MiB lie behind it"


@pytest.mark.parametrize("codec", PACKED)
def test_damage_is_an_invalid_record_and_nothing_else(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    cut = [packed[:size] for size in (0, 1, 3, 7, 15, 17, 21, len(packed) // 2, len(packed) - 1)]
    flipped = [
        packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :] for at in range(0, len(packed), 997)
    ]
    for damaged in [*cut, *flipped, b"\xff" * 50, bytes(50)]:
        try:
            decompress(codec, damaged, 1 << 20)
        except InvalidRecord:
            continue


def test_snappy_is_written_in_snappy_javas_stream_format() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    (size,) = struct.unpack_from(">i", packed, 16)
    first = bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size]))
    assert TEXT.startswith(first) and len(first) == 32 << 10


def test_snappy_is_read_raw_as_some_clients_send_it_and_in_joined_streams() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"a") + compress(Codec.SNAPPY, b"b")) == b"ab"


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_not_allocated_for() -> None:
    claim = b"\x80\x80\x80\x7f" + bytes(10)
    with pytest.raises(InvalidRecord, match="claim"):
        decompress(Codec.SNAPPY, claim)
    with pytest.raises(InvalidRecord, match="more than 1000"):
        decompress(Codec.SNAPPY, claim, 1000)


def test_lz4_blocks_are_independent_and_other_writers_frames_are_read() -> None:
    packed = compress(Codec.LZ4, TEXT)
    assert lz4.frame.get_frame_info(packed)["block_linked"] is False
    assert lz4.frame.decompress(packed) == TEXT
    for linked in (False, True):
        for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
            foreign = lz4.frame.compress(TEXT, block_linked=linked, block_size=size, content_checksum=True)
            assert decompress(Codec.LZ4, foreign) == TEXT


def test_zstd_and_gzip_of_other_writers_are_read() -> None:
    assert (
        zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, TEXT), max_output_size=1 << 20) == TEXT
    )
    assert decompress(Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)) == TEXT
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert decompress(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


def test_names_in_settings() -> None:
    assert [codec_named(name) for name in ("none", "uncompressed", "gzip", "snappy", "lz4", "zstd")] == [
        0,
        0,
        1,
        2,
        3,
        4,
    ]
    with pytest.raises(UnsupportedCompressionType, match="brotli"):
        codec_named("brotli")
    with pytest.raises(UnsupportedCompressionType, match="7"):
        decompress(7, b"")


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = "import sys, tidelog.record; print({'cramjam', 'zlib', 'mmap'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert "cramjam" not in done.stdout
