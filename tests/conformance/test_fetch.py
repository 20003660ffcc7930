"""Fetch as seen by raw requests: bounds, long polls, limits, topic ids, errors."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from tests.conformance import batches
from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, describe, fetch, fetch_fields, produce


def test_an_empty_partition_gives_no_records(connection: Connection, topic: Any) -> None:
    answer = fetch(connection, topic(), 0)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 0, 0)
    assert not answer.records
    assert answer.log_start_offset == 0


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4, 5])
def test_a_fetch_begins_with_the_batch_that_holds_the_offset(
    offset: int, connection: Connection, topic: Any
) -> None:
    known = topic()
    append(connection, known, batch([b"0", b"1", b"2"]))
    append(connection, known, batch([b"3", b"4"]))
    answer = fetch(connection, known, offset)
    bases = [found.base_offset for found in batches.read(answer.records)]
    assert bases == ([0, 3] if offset < 3 else [3] if offset < 5 else [])
    assert answer.high_watermark == 5


@pytest.mark.parametrize("offset", [-1, -5, 3, 100, 2**62])
def test_an_offset_out_of_range_is_an_error(offset: int, connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"0", b"1"]))
    answer = fetch(connection, known, offset)
    assert answer.error_code.name == "offset_out_of_range"
    assert not answer.records


def test_below_the_log_start_is_out_of_range_after_delete_records(connection: Connection, topic: Any) -> None:
    known = topic()
    for value in (b"0", b"1", b"2"):
        append(connection, known, batch([value]))
    deleted = connection.call(
        "delete_records",
        2,
        topics=[{"name": known, "partitions": [{"partition_index": 0, "offset": 2}]}],
        timeout=5000,
    )
    assert deleted.topics[0].partitions[0].low_watermark == 2
    below = fetch(connection, known, 1)
    assert below.error_code.name == "offset_out_of_range"
    at = fetch(connection, known, 2)
    assert (at.error_code, at.log_start_offset, at.high_watermark) == (0, 2, 3)
    assert [b.base_offset for b in batches.read(at.records)] == [2]


def test_a_fetch_waits_for_min_bytes_until_max_wait(connection: Connection, topic: Any) -> None:
    known = topic()
    began = time.monotonic()
    answer = fetch(connection, known, 0, max_wait=300, min_bytes=1)
    waited = time.monotonic() - began
    assert not answer.records
    assert 0.29 <= waited < 5


def test_new_records_end_the_wait(connection: Connection, bootstrap: str, topic: Any) -> None:
    known = topic()
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=20_000, min_bytes=1))
    began = time.monotonic()
    with Connection(bootstrap) as other:
        append(other, known, batch([b"news"]))
    _, answer = connection.receive("fetch", 12)
    assert time.monotonic() - began < 10
    assert batches.read(answer.responses[0].partitions[0].records)[0].records()[0][1].value == b"news"


def test_too_few_bytes_do_not_end_the_wait(connection: Connection, bootstrap: str, topic: Any) -> None:
    known = topic()
    one = batch([b"x" * 100])
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=20_000, min_bytes=3 * len(one)))
    with Connection(bootstrap) as other:
        for _ in range(3):
            append(other, known, one)
    _, answer = connection.receive("fetch", 12)
    assert len(batches.read(answer.responses[0].partitions[0].records)) == 3


def test_min_bytes_0_answers_at_once(connection: Connection, topic: Any) -> None:
    began = time.monotonic()
    fetch(connection, topic(), 0, max_wait=20_000, min_bytes=0)
    assert time.monotonic() - began < 10


def test_an_error_ends_the_wait_at_once(connection: Connection, topic: Any) -> None:
    began = time.monotonic()
    answer = fetch(connection, topic(), 5, max_wait=20_000, min_bytes=1)
    assert answer.error_code.name == "offset_out_of_range"
    assert time.monotonic() - began < 10


def test_partition_max_bytes_bounds_the_records(connection: Connection, topic: Any) -> None:
    known = topic()
    one = batch([b"x" * 1000])
    for _ in range(10):
        append(connection, known, one)
    answer = fetch(connection, known, 0, partition_max_bytes=3 * len(one) + 10)
    assert len(answer.records) <= 3 * len(one) + 10
    assert len(batches.read(answer.records)) == 3


def test_the_first_batch_is_sent_whole_however_large(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x" * 5000]))
    answer = fetch(connection, known, 0, partition_max_bytes=10, max_bytes=10)
    assert len(batches.read(answer.records)) == 1


def test_only_the_first_partition_may_exceed_the_limit(connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    one = batch([b"x" * 5000])
    for partition in (0, 1):
        append(connection, known, one, partition)
    parts = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for p in (0, 1)]
    fields = fetch_fields(known, 0, max_bytes=1000) | {"topics": [{"topic": known, "partitions": parts}]}
    answer = connection.call("fetch", 12, **fields)
    sizes = [len(batches.read(p.records)) for p in answer.responses[0].partitions]
    assert sorted(sizes) == [0, 1]


def test_max_bytes_bounds_the_whole_answer(connection: Connection, topic: Any) -> None:
    known = topic(partitions=4)
    one = batch([b"x" * 1000])
    for partition in range(4):
        for _ in range(4):
            append(connection, known, one, partition)
    parts = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for p in range(4)]
    limit = 6 * len(one)
    fields = fetch_fields(known, 0, max_bytes=limit) | {"topics": [{"topic": known, "partitions": parts}]}
    answer = connection.call("fetch", 12, **fields)
    assert 4 * len(one) <= sum(len(p.records or b"") for p in answer.responses[0].partitions) <= limit


def test_a_partition_limit_of_0_still_moves_the_reader_on(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    assert len(batches.read(fetch(connection, known, 0, partition_max_bytes=0).records)) == 1


def test_unknown_topics_and_partitions(connection: Connection, topic: Any, name: Any) -> None:
    assert fetch(connection, name(), 0).error_code.name == "unknown_topic_or_partition"
    assert fetch(connection, topic(), 0, partition=9).error_code.name == "unknown_topic_or_partition"


def test_a_topic_is_found_by_id_from_version_13_on(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"by id"]))
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    topic_id = describe(connection, known).topic_id
    fields = fetch_fields(known, 0) | {"topics": [{"topic_id": topic_id, "partitions": [part]}]}
    for version in (13, 16, 18):
        answer = connection.call("fetch", version, **fields)
        assert answer.responses[0].topic_id == topic_id
        assert len(batches.read(answer.responses[0].partitions[0].records)) == 1


def test_an_unknown_topic_id(connection: Connection) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    fields = fetch_fields("", 0) | {"topics": [{"topic_id": uuid.uuid4(), "partitions": [part]}]}
    answer = connection.call("fetch", 13, **fields)
    assert answer.responses[0].partitions[0].error_code.name == "unknown_topic_id"


def test_the_leader_epoch_is_checked(connection: Connection, topic: Any) -> None:
    known = topic()
    epoch = describe(connection, known).partitions[0].leader_epoch
    assert fetch(connection, known, 0, current_leader_epoch=epoch).error_code == 0
    newer = fetch(connection, known, 0, current_leader_epoch=epoch + 1)
    assert newer.error_code.name == "unknown_leader_epoch"


def test_read_committed_sees_plain_records(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    answer = fetch(connection, known, 0, isolation_level=1)
    assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)
    assert len(batches.read(answer.records)) == 1
    assert not answer.aborted_transactions


def test_one_fetch_reads_many_partitions_and_topics(connection: Connection, topic: Any) -> None:
    one, two = topic(partitions=2), topic(partitions=2)
    wanted = [(t, p) for t in (one, two) for p in (0, 1)]
    for t, p in wanted:
        append(connection, t, batch([f"{t}/{p}".encode()]), p)
    topics = [
        {
            "topic": t,
            "partitions": [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 9999} for p in (0, 1)],
        }
        for t in (one, two)
    ]
    answer = connection.call("fetch", 12, **(fetch_fields(one, 0) | {"topics": topics}))
    found = {
        (t.topic, p.partition_index): batches.read(p.records)[0].records()[0][1].value
        for t in answer.responses
        for p in t.partitions
    }
    assert found == {(t, p): f"{t}/{p}".encode() for t, p in wanted}


def test_reads_continue_over_segments(connection: Connection, topic: Any) -> None:
    known = topic(config={"segment.bytes": str(1 << 20)})
    count, size = 12, 300_000
    for index in range(count):
        append(connection, known, batch([bytes([index]) * size]))
    offset, seen = 0, []
    while offset < count:
        whole = batches.read(fetch(connection, known, offset, partition_max_bytes=700_000).records)
        assert whole
        seen += [b.base_offset for b in whole if b.base_offset >= offset]
        offset = whole[-1].last_offset + 1
    assert seen == list(range(count))


def test_a_large_answer_arrives_whole(connection: Connection, topic: Any) -> None:
    known = topic()
    sent = [batch([bytes([index]) * 900_000]) for index in range(8)]
    for each in sent:
        append(connection, known, each)
    answer = fetch(connection, known, 0, partition_max_bytes=1 << 24)
    found = batches.read(answer.records)
    assert [b.base_offset for b in found] == list(range(8))
    assert all(b.crc_ok for b in found)


def test_a_slow_reader_does_not_hold_up_others(connection: Connection, bootstrap: str, topic: Any) -> None:
    known = topic()
    for _ in range(8):
        append(connection, known, batch([bytes(900_000)]))
    with Connection(bootstrap) as slow:
        for _ in range(8):  # asks for about 56 MB and reads nothing of it yet
            slow.send("fetch", 12, **fetch_fields(known, 0, partition_max_bytes=1 << 24))
        began = time.monotonic()
        for _ in range(20):
            assert produce(connection, known, batch([b"x"])).error_code == 0
        assert time.monotonic() - began < 10
        for _ in range(8):
            _, answer = slow.receive("fetch", 12)
            assert len(batches.read(answer.responses[0].partitions[0].records)) >= 8
