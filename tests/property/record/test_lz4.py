"""LZ4 frames of our own against the library's: each reads what the other writes, and damage is never followed."""

from __future__ import annotations

from typing import Any

import cramjam
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidelog._speed.log.lz4 import read_frame, write_frame

SIZE_MAX = 4 << 20

# Repeats near and far, runs of one byte, noise: what sequences of a block are made of.
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 400)).map(lambda one: one[0] * one[1]),
        st.integers(0, 70_000).map(bytes),
        st.randoms(use_true_random=False).map(lambda random: random.randbytes(3_000)),
    ),
    max_size=12,
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    pieces = draw(PIECES)
    order = draw(st.lists(st.integers(0, max(0, len(pieces) - 1)), max_size=20)) if pieces else []
    return b"".join(pieces) + b"".join(pieces[at] for at in order)


@given(texts())
@example(b"")
@example(b"x" * 12)
@example(b"x" * 13)
@example(bytes(600_000))
@settings(deadline=None, max_examples=200)
def test_the_library_reads_what_is_written_and_so_does_this(data: bytes) -> None:
    frame = write_frame(data)
    assert bytes(cramjam.lz4.decompress(bytes(frame))) == data
    assert read_frame(frame, SIZE_MAX) == data
    assert len(frame) <= len(data) + 4 * (len(data) // (256 << 10) + 1) + 11


@given(texts(), st.booleans(), st.booleans(), st.sampled_from([1, 4, 12]))
@settings(deadline=None, max_examples=150)
def test_what_the_library_writes_is_read(data: bytes, checked: bool, linked: bool, level: int) -> None:
    stream: Any = cramjam.lz4.Compressor(level=level, content_checksum=checked, block_linked=linked)
    stream.compress(data)
    assert read_frame(bytes(stream.finish()), SIZE_MAX) == data
    # This one says the size of the content in its descriptor.
    assert read_frame(bytes(cramjam.lz4.compress(data)), SIZE_MAX) == data


@given(texts(), st.data())
@settings(deadline=None, max_examples=400)
def test_damage_is_left_to_the_library(data: bytes, draw: st.DataObject) -> None:
    frame = bytearray(write_frame(data))
    for _ in range(draw.draw(st.integers(1, 4))):
        frame[draw.draw(st.integers(0, len(frame) - 1))] = draw.draw(st.integers(0, 255))
    frame = frame[: draw.draw(st.integers(0, len(frame)))] if draw.draw(st.booleans()) else frame
    found = read_frame(frame, SIZE_MAX)
    if found is not None:
        try:
            expected = bytes(cramjam.lz4.decompress(bytes(frame)))
        except cramjam.DecompressionError:
            return  # It is stricter about how a block may end.
        assert found == expected


@pytest.mark.parametrize("size", [1, 1_000, 300_000])
def test_more_than_is_allowed_is_not_made(size: int) -> None:
    frame = write_frame(bytes(size))
    assert read_frame(frame, size) == bytes(size)
    assert read_frame(frame, size - 1) is None


@pytest.mark.parametrize(
    "tail", [b"\x00", b"\x04\x22\x4d\x18", b"\xff" * 7], ids=["a byte", "another frame's start", "noise"]
)
def test_what_follows_the_end_is_not_passed_over(tail: bytes) -> None:
    assert read_frame(bytes(write_frame(b"abc" * 100)) + tail, SIZE_MAX) is None


def test_text_is_made_smaller() -> None:
    lines = b"".join(b'{"id": %d, "state": "paid", "amount": %d}\n' % (at, at * 7) for at in range(5_000))
    assert len(write_frame(lines)) < 0.35 * len(lines)
