"""Records as Arrow columns, there and back, against plain Python, on good and on damaged bytes."""

from __future__ import annotations

import uuid
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from tests.reference import columns as plain  # noqa: E402
from tidelog._speed.client.intake import Intake, Lane, Memory, TopicLanes, murmur2  # noqa: E402
from tidelog._speed.log.batch import stamp_append_time  # noqa: E402
from tidelog._speed.log.pooled_buffer import PooledBuffer  # noqa: E402
from tidelog.client.cluster.topology import Partition, Topic  # noqa: E402
from tidelog.client.producer.batch import NO_STAMP, OutgoingBatch  # noqa: E402
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompressionType  # noqa: E402
from tidelog.record import Codec, EndMarker, Marker, Record, build_batch, build_marker, read_records  # noqa: E402
from tidelog.record.columns import RecordColumns, rows_of, schema  # noqa: E402
from tidelog.types import TopicPartition  # noqa: E402

DATA = st.none() | st.binary(max_size=30) | st.integers(0, 300).map(bytes)
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
HEADERS = st.lists(st.tuples(NAMES, DATA), max_size=3).map(tuple)
# Within what a timestamp of Python can show.
TIMES = st.integers(0, 253_000_000_000_000)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMES, DATA, DATA, HEADERS), min_size=1, max_size=8)


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], int]:
    """The bytes of a partition with transactions of three producers, what was aborted, and the end offset."""
    data, offset, aborted = b"", draw(st.integers(0, 1_000)), []
    begun: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 8))):
        producer = draw(st.integers(1, 3))
        if producer in begun and draw(st.booleans()):
            marker = draw(st.sampled_from(Marker))
            if marker is Marker.ABORT:
                aborted.append((producer, begun[producer]))
            del begun[producer]
            end = EndMarker(marker, 0)
            data += build_marker(end, producer_id=producer, producer_epoch=0, timestamp=5, base_offset=offset)
            offset += 1
            continue
        records, transactional = draw(RECORDS), draw(st.booleans())
        batch = bytearray(
            build_batch(
                records,
                codec=draw(st.sampled_from(Codec)),
                base_offset=offset,
                producer_id=producer if transactional else -1,
                transactional=transactional,
            )
        )
        if transactional:
            begun.setdefault(producer, offset)
        if draw(st.booleans()):
            stamp_append_time(batch, 0, draw(TIMES))
        data += bytes(batch)
        offset += len(records)
    return data, aborted, offset


def pylist(batch: Any) -> list[dict[str, Any]]:
    batch.validate(full=True)
    at = batch.schema.get_field_index("timestamp")
    return batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64())).to_pylist()


@given(logs(), st.integers(0, 1_010), st.integers(0, 200))
@settings(deadline=None)
def test_columns_are_what_plain_reading_finds(
    log: tuple[bytes, list[tuple[int, int]], int], start: int, cut: int
) -> None:
    data, aborted, _ = log
    data = data[: len(data) - cut] if cut < len(data) else data
    columns = RecordColumns()
    first, position = plain.rows_of("orders", 3, data, start, aborted)
    assert columns.add("orders", 3, data, start, aborted) == position
    second, _ = plain.rows_of("other", 0, data, 0, [])
    columns.add("other", 0, data)
    batch = columns.record_batch()
    assert batch.schema.equals(schema())
    assert pylist(batch) == first + second


def in_a_room(data: bytes) -> memoryview:
    """As an answer comes: a header of the response in front, memory that was something else before."""
    view = memoryview(PooledBuffer(len(data) + 50))
    view[:] = b"\xee" * len(view)
    view[50:] = data
    return view.toreadonly()[50:]


@given(logs(), st.integers(0, 1_010), st.integers(0, 200), st.lists(st.booleans(), min_size=3, max_size=3))
@settings(deadline=None, max_examples=300)
def test_columns_in_the_memory_of_the_answer_are_the_same(
    log: tuple[bytes, list[tuple[int, int]], int], start: int, cut: int, in_place: list[bool]
) -> None:
    data, aborted, _ = log
    data = data[: len(data) - cut] if cut < len(data) else data
    columns, wanted = RecordColumns(), []
    for place, moved in enumerate(in_place):
        found, position = plain.rows_of("orders", place, data, start, aborted)
        wanted += found
        room = in_a_room(data)
        assert columns.add("orders", place, room, start, aborted, in_place=moved) == position
        if not moved:
            assert room == data
    assert pylist(columns.record_batch()) == wanted


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=60), st.integers(1, 20))
@settings(deadline=None)
def test_values_of_any_length_move_down_whole(sizes: list[int], each: int) -> None:
    values = [bytes((at + turn) % 256 for turn in range(size)) for at, size in enumerate(sizes)]
    data = b"".join(
        build_batch([Record(0, 5, None, one) for one in values[at : at + each]], base_offset=at)
        for at in range(0, len(values), each)
    )
    for in_place in (True, False):
        columns = RecordColumns()
        columns.add("orders", 0, in_a_room(data), in_place=in_place)
        assert columns.record_batch().column("value").to_pylist() == values


