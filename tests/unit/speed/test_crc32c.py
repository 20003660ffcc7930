"""CRC-32C: published vectors, and both loops against a bit-by-bit oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.crc import crc32c_by_bits
from tidelog._speed.log.crc32c import crc32c, crc32c_portable

# RFC 3720, appendix B.4, and the usual check value.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == crc32c_portable(data) == expected


@given(st.binary(max_size=300), st.integers(0, 300))
def test_both_loops_agree_with_the_oracle_from_any_split(data: bytes, split: int) -> None:
    whole = crc32c_by_bits(data)
    assert crc32c(data) == crc32c_portable(data) == whole
    assert crc32c(data[split:], crc32c(data[:split])) == whole


@pytest.mark.parametrize("size", [767, 768, 769, 12_287, 12_288, 12_289, 40_000])
def test_the_joins_of_the_three_streams(size: int) -> None:
    data = bytes((at * 37 + (at >> 8)) & 0xFF for at in range(size))
    assert crc32c(data) == crc32c_portable(data)


def test_a_view_is_not_copied_to_be_read() -> None:
    data = bytearray(b"xx123456789yy")
    assert crc32c(memoryview(data)[2:-2]) == 0xE3069283
