"""The native record loops against the plain ones, on good and on damaged bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import records as plain
from tidelog._speed.log import records as native
from tidelog._speed.log.batch import HEADER_SIZE, crc_ok, header_at
from tidelog._speed.log.writer import Writer
from tidelog.errors import InvalidRecord

INT64 = st.integers(-(2**62), 2**62 - 1)
DATA = st.none() | st.binary(max_size=40) | st.integers(0, 400).map(bytes)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8).map(str.encode)
HEADERS = st.lists(st.tuples(NAMES, DATA), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(plain.PlainRecord, INT64, st.integers(-(2**31), 2**31 - 1), DATA, DATA, HEADERS), max_size=12
)


def numbered(records: list[plain.PlainRecord]) -> list[plain.PlainRecord]:
    return [record._replace(offset_delta=place) for place, record in enumerate(records)]


def section_of(records: list[plain.PlainRecord]) -> bytes:
    return b"".join(plain.encode_record(record) for record in records)


def as_record(record: plain.PlainRecord, base_offset: int, base_timestamp: int) -> native.Record:
    return native.Record(
        base_offset + record.offset_delta,
        base_timestamp + record.timestamp_delta,
        record.key,
        record.value,
        [(name.decode(errors="replace"), value) for name, value in record.headers],
    )


@given(RECORDS, st.integers(0, 2**40), st.integers(0, 2**40))
def test_records_are_read_as_they_were_written(
    records: list[plain.PlainRecord], base_offset: int, base_timestamp: int
) -> None:
    found = native.read(section_of(records), len(records), base_offset, base_timestamp)
    assert found == [as_record(record, base_offset, base_timestamp) for record in records]


@given(RECORDS, st.integers(0, 2**40))
def test_log_append_time_stands_for_every_records_own(
    records: list[plain.PlainRecord], appended: int
) -> None:
    found = native.read(section_of(records), len(records), 0, 5, appended)
    assert {record.timestamp for record in found} <= {appended}


@given(RECORDS)
def test_columns_point_at_the_same_parts(records: list[plain.PlainRecord]) -> None:
    section = section_of(records)
    columns = native.columns(section, len(records), 100, 1000)
    for record, row in zip(records, zip(*columns, strict=True), strict=True):
        offset, timestamp, key, key_size, value, value_size, headers, header_count = row
        assert (offset, timestamp) == (100 + record.offset_delta, 1000 + record.timestamp_delta)
        assert record.key == (None if key_size < 0 else section[key : key + key_size])
        assert record.value == (None if value_size < 0 else section[value : value + value_size])
        assert native.headers_at(section, headers, header_count) == as_record(record, 0, 0).headers


@given(RECORDS.filter(bool), st.booleans())
def test_check_gives_the_plain_verdict(records: list[plain.PlainRecord], keys_required: bool) -> None:
    for section in (section_of(records), section_of(numbered(records))):
        same_verdict(section, len(records), keys_required)


def same_verdict(section: bytes, count: int, keys_required: bool) -> None:
    try:
        expected = plain.check_records(section, count, keys_required)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            native.check(section, count, keys_required)
    else:
        assert native.check(section, count, keys_required) == expected


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    records = numbered(draw(RECORDS.filter(bool)))
    section = bytearray(section_of(records))
    count = len(records) + draw(st.sampled_from([0, 0, 0, 1, -1]))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(section)))
        match draw(st.sampled_from(["set", "cut", "insert", "remove"])):
            case "set" if place < len(section):
                section[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "cut":
                del section[place:]
            case "insert":
                section[place:place] = draw(st.binary(min_size=1, max_size=6))
            case "remove":
                del section[place : place + draw(st.integers(1, 5))]
    return bytes(section), count


@settings(max_examples=500)
@given(damaged() | st.tuples(st.binary(max_size=60), st.integers(-2, 9)), st.booleans())
def test_damage_is_found_exactly_where_plain_code_finds_it(
    broken: tuple[bytes, int], keys_required: bool
) -> None:
    section, count = broken
    same_verdict(section, count, keys_required)
    try:
        expected = plain.decode_records(section, count) if count >= 0 else None
    except InvalidRecord:
        expected = None
    if expected is None:
        with pytest.raises(InvalidRecord):
            native.read(section, count, 0, 0)
        with pytest.raises(InvalidRecord):
            native.columns(section, count, 0, 0)
    else:
        assert len(native.read(section, count, 0, 0)) == len(expected)


@given(RECORDS.filter(bool), st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_written_batch_is_the_plain_one_byte_for_byte(
    records: list[plain.PlainRecord], base_offset: int, first_timestamp: int
) -> None:
    records = numbered(records)
    records[0] = records[0]._replace(timestamp_delta=0)
    writer = Writer()
    for record in records:
        headers = [(name.decode(), value) for name, value in record.headers]
        assert writer.add(record.key, record.value, first_timestamp + record.timestamp_delta, headers)
    batch = writer.seal(0x10, base_offset, 7, 99, 3, 11)
    assert batch == plain.encode_batch(
        records, first_timestamp, attributes=0x10, base_offset=base_offset, epoch=7, producer=(99, 3, 11)
    )
    assert len(batch) == writer.size
    assert crc_ok(batch)
    header = header_at(batch)
    assert header is not None and header.count == len(records)
    assert native.check(memoryview(batch)[HEADER_SIZE:], header.count, False)
