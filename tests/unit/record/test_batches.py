"""Batches built, read, recompressed; control batches; and the parsers of other people's clients as judges."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import kafka.record.memory_records as kafka_python_memory
import pytest

from tidelog._speed.log.batch import crc_ok, header_at, stamp_append_time
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from tidelog.record import (
    HEADER_SIZE,
    BadRecord,
    BatchBuilder,
    Codec,
    EndMarker,
    Marker,
    Record,
    build_batch,
    build_marker,
    read_batches,
    read_marker,
    read_records,
    recompress,
)

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_005, None, b"no key", [("trace", b"\x01\x02"), ("empty", b""), ("null", None)]),
    Record(2, 1_699_999_999_990, b"tombstone", None),
    Record(3, 1_700_000_000_005, b"", b"", [("größe", b"x" * 300)]),
    *[Record(4 + n, 1_700_000_001_000 + n, b"k%d" % n, b"some value " * 20) for n in range(300)],
]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_gives_back_its_records(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    assert list(read_records(batch)) == RECORDS
    header = header_at(batch)
    assert header is not None
    assert (header.compression, header.count, header.last_offset) == (codec, len(RECORDS), len(RECORDS) - 1)
    assert header.base_timestamp == RECORDS[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in RECORDS)


def test_header_fields_are_what_was_asked_for() -> None:
    batch = build_batch(
        RECORDS,
        base_offset=70,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=31,
        transactional=True,
    )
    header = header_at(batch)
    assert header is not None
    assert (header.base_offset, header.leader_epoch) == (70, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 31)
    assert header.transactional and not header.control and not header.log_append_time


@pytest.mark.parametrize("first", Codec)
@pytest.mark.parametrize("second", Codec)
def test_recompression_changes_the_codec_and_nothing_else(first: Codec, second: Codec) -> None:
    batch = build_batch(RECORDS, codec=first, base_offset=70, leader_epoch=4, producer_id=9, producer_epoch=2)
    other = recompress(batch, second)
    before, after = header_at(batch), header_at(other)
    assert before is not None and after is not None
    assert crc_ok(other) and after.compression == second and after.size == len(other)
    for field in (
        "base_offset",
        "leader_epoch",
        "last_offset",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
    ):
        assert getattr(after, field) == getattr(before, field)
    assert list(read_records(other)) == list(read_records(batch))
    if second is Codec.NONE:
        assert other == recompress(
            build_batch(RECORDS, base_offset=70, leader_epoch=4, producer_id=9, producer_epoch=2), Codec.NONE
        )


def test_recompression_refuses_what_is_not_one_whole_batch() -> None:
    batch = build_batch(RECORDS)
    for wrong in (b"", batch[:40], batch[:-1], batch + b"x"):
        with pytest.raises(CorruptMessage):
            recompress(wrong, Codec.ZSTD)


def test_a_builder_says_when_it_is_full_and_always_takes_one_record() -> None:
    builder = BatchBuilder(size_max=300)
    assert builder.add(None, b"x" * 1000, 1), "a record larger than the limit goes alone"
    assert not builder.add(None, b"", 2)
    assert len(builder) == 1
    builder.clear()
    taken = 0
    while builder.add(None, b"x" * 50, taken):
        taken += 1
    assert taken == len(builder) == builder.count > 2
    assert builder.size <= 300 < builder.size + 60
    assert len(builder.build()) == builder.size
    assert len(list(read_records(builder.build()))) == taken


def test_a_cleared_builder_forgets_timestamps() -> None:
    builder = BatchBuilder()
    builder.add(b"a", b"1", 5_000)
    builder.clear()
    builder.add(b"b", b"2", 1_000)
    assert list(read_records(builder.build())) == [Record(0, 1_000, b"b", b"2")]
    assert builder.max_timestamp == 1_000


def test_keys_and_values_are_buffers_and_headers_pairs_or_a_mapping() -> None:
    builder = BatchBuilder()
    builder.add(bytearray(b"k"), memoryview(b"xvx")[1:2], 1, {"a": b"1"})
    assert list(read_records(builder.build())) == [Record(0, 1, b"k", b"v", [("a", b"1")])]
    for wrong in ("text", 5):
        with pytest.raises(TypeError):
            builder.add(wrong, b"", 1)  # type: ignore[arg-type]
    assert len(builder) == 1


def test_limits_of_a_builder() -> None:
    with pytest.raises(InvalidRecord, match="at least one"):
        BatchBuilder().build()
    with pytest.raises(ValueError, match="61"):
        BatchBuilder(size_max=10)
    builder = BatchBuilder()
    with memoryview(builder) as view:
        assert bytes(view) == b""
        with pytest.raises(BufferError):
            builder.add(b"k" * 5000, b"", 1)
    with pytest.raises(MessageTooLarge):
        builder.add(bytes(2**31 - 50), None, 1)


def test_reading_stops_before_a_cut_batch_and_starts_at_an_offset() -> None:
    data = build_batch(RECORDS[:3]) + build_batch(RECORDS[:4], base_offset=3, codec=Codec.LZ4)
    assert [record.offset for record in read_records(data)] == [0, 1, 2, 3, 4, 5, 6]
    assert [record.offset for record in read_records(data, 5)] == [5, 6]
    for cut in (1, 60, 61, 100):
        assert [record.offset for record in read_records(data[: len(build_batch(RECORDS[:3])) + cut])] == [
            0,
            1,
            2,
        ]
    assert list(read_records(b"")) == []


def test_log_append_time_is_every_records_time() -> None:
    batch = bytearray(build_batch(RECORDS))
    stamp_append_time(batch, 0, 42)
    assert {record.timestamp for record in read_records(batch)} == {42}


def test_batches_that_cannot_be_trusted_are_refused() -> None:
    good = build_batch(RECORDS[:2])
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(CorruptMessage, match="checksum"):
        list(read_batches(good + flipped))
    assert len(list(read_batches(good + flipped, check_crc=False))) == 2
    with pytest.raises(CorruptMessage, match="impossible"):
        list(read_batches(good[:8] + b"\0\0\0\1" + good[12:]))
    with pytest.raises(InvalidRecord, match="format 1"):
        list(read_batches(good[:16] + b"\1" + good[17:]))


def test_a_bad_record_is_named_by_its_place() -> None:
    from tidelog._speed.log.records import check

    section = build_batch(RECORDS[:2])[HEADER_SIZE:]
    with pytest.raises(BadRecord, match="record 1 of 2 has no key") as caught:
        check(section, 2, True)
    assert caught.value.index == 1
    for count in (0, -1, 2**31 - 1):
        with pytest.raises(BadRecord, match="cannot hold"):
            check(section, count, False)


@pytest.mark.parametrize("marker", Marker)
def test_control_batches_carry_the_end_of_a_transaction(marker: Marker) -> None:
    batch = build_marker(EndMarker(marker, 12), producer_id=8, producer_epoch=1, timestamp=77)
    (read,) = read_batches(batch)
    assert read.header.control and read.header.transactional and read.header.base_sequence == -1
    (record,) = read.records()
    assert read_marker(record) == EndMarker(marker, 12)
    assert list(read_records(batch)) == [], "applications never see them"
    theirs = next(iter(kafka_python_memory.MemoryRecords(batch).next_batch()))
    assert (theirs.commit, theirs.abort) == (marker is Marker.COMMIT, marker is Marker.ABORT)


def test_other_control_records_are_skipped_and_broken_ones_refused() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\5", b"")) is None
    for key, value in ((b"", b""), (None, None), (b"\0\0\0\1", b"\0\0")):
        with pytest.raises(InvalidRecord):
            read_marker(Record(0, 0, key, value))


def test_records_are_values() -> None:
    record = RECORDS[1]
    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(record) == hash(Record(1, record.timestamp, None, b"no key", record.headers))
    assert record != RECORDS[0] and record != "record"
    match record:
        case Record(offset, _, None, value, _):
            assert (offset, value) == (1, b"no key")
    assert "no key" in repr(record)


# kafka-python needs python-snappy for snappy, which is not a dependency; aiokafka has the same frames.
BUILDERS: list[tuple[Callable[..., Any], Codec]] = [
    (aiokafka_records._DefaultRecordBatchBuilderPy, codec) for codec in Codec
] + [(kafka_python_records.DefaultRecordBatchBuilder, codec) for codec in Codec if codec is not Codec.SNAPPY]
READERS: list[tuple[Callable[..., Any], Codec]] = [
    (aiokafka_records._DefaultRecordBatchPy, codec) for codec in Codec
] + [(kafka_python_records.DefaultRecordBatch, codec) for codec in Codec if codec is not Codec.SNAPPY]


def as_ours(records: Iterable[Any]) -> list[Record]:
    return [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


@pytest.mark.parametrize(("reader", "codec"), READERS)
def test_other_clients_read_our_batches(reader: Callable[..., Any], codec: Codec) -> None:
    batch = reader(bytearray(build_batch(RECORDS, codec=codec)))
    assert batch.validate_crc()
    assert as_ours(batch) == RECORDS


@pytest.mark.parametrize(("builder", "codec"), BUILDERS)
def test_we_read_other_clients_batches(builder: Callable[..., Any], codec: Codec) -> None:
    theirs = builder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    (batch,) = read_batches(bytes(theirs.build()))
    assert batch.header.compression == codec
    assert batch.records() == RECORDS
