"""Batches that expand to much more than they are: the broker serves others meanwhile, and keeps their order."""

from __future__ import annotations

import select
from typing import Any

import pytest

from tests.conformance.batches import CODECS, Record, batch, encode_record
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.raw import Connection
from tests.conformance.topics import PRODUCE, append, list_offset, produce, values
from tidelog.record import compress

MEBIBYTE = 1 << 20
COMPACTED = {"cleanup.policy": "compact"}


def bomb(expanded: int, codec: str = "zstd", **header: Any) -> bytes:
    body = encode_record(0, Record(bytes(expanded), b"k"))
    packed = bytes(compress(CODECS[codec], body))
    return batch([b"x"], attributes=CODECS[codec], body=packed, **header)


def send(connection: Connection, topic: str, *batches: bytes) -> None:
    data = [{"index": index, "records": records} for index, records in enumerate(batches)]
    connection.send(
        "produce", PRODUCE, acks=1, timeout=10_000, topic_data=[{"name": topic, "partition_data": data}]
    )


def received(connection: Connection) -> list[tuple[str, int]]:
    _, answer = connection.receive("produce", PRODUCE)
    (topic,) = answer.responses
    return [(part.error_code.name, part.base_offset) for part in topic.partition_responses]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_is_opened_for_long_stays_in_front_of_those_sent_after_it(
    codec: str, connection: Connection, topic: Any
) -> None:
    compacted, plain = topic(config=COMPACTED), topic()
    send(connection, compacted, bomb(20 * MEBIBYTE, codec))
    send(connection, compacted, batch([Record(b"second", b"k")]))
    send(connection, compacted, bomb(20 * MEBIBYTE, codec))
    send(connection, compacted, batch([Record(b"fourth", b"k")], "gzip"))
    send(connection, plain, batch([b"fifth"]))
    assert [received(connection) for _ in range(4)] == [[("none", offset)] for offset in range(4)]
    assert received(connection) == [("none", 0)]


def test_others_are_served_while_batches_are_opened(
    connection: Connection, bootstrap: str, topic: Any
) -> None:
    partitions = 8
    compacted = topic(partitions=partitions, config=COMPACTED)
    with Connection(bootstrap) as other:
        other.call("api_versions", 0)
        send(connection, compacted, *[bomb(30 * MEBIBYTE)] * partitions)
        # Its bytes are there by now: they are taken before those of the next request.
        for _ in range(3):
            other.call("api_versions", 0)
        answered, _, _ = select.select([connection.socket], [], [], 0)
        assert not answered, "nobody was answered before all batches were opened"
    assert received(connection) == [("none", 0)] * partitions


@pytest.mark.skipif(
    ON_KAFKA, reason="Apache Kafka takes whatever expands, on a thread that does nothing else"
)
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_that_expands_beyond_all_bounds_is_refused(
    codec: str, connection: Connection, topic: Any
) -> None:
    compacted = topic(config={**COMPACTED, "max.message.bytes": str(4 * MEBIBYTE)})
    answer = produce(connection, compacted, bomb(140 * MEBIBYTE, codec))
    assert answer.error_code.name == "message_too_large", answer
    assert list_offset(connection, compacted, -1).offset == 0
    append(connection, compacted, batch([Record(b"small", b"k")], codec))
    assert values(connection, compacted) == [b"small"]


@pytest.mark.skipif(
    ON_KAFKA, reason="Apache Kafka takes whatever expands, on a thread that does nothing else"
)
def test_the_batches_of_one_request_expand_to_so_much_in_all(connection: Connection, topic: Any) -> None:
    partitions = 12
    compacted = topic(partitions=partitions, config=COMPACTED)
    send(connection, compacted, *[bomb(30 * MEBIBYTE)] * partitions)
    assert received(connection) == [("none", 0)] * 9 + [("message_too_large", -1)] * 3
