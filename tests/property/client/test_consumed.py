"""What a consumer hands out, against the plain reading of the same bytes."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog._speed.client.consumed import Record, convert, delivered, read
from tidelog._speed.log.records import BadRecord
from tidelog._speed.log.records import read as read_plainly
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.completed_fetch import CompletedFetch
from tidelog.record import BatchBuilder, EndMarker, Marker, build_batch, build_marker, read_batches
from tidelog.record import Record as PlainRecord
from tidelog.types import TopicPartition

data = st.none() | st.binary(max_size=40)
rows = st.lists(
    st.tuples(
        data, data, st.integers(-(2**40), 2**40), st.lists(st.tuples(st.text(max_size=5), data), max_size=3)
    ),
    min_size=1,
    max_size=20,
)


@given(rows, st.integers(0, 2**40), st.integers(0, 25), st.none() | st.integers(0, 2**40))
def test_records_are_those_of_the_plain_reader(
    values: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    base: int,
    skipped: int,
    append_time: int | None,
) -> None:
    builder = BatchBuilder()
    for key, value, timestamp, headers in values:
        builder.add(key, value, timestamp, headers)
    batch = next(read_batches(builder.build()))
    header, section = batch.header, batch.section()
    plain = read_plainly(section, header.count, base, header.base_timestamp, append_time)
    found = read(section, header.count, base, header.base_timestamp, append_time, "t", 3, base + skipped, 7)
    kind = "create" if append_time is None else "append"
    assert found == [
        Record("t", 3, one.offset, one.timestamp, kind, one.key, one.value, one.headers)  # type: ignore[arg-type]
        for one in plain
        if one.offset >= base + skipped
    ]
    assert all(one.leader_epoch == 7 for one in found)


@given(st.binary(max_size=60), st.integers(-5, 12))
def test_hostile_bytes_are_refused_as_the_plain_reader_refuses_them(section: bytes, count: int) -> None:
    try:
        plain = read_plainly(section, count, 0, 0)
    except BadRecord as problem:
        with pytest.raises(BadRecord) as caught:
            read(section, count, 0, 0, None, "t", 0, 0, 0)
        assert str(caught.value) == str(problem)
    else:
        assert len(read(section, count, 0, 0, None, "t", 0, -(2**62), 0)) == len(plain)


def test_a_record_is_a_value() -> None:
    record = Record("t", 1, 2, 3, "create", b"k", b"v", [("h", b"1")], 4, 5)
    assert (
        pickle.loads(pickle.dumps(record))
        == record
        == Record("t", 1, 2, 3, "create", b"k", b"v", (("h", b"1"),))
    )
    assert record != Record("t", 1, 3, 3, "create", b"k", b"v")
    assert len({record, pickle.loads(pickle.dumps(record))}) == 1
    assert (record.leader_epoch, record.delivery_count) == (4, 5)
    match record:
        case Record(topic, partition, offset):
            assert (topic, partition, offset) == ("t", 1, 2)
    assert "value=b'v'" in repr(record)


def test_keys_and_values_are_converted_where_there_are_any() -> None:
    records = [Record("t", 0, 0, 0, "create", b"k", None), Record("t", 0, 1, 0, "create", None, b"v")]
    done = convert(
        records, lambda topic, key, is_key: (topic, key), lambda topic, value, is_key: value.decode()
    )
    assert done == (2, None)
    delivered(records, 3)
    assert [(one.key, one.value, one.delivery_count) for one in records] == [
        (("t", b"k"), None, 3),
        (None, "v", 3),
    ]


def test_what_cannot_be_converted_is_told_with_its_place() -> None:
    records = [Record("t", 0, at, 0, "create", None, value) for at, value in enumerate([b"1", b"x", b"2"])]
    count, problem = convert(records, None, lambda topic, value, is_key: int(value))
    assert count == 1 and isinstance(problem, ValueError)
    assert [one.value for one in records] == [1, b"x", b"2"]


# Transactions: a log of interleaved ones, read through any cuts, against the list of what was committed.

WHERE = TopicPartition("t", 0)
steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "commit", "abort", "plain"])), max_size=30
)


def write_log(
    events: list[tuple[int, str]],
) -> tuple[list[bytes], list[tuple[int, int, int]], list[int]]:
    """Batches, aborted transactions (producer, first offset, end), and the offsets that readers may see."""
    batches: list[bytes] = []
    aborted: list[tuple[int, int, int]] = []
    visible: list[int] = []
    open_at: dict[int, list[int]] = {}
    for producer, what in [*events, (0, "commit"), (1, "commit"), (2, "commit")]:
        offset = len(batches)
        if what == "plain":
            batches.append(one_record(offset))
            visible.append(offset)
        elif what == "write":
            batches.append(one_record(offset, producer))
            open_at.setdefault(producer, []).append(offset)
        elif producer in open_at:
            end = EndMarker(Marker.COMMIT if what == "commit" else Marker.ABORT, 0)
            batches.append(
                build_marker(end, producer_id=producer, producer_epoch=0, timestamp=0, base_offset=offset)
            )
            offsets = open_at.pop(producer)
            if what == "commit":
                visible += offsets
            else:
                aborted.append((producer, offsets[0], offset))
    return batches, aborted, sorted(visible)


def one_record(offset: int, producer: int = -1) -> bytes:
    of_transaction = producer >= 0
    return build_batch(
        [PlainRecord(0, 0, b"k", b"%d" % offset)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0 if of_transaction else -1,
        base_sequence=0 if of_transaction else -1,
        transactional=of_transaction,
    )


@given(steps, st.data())
def test_readers_of_what_was_committed_see_exactly_that(
    events: list[tuple[int, str]], draw: st.DataObject
) -> None:
    batches, aborted, visible = write_log(events)
    one, found, at = AssignedPartition(WHERE), list[int](), 0
    one.seek(0)
    while at < len(batches):
        end = draw.draw(st.integers(at + 1, len(batches)))
        listed = [(producer, first) for producer, first, last in aborted if last >= at and first < end]
        one.fetched(b"".join(batches[at:end]), len(batches), True, listed)
        found += [record.offset for record in one.take(draw.draw(st.integers(1, 40)))]
        at = end
    while one.has_records:
        found += [record.offset for record in one.take(5)]
    assert found == visible
    assert one.position == len(batches)


def test_a_whole_answer_for_other_readers_leaves_out_the_same() -> None:
    batches, aborted, visible = write_log([(0, "write"), (1, "write"), (0, "abort"), (1, "commit")])
    fetched = CompletedFetch(WHERE, b"".join(batches), 4, True, [(one[0], one[1]) for one in aborted])
    assert [batch.header.base_offset for batch in fetched.batches(0)] == visible == [1]