def test_only_what_is_not_needed_any_more_is_overwritten() -> None:
    data = build_batch([Record(0, 5, b"k", b"v" * 100)] * 50)
    room = in_a_room(data)
    columns = RecordColumns()
    columns.add("orders", 0, room)
    assert room == data
    moved = RecordColumns()
    moved.add("orders", 0, room, in_place=True)
    assert room != data
    # What others look at is copied, whatever is said about it.
    fixed = bytes(data)
    other = RecordColumns()
    other.add("orders", 0, fixed, in_place=True)
    assert fixed == data
    assert pylist(columns.record_batch()) == pylist(moved.record_batch()) == pylist(other.record_batch())


def test_many_headers_and_nulls_among_them_survive_a_damaged_batch_between() -> None:
    def batch(first: int) -> bytes:
        names = ["a", "é" * 9, "long name " * 5]
        records = [
            Record(
                0,
                5,
                None,
                b"v",
                tuple((name, None if (at + first) % 3 else b"x" * (at % 90)) for name in names),
            )
            for at in range(700)
        ]
        return build_batch(records, base_offset=first)

    columns, wanted = RecordColumns(), []
    for first in (0, 700, 1_400):
        data = batch(first)
        damaged = bytearray(batch(first + 1))  # with nulls in other places
        damaged[-3] ^= 1
        with pytest.raises((CorruptMessage, InvalidRecord)):
            columns.add("orders", 0, damaged)
        wanted += plain.rows_of("orders", 0, data, 0, [])[0]
        columns.add("orders", 0, data)
    assert pylist(columns.record_batch()) == wanted


@given(logs(), st.data())
@settings(deadline=None, max_examples=300)
def test_damage_is_found_and_leaves_whole_batches_only(
    log: tuple[bytes, list[tuple[int, int]], int], draw: st.DataObject
) -> None:
    data = bytearray(log[0])
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    check = draw.draw(st.booleans())
    columns = RecordColumns(check_crc=check, size_max=1 << 20)
    moved = RecordColumns(check_crc=check, size_max=1 << 20)
    problems = []
    for one, memory in ((columns, data), (moved, in_a_room(bytes(data)))):
        try:
            one.add("orders", 0, memory, in_place=True)
        except (CorruptMessage, InvalidRecord, UnsupportedCompressionType) as problem:
            problems.append(str(problem))
    assert problems == [] or problems[0] == problems[1]
    assert moved.record_batch().equals(columns.record_batch())
    columns = RecordColumns(check_crc=check, size_max=1 << 20)
    try:
        columns.add("orders", 0, data)
    except (CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        pass
    rows = columns.record_batch()
    rows.validate(full=True)
    if check:
        good, _ = plain.rows_of("orders", 0, log[0], 0, [])
        by_offset = {one["offset"]: one for one in good}
        for row in pylist(rows):
            # The base offset is outside of what the checksum covers.
            if row["offset"] in by_offset:
                assert {**row, "offset": 0}.keys() == {**by_offset[row["offset"]], "offset": 0}.keys()


class Inlet:
    """A producer's intake of some partitions, without a producer."""

    def __init__(self, memory: int = 1 << 30, count: int = 3) -> None:
        self.lanes = [Lane(TopicPartition("orders", at), deque()) for at in range(count)]
        self.made: list[OutgoingBatch] = []
        self.intake = Intake(
            Memory(memory), 10_000, 1_000, make=self._make, wake=lambda: None, move=lambda led, now: led[0]
        )
        partitions = tuple(Partition("orders", at, 1, 0, (), ()) for at in range(count))
        self.intake.routes["orders"] = TopicLanes(Topic("orders", uuid.uuid4(), partitions), self.lanes, [0])
        self.intake.admitting = True

    def _make(self, partition: TopicPartition) -> OutgoingBatch:
        self.made.append(OutgoingBatch(partition, 500, 0))
        return self.made[-1]

    def written(self) -> dict[int, list[Record]]:
        found: dict[int, list[Record]] = {}
        for batch in self.made:
            batch.pack(Codec.NONE, NO_STAMP)
            found.setdefault(batch.partition.partition, []).extend(read_records(batch.data))
        return found


@pytest.mark.parametrize("count", [1, 3])
def test_rows_with_keys_keep_their_order_and_every_batch_is_known(count: int) -> None:
    keys = [b"%d" % (at % 50) if at % 8 else None for at in range(3_000)]
    values = [b"%d" % at for at in range(3_000)]
    inlet = Inlet(count=count)
    (rows,) = rows_of(
        pa.table({"key": keys, "value": values}),
        key="key",
        value="value",
        headers=None,
        timestamp=None,
        partition=None,
    )
    while rows.sent < rows.rows:
        assert rows.send(inlet.intake, "orders", 700, 5_000)
    assert sorted(map(id, rows.batches)) == sorted(map(id, inlet.made))
    assert len(inlet.made) > 5
    found = inlet.written()
    assert set(found) == set(range(count))
    for records in found.values():
        numbers = [int(one.value or b"") for one in records]
        assert numbers == sorted(numbers)
    assert sorted(int(one.value or b"") for records in found.values() for one in records) == list(
        range(3_000)
    )


ROW = st.tuples(DATA, DATA, TIMES, HEADERS)


@given(st.lists(ROW, max_size=30), st.integers(0, 10), st.integers(1, 7), st.booleans())
@settings(deadline=None)
def test_rows_become_the_records_that_they_say(
    rows: list[Any], skipped: int, turn: int, chunked: bool
) -> None:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "k": pa.array([row[0] for row in rows], pa.binary()),
            "v": pa.array([row[1] for row in rows], pa.large_binary()),
            "t": pa.array([row[2] for row in rows], pa.timestamp("ms", tz="UTC")),
            "h": pa.array(
                [[{"key": name, "value": value} for name, value in row[3]] for row in rows], pa.list_(header)
            ),
        }
    )
    kept = rows[skipped:]
    table = table.slice(skipped)
    if chunked:
        table = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    inlet = Inlet()
    for some in rows_of(table, key="k", value="v", headers="h", timestamp="t", partition=None):
        while some.sent < some.rows:
            assert some.send(inlet.intake, "orders", turn, 1_000)
    expected: dict[int, list[Any]] = {}
    for key, value, time_ms, headers in kept:
        where = 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % 3
        expected.setdefault(where, []).append((key, value, time_ms, headers))
    found = {
        where: [(one.key, one.value, one.timestamp, one.headers) for one in records]
        for where, records in inlet.written().items()
    }
    assert found == expected


