"""Produce as seen by raw requests: acknowledgements, offsets, timestamps, limits, recompression."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import batches
from tests.conformance.batches import Record, batch
from tests.conformance.raw import Connection, milliseconds
from tests.conformance.topics import append, describe, fetch, list_offset, produce, read_all, values

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("acks", [1, -1])
def test_acknowledged_records_get_consecutive_offsets(acks: int, connection: Connection, topic: Any) -> None:
    known = topic()
    first = produce(connection, known, batch([b"a", b"b", b"c"]), acks=acks)
    second = produce(connection, known, batch([b"d"]), acks=acks)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 3)
    assert second.log_start_offset == 0
    assert milliseconds(second.log_append_time) == -1
    assert values(connection, known) == [b"a", b"b", b"c", b"d"]


def test_acks_0_gets_no_answer_and_the_records_are_there(connection: Connection, topic: Any) -> None:
    known = topic()
    data = [{"name": known, "partition_data": [{"index": 0, "records": batch([b"quiet"])}]}]
    connection.send("produce", 11, acks=0, timeout=1000, topic_data=data)
    # The next answer belongs to the next request.
    assert append(connection, known, batch([b"loud"])) == 1
    assert values(connection, known) == [b"quiet", b"loud"]


def test_acks_0_that_fails_closes_the_connection(connection: Connection, name: Any) -> None:
    data = [{"name": name(), "partition_data": [{"index": 0, "records": batch([b"lost"])}]}]
    connection.send("produce", 11, acks=0, timeout=1000, topic_data=data)
    assert connection.closed_by_broker()


@pytest.mark.parametrize("acks", [2, -2, 77])
def test_other_acks_are_refused(acks: int, connection: Connection, topic: Any) -> None:
    assert produce(connection, topic(), batch(), acks=acks).error_code.name == "invalid_required_acks"


def test_each_partition_is_answered_on_its_own(connection: Connection, topic: Any, name: Any) -> None:
    good, bad = topic(partitions=2), name()
    data = [
        {"name": good, "partition_data": [{"index": i, "records": batch([b"x"])} for i in (0, 1, 2)]},
        {"name": bad, "partition_data": [{"index": 0, "records": batch([b"x"])}]},
    ]
    answer = connection.call("produce", 11, acks=-1, timeout=5000, topic_data=data)
    found = {(t.name, p.index): p.error_code.name for t in answer.responses for p in t.partition_responses}
    unknown = "unknown_topic_or_partition"
    assert found == {(good, 0): "none", (good, 1): "none", (good, 2): unknown, (bad, 0): unknown}


def test_a_topic_is_found_by_id_from_version_13_on(connection: Connection, topic: Any) -> None:
    known = topic()
    data = [
        {
            "topic_id": describe(connection, known).topic_id,
            "partition_data": [{"index": 0, "records": batch([b"by id"])}],
        }
    ]
    answer = connection.call("produce", 13, acks=-1, timeout=5000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert values(connection, known) == [b"by id"]


def test_an_unknown_topic_id_is_refused(connection: Connection, topic: Any) -> None:
    import uuid

    data = [{"topic_id": uuid.uuid4(), "partition_data": [{"index": 0, "records": batch()}]}]
    answer = connection.call("produce", 13, acks=-1, timeout=5000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code.name == "unknown_topic_id"


def test_the_broker_stamps_offset_and_epoch_and_nothing_else(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"before"]))
    sent = batch([Record(b"v", b"k", (("h", b"1"),)), Record(b"w")], leader_epoch=55)
    append(connection, known, sent)
    (stored,) = batches.read(fetch(connection, known, 1).records)
    assert stored.base_offset == 1
    assert stored.leader_epoch == describe(connection, known).partitions[0].leader_epoch
    assert stored.crc_ok
    assert sent.endswith(stored.body)
    assert stored.crc == batches.read(sent)[0].crc


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_as_they_were_compressed(codec: str, connection: Connection, topic: Any) -> None:
    known = topic()
    sent = batch([b"a" * 100, b"b" * 100], codec=codec)
    append(connection, known, sent)
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert stored.codec == batches.CODECS[codec]
    assert stored.body == sent[batches.HEADER_BYTES :]


@pytest.mark.parametrize("sent_codec", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("kept_codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_compression_re_encodes(
    sent_codec: str, kept_codec: str, connection: Connection, topic: Any
) -> None:
    known = topic(config={"compression.type": kept_codec})
    records = [Record(b"v%d" % i * 50, b"k%d" % i, (("n", b"%d" % i),), i) for i in range(5)]
    append(connection, known, batch(records, codec=sent_codec))
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert stored.codec == batches.CODECS["none" if kept_codec == "uncompressed" else kept_codec]
    assert stored.crc_ok
    assert stored.records() == list(enumerate(records))


def test_zstd_needs_produce_version_7(connection: Connection, topic: Any) -> None:
    known = topic()
    data = [{"name": known, "partition_data": [{"index": 0, "records": batch(codec="zstd")}]}]
    answer = connection.call("produce", 6, acks=-1, timeout=5000, topic_data=data)
    error = answer.responses[0].partition_responses[0].error_code
    assert error.name == "unsupported_compression_type"


def test_create_time_is_the_default_and_kept(connection: Connection, topic: Any) -> None:
    known = topic(config={"retention.ms": "-1"})
    append(
        connection,
        known,
        batch([Record(b"a", timestamp_delta=0), Record(b"b", timestamp_delta=7)], base_timestamp=1000),
    )
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert (stored.base_timestamp, stored.max_timestamp, stored.attributes) == (1000, 1007, 0)


def test_log_append_time_replaces_the_producers_timestamps(connection: Connection, topic: Any) -> None:
    known = topic(config={"message.timestamp.type": "LogAppendTime"})
    before = batches.now_ms()
    answer = produce(
        connection,
        known,
        batch([Record(b"a", timestamp_delta=0), Record(b"b", timestamp_delta=7)], base_timestamp=1000),
    )
    appended = milliseconds(answer.log_append_time)
    assert before <= appended <= batches.now_ms()
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert stored.attributes & batches.LOG_APPEND_TIME
    assert stored.max_timestamp == appended
    assert stored.crc_ok
    assert list_offset(connection, known, appended).offset in (0, 1)


def test_timestamps_too_far_from_now_are_refused(connection: Connection, topic: Any) -> None:
    known = topic(
        config={"message.timestamp.before.max.ms": "10000", "message.timestamp.after.max.ms": "10000"}
    )
    now = batches.now_ms()
    for wrong in (now - DAY_MS, now + DAY_MS):
        answer = produce(connection, known, batch([b"x"], base_timestamp=wrong))
        assert answer.error_code.name == "invalid_timestamp"
        assert answer.record_errors
    assert produce(connection, known, batch([b"x"], base_timestamp=now)).error_code == 0


def test_the_default_refuses_timestamps_more_than_an_hour_ahead(connection: Connection, topic: Any) -> None:
    known = topic()
    answer = produce(connection, known, batch([b"x"], base_timestamp=batches.now_ms() + DAY_MS))
    assert answer.error_code.name == "invalid_timestamp"


def test_no_more_replicas_need_to_be_in_sync_than_there_are(connection: Connection, topic: Any) -> None:
    known = topic(config={"min.insync.replicas": "2"})
    assert produce(connection, known, batch([b"a"]), acks=-1).error_code == 0
    assert values(connection, known) == [b"a"]


def test_a_topic_that_syncs_each_append_keeps_order(connection: Connection, topic: Any) -> None:
    known = topic(config={"flush.messages": "1"})
    for index in range(50):
        data = [{"name": known, "partition_data": [{"index": 0, "records": batch([b"%d" % index])}]}]
        connection.send("produce", 11, acks=-1, timeout=10_000, topic_data=data)
    for index in range(50):
        part = connection.receive("produce", 11)[1].responses[0].partition_responses[0]
        assert (part.error_code, part.base_offset) == (0, index)
    assert values(connection, known) == [b"%d" % index for index in range(50)]


def test_max_message_bytes_bounds_a_batch(connection: Connection, topic: Any) -> None:
    known = topic(config={"max.message.bytes": "1000"})
    fits = batch([b"x" * (1000 - len(batch([b""])) - 2)])
    assert len(fits) <= 1000
    assert produce(connection, known, fits).error_code == 0
    answer = produce(connection, known, batch([b"x" * 1000]))
    assert answer.error_code.name == "message_too_large"
    assert len(values(connection, known)) == 1


def test_max_message_bytes_is_the_compressed_size(connection: Connection, topic: Any) -> None:
    known = topic(config={"max.message.bytes": "1000"})
    assert produce(connection, known, batch([b"x" * 10_000], codec="gzip")).error_code == 0


def test_max_message_bytes_bounds_what_is_stored_after_recompression(
    connection: Connection, topic: Any
) -> None:
    known = topic(config={"max.message.bytes": "1000", "compression.type": "uncompressed"})
    answer = produce(connection, known, batch([b"x" * 10_000], codec="gzip"))
    assert answer.error_code.name == "message_too_large"
    assert values(connection, known) == []


@pytest.mark.parametrize("claimed", [-1, 1000, 9 * HOUR_MS])
@pytest.mark.parametrize(
    ("codec", "config"),
    [("none", {}), ("gzip", {"cleanup.policy": "compact"}), ("gzip", {"compression.type": "lz4"})],
)
def test_the_largest_timestamp_is_taken_from_the_records(
    codec: str, config: dict[str, str], claimed: int, connection: Connection, topic: Any
) -> None:
    known, now = topic(config=config), batches.now_ms()
    records = [Record(b"v", b"k", timestamp_delta=delta) for delta in (0, 50, 20)]
    claim = claimed if claimed < 0 else now + claimed
    append(connection, known, batch(records, codec=codec, base_timestamp=now, max_timestamp=claim))
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert stored.max_timestamp == now + 50
    assert stored.crc_ok
    found = list_offset(connection, known, now + 10)
    assert (found.offset, found.timestamp) == (1, now + 50)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_producers_cannot_claim_log_append_time(codec: str, connection: Connection, topic: Any) -> None:
    known, now = topic(), batches.now_ms()
    claim = batch([b"v"], codec=codec, base_timestamp=now, attributes=batches.LOG_APPEND_TIME)
    append(connection, known, claim)
    (stored,) = batches.read(fetch(connection, known, 0).records)
    assert not stored.attributes & batches.LOG_APPEND_TIME
    assert stored.crc_ok
    stamped = topic(config={"message.timestamp.type": "LogAppendTime"})
    assert produce(connection, stamped, claim).error_code.name == "invalid_timestamp"


def test_a_compacted_topic_refuses_records_without_a_key(connection: Connection, topic: Any) -> None:
    known = topic(config={"cleanup.policy": "compact"})
    answer = produce(connection, known, batch([Record(b"v", b"k"), Record(b"w")]))
    assert answer.error_code.name == "invalid_record"
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert produce(connection, known, batch([Record(b"v", b"k"), Record(None, b"k")])).error_code == 0
    assert len(read_all(connection, known)) == 2


def test_a_compacted_topic_looks_for_keys_inside_compressed_batches(
    connection: Connection, topic: Any
) -> None:
    known = topic(config={"cleanup.policy": "compact"})
    answer = produce(connection, known, batch([b"no key"], codec="lz4"))
    assert answer.error_code.name == "invalid_record"


def test_a_transactional_request_without_transactions_is_refused_or_answered(
    connection: Connection, topic: Any
) -> None:
    known = topic()
    sent = batch(
        [b"x"], attributes=batches.TRANSACTIONAL, producer_id=999_999, producer_epoch=0, base_sequence=0
    )
    answer = produce(connection, known, sent, transactional_id="no-such-transaction")
    assert answer.error_code != 0
    assert values(connection, known) == []
