from __future__ import annotations

import pytest

from tidelog.wire import primitives
from tidelog.wire.primitives import Malformed, Unencodable


def read(data: bytes) -> tuple[int, int]:
    return primitives.uvarint(data, 1, data[0])


@pytest.mark.parametrize("value", [128, 300, 16_383, 16_384, 2**28 - 1, 2**28, 2**31 - 1, 2**32 - 1])
def test_a_varint_comes_back_from_its_bytes(value: int) -> None:
    out = bytearray()
    primitives.put_uvarint(out, value)
    assert read(bytes(out) + b"rest") == (value, len(out))


@pytest.mark.parametrize("value", [0, 1, 127])
def test_a_small_varint_is_one_byte(value: int) -> None:
    out = bytearray()
    primitives.put_uvarint(out, value)
    assert out == bytes([value])


@pytest.mark.parametrize(
    "data", [b"\x80", b"\xff\xff\xff", b"\xff" * 5, b"\xff" * 9, b"\xff\xff\xff\xff\x10"]
)
def test_a_varint_cut_off_or_beyond_32_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


def test_a_string_longer_than_the_protocol_allows_is_refused_both_ways() -> None:
    out = bytearray()
    primitives.put_string_size(out, 32_767)
    assert primitives.string_size(bytes(out), 1, out[0]) == (32_768, 3)
    with pytest.raises(Unencodable, match="32768 bytes"):
        primitives.put_string_size(out, 32_768)
    longer = bytearray()
    primitives.put_uvarint(longer, 32_769)
    with pytest.raises(Malformed, match="32768 bytes"):
        primitives.string_size(bytes(longer), 1, longer[0])


def test_records_stay_where_they_are_only_in_memory_that_nobody_writes_into() -> None:
    memory = bytearray(b"header" + bytes(100))
    fixed = memoryview(memory).toreadonly()
    assert isinstance(primitives.records_of(fixed, 6, 106), memoryview)
    # A small part must not keep the whole, and what is written into again must be copied.
    assert isinstance(primitives.records_of(fixed, 6, 40), bytes)
    assert isinstance(primitives.records_of(memoryview(memory), 6, 106), bytes)
    assert isinstance(primitives.records_of(bytes(memory), 6, 106), bytes)
    assert primitives.records_of(fixed, 6, 106) == bytes(100)
