"""What one client library writes, every other one reads: all codecs, keys, nulls, headers, timestamps, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.batches import now_ms
from tests.conformance.clients import (
    CODECS,
    CONSUMERS,
    PRODUCERS,
    Message,
    Produced,
    can_write,
    confluent_consume,
)

CREATE_TIME, LOG_APPEND_TIME = 0, 1
NOW = now_ms()  # much older records would fall to the topic's retention

SAMPLE = [
    Message(b"plain", timestamp=NOW),
    Message(b"with a key", b"key", timestamp=NOW + 1),
    Message(None, b"a tombstone", timestamp=NOW + 2),
    Message(b"", b"", timestamp=NOW + 3),
    Message(b"headers", b"k", (("a", b"1"), ("b", b""), ("a", b"again")), NOW + 4),
    Message("größe € 😀".encode(), "schlüssel".encode(), (("ü", b"\x00\xff"),), NOW + 5),
    Message(bytes(range(256)) * 40, b"long", timestamp=NOW),
]


def pairs() -> list[Any]:
    return [
        pytest.param(writer, reader, codec, id=f"{writer}-{reader}-{codec}")
        for codec in CODECS
        for writer in PRODUCERS
        for reader in CONSUMERS
        if can_write(writer, codec) and can_write(reader, codec)
    ]


@pytest.mark.parametrize(("writer", "reader", "codec"), pairs())
def test_messages_arrive_as_they_were_sent(
    writer: str, reader: str, codec: str, bootstrap: str, topic: Any
) -> None:
    known = topic()
    produced = PRODUCERS[writer](bootstrap, known, SAMPLE, codec)
    assert produced == [Produced(0, offset) for offset in range(len(SAMPLE))]
    found = CONSUMERS[reader](bootstrap, known, len(SAMPLE))
    assert [r.message for r in found] == SAMPLE
    assert [r.offset for r in found] == list(range(len(SAMPLE)))
    assert {r.timestamp_type for r in found} == {CREATE_TIME}


@pytest.mark.parametrize("client", PRODUCERS)
def test_messages_of_900_kb(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    sent = [Message(bytes([index]) * 900_000, b"%d" % index) for index in range(4)]
    PRODUCERS[client](bootstrap, known, sent)
    found = CONSUMERS[client](bootstrap, known, 4)
    assert [(r.message.key, r.message.value) for r in found] == [(m.key, m.value) for m in sent]


@pytest.mark.parametrize("client", PRODUCERS)
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(acks: Any, client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    options: dict[str, Any] = {"acks": acks}
    if client == "kafka-python":
        options |= {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    PRODUCERS[client](bootstrap, known, [Message(b"%d" % i) for i in range(20)], **options)
    found = confluent_consume(bootstrap, known, 20)
    assert [r.message.value for r in found] == [b"%d" % i for i in range(20)]


@pytest.mark.parametrize("client", PRODUCERS)
def test_idempotent_producers_keep_order(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    options: dict[str, dict[str, Any]] = {
        "confluent": {"enable.idempotence": True, "batch.num.messages": 10, "linger.ms": 1},
        "kafka-python": {"enable_idempotence": True, "batch_size": 256},
        "aiokafka": {"enable_idempotence": True, "max_batch_size": 256},
    }
    sent = [Message(b"%d" % index) for index in range(1000)]
    produced = PRODUCERS[client](bootstrap, known, sent, **options[client])
    assert [p.offset for p in produced] == list(range(1000))
    found = CONSUMERS[client](bootstrap, known, 1000)
    assert [r.message.value for r in found] == [m.value for m in sent]


@pytest.mark.parametrize("client", PRODUCERS)
def test_pipelined_small_batches_keep_order(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    options: dict[str, dict[str, Any]] = {
        "confluent": {"max.in.flight": 5, "batch.num.messages": 3, "linger.ms": 0},
        "kafka-python": {"max_in_flight_requests_per_connection": 5, "batch_size": 64},
        "aiokafka": {"max_batch_size": 128},
    }
    sent = [Message(b"%d" % index) for index in range(500)]
    PRODUCERS[client](bootstrap, known, sent, **options[client])
    found = CONSUMERS[client](bootstrap, known, 500)
    assert [r.message.value for r in found] == [m.value for m in sent]


@pytest.mark.parametrize("client", CONSUMERS)
def test_reading_begins_where_it_is_told_to(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    PRODUCERS["confluent"](bootstrap, known, [Message(b"%d" % i) for i in range(10)])
    found = CONSUMERS[client](bootstrap, known, 3, start=7)
    assert [(r.offset, r.message.value) for r in found] == [(7, b"7"), (8, b"8"), (9, b"9")]


@pytest.mark.parametrize("client", CONSUMERS)
def test_log_append_time_is_seen_by_consumers(client: str, bootstrap: str, topic: Any) -> None:
    known = topic(config={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    PRODUCERS[client](bootstrap, known, [Message(b"x", timestamp=1000)], "gzip")
    (found,) = CONSUMERS[client](bootstrap, known, 1)
    assert before <= found.message.timestamp <= now_ms()
    assert found.timestamp_type == LOG_APPEND_TIME


@pytest.mark.parametrize("client", CONSUMERS)
def test_small_fetches_get_everything(client: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    sent = [Message(b"%d" % index * 200) for index in range(200)]
    PRODUCERS["confluent"](bootstrap, known, sent, **{"batch.num.messages": 7})
    options: dict[str, dict[str, Any]] = {
        "confluent": {"max.partition.fetch.bytes": 1000, "fetch.max.bytes": 4_000_000},
        "kafka-python": {"max_partition_fetch_bytes": 1000},
        "aiokafka": {"max_partition_fetch_bytes": 1000},
    }
    found = CONSUMERS[client](bootstrap, known, 200, **options[client])
    assert [r.message.value for r in found] == [m.value for m in sent]


@pytest.mark.parametrize("client", PRODUCERS)
def test_writing_creates_the_topic(client: str, bootstrap: str, name: Any) -> None:
    fresh = name()
    PRODUCERS[client](bootstrap, fresh, [Message(b"first")])
    (found,) = CONSUMERS[client](bootstrap, fresh, 1)
    assert found.message.value == b"first"


@pytest.mark.parametrize("client", PRODUCERS)
@pytest.mark.parametrize("kept", ["gzip", "zstd", "uncompressed"])
def test_recompressed_messages_are_read_back(kept: str, client: str, bootstrap: str, topic: Any) -> None:
    known = topic(config={"compression.type": kept})
    PRODUCERS[client](bootstrap, known, SAMPLE, "lz4")
    assert [r.message for r in CONSUMERS[client](bootstrap, known, len(SAMPLE))] == SAMPLE
