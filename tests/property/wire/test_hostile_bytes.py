"""Whatever bytes arrive, decoding ends soon, allocates little, and fails with `Malformed` or not at all."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.wire.examples import CASES, class_of, make, short
from tests.property.wire.reference import uvarint
from tidelog import errors
from tidelog.wire import frame
from tidelog.wire.primitives import Malformed
from tools.wire.schema import Message

HOSTILE = [
    struct.pack(">i", 0x7FFFFFFF),
    struct.pack(">i", -2),
    struct.pack(">h", 0x7FFF),
    struct.pack(">h", -2),
    uvarint(0x7FFFFFFF),
    uvarint(0xFFFFFFFF),
    b"\xff" * 6,
    b"\0",
]
MEMORY_MAX = 1 << 20


def decoded(message: Message, data: bytes, version: int) -> bool:
    """Whether the bytes were a message; any other exception than `Malformed` is a failure of the test."""
    try:
        class_of(message).decode(data, version)
    except Malformed:
        return False
    return True


@pytest.mark.parametrize("part", range(4))
def test_a_message_cut_off_at_any_byte_is_malformed(part: int) -> None:
    for message, version in CASES[part::4]:
        made = make(Random(f"cut {message.name} {version}"), message, version, short)
        data = made.encode(version)
        assert decoded(message, data, version)
        for end in range(len(data)):
            assert not decoded(message, data[:end], version), f"{message.name} version {version} cut at {end}"


def test_bytes_after_a_message_are_malformed() -> None:
    for message, version in CASES:
        data = class_of(message)().encode(version)
        assert not decoded(message, data + b"\0", version), f"{message.name} version {version}"


@pytest.mark.parametrize("part", range(4))
def test_a_hostile_number_anywhere_allocates_little(part: int) -> None:
    edges = [(m, v) for m, v in CASES if v in (m.versions.high, m.flexible.low - 1)]
    tracemalloc.start()
    try:
        for message, version in edges[part::4]:
            made = make(Random(f"hostile {message.name} {version}"), message, version, short)
            data = made.encode(version)
            for at in range(len(data)):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                for number in HOSTILE[at % 2 :: 2]:
                    decoded(message, data[:at] + number + data[at + len(number) :], version)
                    decoded(message, data[:at] + number + data[at:], version)
                peak = tracemalloc.get_traced_memory()[1] - before
                assert peak < MEMORY_MAX, f"{message.name} version {version} at {at}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fill", [b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff"])
def test_a_run_of_one_byte_is_malformed_or_a_message(fill: bytes) -> None:
    for message, version in CASES:
        for size in (0, 1, 3, 64, 4096):
            decoded(message, fill * size, version)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CASES), st.binary(max_size=200))
def test_random_bytes_are_malformed_or_a_message(case: tuple[Message, int], data: bytes) -> None:
    message, version = case
    if decoded(message, data, version):
        class_of(message).decode(data, version).encode(version)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False), st.data())
def test_a_changed_byte_is_malformed_or_a_message(
    case: tuple[Message, int], random: Random, data: st.DataObject
) -> None:
    message, version = case
    good = bytearray(make(random, message, version, short).encode(version))
    for _ in range(min(len(good), 3)):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    decoded(message, bytes(good), version)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 92), st.integers(0, 20))
def test_random_headers_are_malformed_or_headers(data: bytes, key: int, version: int) -> None:
    for start in (data, struct.pack(">hh", key, version) + data):
        try:
            _, at = frame.decode_request_header(start)
        except errors.InvalidRequest:
            continue
        assert at <= len(start)
