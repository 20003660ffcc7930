"""What records expect of their partition, from their headers."""

from __future__ import annotations

import pytest

from tidelog._speed.log.batch import HEADER_SIZE
from tidelog._speed.log.records import Record
from tidelog.errors import InvalidRecord
from tidelog.record.builder import build_batch
from tidelog.record.conditions import (
    EXPECTED_END,
    EXPECTED_VERSION,
    KEY_BYTES_MAX,
    Expectation,
    expectations,
    key_name,
)
from tidelog.record.reader import read_batches


def expected_by(*records: Record) -> list[Expectation]:
    data = build_batch(list(records))
    (batch,) = read_batches(data)
    return expectations(memoryview(data)[HEADER_SIZE:], batch.header.count)


def test_headers_say_what_a_record_expects() -> None:
    first = Record(0, 0, b"a", b"1", [("other", b"9"), (EXPECTED_VERSION, b"-1")])
    second = Record(1, 0, b"a", None, [(EXPECTED_END, b"17"), (EXPECTED_VERSION, b"0")])
    third = Record(2, 0, None, b"3")
    assert expected_by(first, second, third) == [
        Expectation(b"a", False, -1, None),
        Expectation(b"a", True, 0, 17),
        Expectation(None, False, None, None),
    ]


@pytest.mark.parametrize(
    "value", [None, b"", b"-", b"--1", b"-2", b"1.0", b" 1", b"x", b"9" * 20, "١".encode()]
)
@pytest.mark.parametrize("name", [EXPECTED_VERSION, EXPECTED_END])
def test_what_is_no_offset_is_refused(name: str, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match=f"record 0 of the batch: {name} must be an offset"):
        expected_by(Record(0, 0, b"a", b"1", [(name, value)]))


def test_a_version_needs_a_key() -> None:
    with pytest.raises(InvalidRecord, match="is the version of a key, and the record has none"):
        expected_by(Record(0, 0, None, b"1", [(EXPECTED_VERSION, b"1")]))


def test_long_keys_are_kept_short() -> None:
    assert key_name(b"k" * KEY_BYTES_MAX) == b"k" * KEY_BYTES_MAX
    long = key_name(b"k" * 1000)
    assert len(long) < KEY_BYTES_MAX and long != key_name(b"k" * 1001)