def test_rows_stop_when_memory_is_full_and_go_on_where_they_stopped() -> None:
    inlet = Inlet(memory=500)
    (rows,) = rows_of(
        pa.table({"value": [b"x" * 100] * 10}),
        key=None,
        value="value",
        headers=None,
        timestamp=None,
        partition=1,
    )
    assert rows.send(inlet.intake, "orders", 100, 1_000)
    assert 0 < rows.sent < 10 and rows.needs > 100
    while rows.sent < 10:
        inlet.intake.admitting = True
        memory = sum(one.bytes_taken for one in inlet.made)
        for lane in inlet.lanes:
            lane.close_open()
        assert memory <= 500
        inlet = Inlet(memory=500)
        rows.send(inlet.intake, "orders", 100, 1_000)
    assert rows.sent == 10


def test_text_numbers_and_columns_that_are_not_there() -> None:
    table = pa.table({"key": ["a", "b"], "value": pa.array(["x", None]).dictionary_encode(), "n": [1, 2]})
    options = {"headers": None, "timestamp": None, "partition": None}
    inlet = Inlet()
    (rows,) = rows_of(table, key="key", value="value", **{**options, "partition": "n"})  # type: ignore[arg-type]
    assert rows.send(inlet.intake, "orders", 10, 1_000)
    assert {at: [(one.key, one.value) for one in found] for at, found in inlet.written().items()} == {
        1: [(b"a", b"x")],
        2: [(b"b", None)],
    }
    with pytest.raises(TypeError, match="column 'n' has type int64: records are bytes"):
        list(rows_of(table, key="key", value="n", **options))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no column 'v': there are 'key', 'value', 'n'"):
        list(rows_of(table, key="key", value="v", **options))  # type: ignore[arg-type]
    large = pa.table({"value": [b"x" * 20_000]})
    (rows,) = rows_of(large, key=None, value="value", **options)  # type: ignore[arg-type]
    with pytest.raises(MessageTooLarge, match="row 0 takes"):
        rows.send(Inlet().intake, "orders", 10, 1_000)
    (rows,) = rows_of(table, key=None, value="value", **{**options, "partition": 7})  # type: ignore[arg-type]
    with pytest.raises(InvalidRecord, match="the topic has 0 to 2"):
        rows.send(Inlet().intake, "orders", 10, 1_000)
