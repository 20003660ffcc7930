"""What survives the end of the broker's process, clean or not: records, offsets, producers, topics, settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.batches import batch
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import (
    append,
    await_leaders,
    create_topic,
    describe,
    fetch_fields,
    list_offset,
    new_producer_id,
    produce,
    values,
)

TOPIC = "kept"
COUNT = 50


def stop(broker: BrokerProcess) -> None:
    broker.stop()


def kill(broker: BrokerProcess) -> None:
    broker.kill()


ENDS = pytest.mark.parametrize("end", [stop, kill])
End = Callable[[BrokerProcess], None]


@pytest.fixture
def broker(own_broker: Any) -> BrokerProcess:
    """A broker for this test alone, with one topic."""
    started: BrokerProcess = own_broker()
    create_topic(started.bootstrap, TOPIC, 1)
    return started


def connect(broker: BrokerProcess) -> Connection:
    """A connection to a broker that leads the topic (again)."""
    connection = Connection(broker.bootstrap)
    await_leaders(connection, TOPIC)
    return connection


def fill(broker: BrokerProcess, count: int = COUNT) -> list[bytes]:
    sent = [b"%d" % index for index in range(count)]
    with connect(broker) as connection:
        for value in sent:
            append(connection, TOPIC, batch([value]))
    return sent


@ENDS
def test_acknowledged_records_are_there_and_offsets_go_on(end: End, broker: BrokerProcess) -> None:
    sent = fill(broker)
    end(broker)
    broker.start()
    with connect(broker) as connection:
        assert values(connection, TOPIC) == sent
        assert list_offset(connection, TOPIC, -1).offset == COUNT
        assert append(connection, TOPIC, batch([b"next"])) == COUNT


def test_records_survive_several_kills(broker: BrokerProcess) -> None:
    sent: list[bytes] = []
    for round_number in range(3):
        with connect(broker) as connection:
            for index in range(10):
                value = b"%d-%d" % (round_number, index)
                assert append(connection, TOPIC, batch([value])) == len(sent)
                sent.append(value)
        broker.kill()
        broker.start()
    with connect(broker) as connection:
        assert values(connection, TOPIC) == sent


@ENDS
def test_a_duplicate_is_still_recognised(end: End, broker: BrokerProcess) -> None:
    with connect(broker) as connection:
        producer_id, epoch = new_producer_id(connection)
        batches = [
            batch([b"%d" % s], producer_id=producer_id, producer_epoch=epoch, base_sequence=s)
            for s in range(7)
        ]
        for each in batches[:6]:
            append(connection, TOPIC, each)
    end(broker)
    broker.start()
    with connect(broker) as connection:
        again = produce(connection, TOPIC, batches[5])
        assert (again.error_code, again.base_offset) == (0, 5)
        gap = batch([b"x"], producer_id=producer_id, producer_epoch=epoch, base_sequence=9)
        assert produce(connection, TOPIC, gap).error_code.name == "out_of_order_sequence_number"
        assert append(connection, TOPIC, batches[6]) == 6
        assert values(connection, TOPIC) == [b"%d" % s for s in range(7)]


@ENDS
def test_producer_ids_are_not_given_twice(end: End, broker: BrokerProcess) -> None:
    with connect(broker) as connection:
        before = {new_producer_id(connection)[0] for _ in range(5)}
    end(broker)
    broker.start()
    with connect(broker) as connection:
        assert not before & {new_producer_id(connection)[0] for _ in range(5)}


@ENDS
def test_topics_and_settings_survive(end: End, broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "other", 3, {"retention.ms": "12345000"})
    with connect(broker) as connection:
        before = describe(connection, "other").topic_id
        cluster = connection.call("metadata", 12, topics=[]).cluster_id
        create_topic(broker.bootstrap, "gone", 1)
        connection.call("delete_topics", 6, topics=[{"name": "gone"}], timeout=5000)
    end(broker)
    broker.start()
    with connect(broker) as connection:
        await_leaders(connection, "other", 3)
        after = describe(connection, "other")
        assert (after.topic_id, len(after.partitions)) == (before, 3)
        assert connection.call("metadata", 12, topics=[]).cluster_id == cluster
        assert describe(connection, "gone").error_code.name == "unknown_topic_or_partition"
        resources = [{"resource_type": 2, "resource_name": "other", "configuration_keys": ["retention.ms"]}]
        found = connection.call("describe_configs", 4, resources=resources).results[0].configs[0]
        assert found.value == "12345000"


def test_deleted_records_stay_deleted(broker: BrokerProcess) -> None:
    # After a clean end, that is: a crash may bring back the last minute's deletions, in Kafka as well.
    fill(broker, 10)
    with connect(broker) as connection:
        wanted = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 4}]}]
        connection.call("delete_records", 2, topics=wanted, timeout=5000)
    broker.stop()
    broker.start()
    with connect(broker) as connection:
        assert list_offset(connection, TOPIC, -2).offset == 4
        assert values(connection, TOPIC, start=4) == [b"%d" % i for i in range(4, 10)]


def test_the_epoch_history_survives(broker: BrokerProcess) -> None:
    fill(broker, 5)
    with connect(broker) as connection:
        first = describe(connection, TOPIC).partitions[0].leader_epoch
    broker.kill()
    broker.start()
    with connect(broker) as connection:
        second = describe(connection, TOPIC).partitions[0].leader_epoch
        assert second >= first
        append(connection, TOPIC, batch([b"next"]))
        part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": first}
        answer = connection.call(
            "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": TOPIC, "partitions": [part]}]
        )
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch) == (0, first)
        assert found.end_offset == (5 if second > first else 6)


def segments(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data / f"{TOPIC}-0").glob("*.log"))


TAILS = {
    "zeros": b"\0" * 100,
    "ones": b"\xff" * 37,
    "half a batch": batch([b"torn"])[:-5],
    "a wrong checksum": batch([b"x"], crc=1),
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_torn_tail_is_cut(tail: str, broker: BrokerProcess) -> None:
    sent = fill(broker)
    broker.kill()
    with segments(broker)[-1].open("ab") as segment:
        segment.write(TAILS[tail])
    broker.start()
    with connect(broker) as connection:
        assert list_offset(connection, TOPIC, -1).offset == COUNT
        assert values(connection, TOPIC) == sent
        assert append(connection, TOPIC, batch([b"next"])) == COUNT
        assert values(connection, TOPIC) == [*sent, b"next"]


@ENDS
def test_lost_indexes_are_built_again(end: End, broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "indexed", 1, {"segment.bytes": str(1 << 20), "retention.ms": "-1"})
    with connect(broker) as connection:
        for index in range(10):
            append(connection, "indexed", batch([b"x" * 300_000], base_timestamp=1000 + index))
    end(broker)
    removed = [f for f in (broker.data / "indexed-0").iterdir() if f.suffix in (".index", ".timeindex")]
    assert len(removed) >= 4
    for file in removed:
        file.unlink()
    broker.start()
    with connect(broker) as connection:
        await_leaders(connection, "indexed")
        assert len(values(connection, "indexed")) == 10
        assert list_offset(connection, "indexed", 1007).offset == 7


@ENDS
def test_preallocated_segments_end_where_their_records_end(end: End, broker: BrokerProcess) -> None:
    config = {"preallocate": "true", "segment.bytes": str(1 << 20)}
    create_topic(broker.bootstrap, "preallocated", 1, config)
    with connect(broker) as connection:
        for index in range(8):
            append(connection, "preallocated", batch([b"%d" % index, b"x" * 300_000]))
    end(broker)
    broker.start()
    with connect(broker) as connection:
        await_leaders(connection, "preallocated")
        assert append(connection, "preallocated", batch([b"next"])) == 16
        found = values(connection, "preallocated")
        assert found[::2] == [*(b"%d" % index for index in range(8)), b"next"]


def test_fetch_sessions_end_with_the_process(broker: BrokerProcess) -> None:
    session = {"session_id": 0, "session_epoch": 0}
    with connect(broker) as connection:
        opened = connection.call("fetch", 12, **(fetch_fields(TOPIC, 0) | session))
    broker.stop()
    broker.start()
    with connect(broker) as connection:
        lost = {"session_id": opened.session_id, "session_epoch": 1, "topics": []}
        answer = connection.call("fetch", 12, **(fetch_fields(TOPIC, 0) | lost))
        assert answer.error_code.name == "fetch_session_id_not_found"


def test_a_clean_end_does_not_wait_for_long_polls(broker: BrokerProcess) -> None:
    waiting = connect(broker)
    waiting.send("fetch", 12, **fetch_fields(TOPIC, 0, max_wait=300_000, min_bytes=1))
    ended = threading.Thread(target=broker.stop)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    waiting.close()


@ENDS
def test_an_idempotent_producer_lives_through_a_restart(end: End, broker: BrokerProcess) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "batch.num.messages": 5}
    producer = confluent_kafka.Producer(settings | {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50})
    offsets: dict[int, int] = {}

    def delivered(number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            assert error is None, error
            offsets[number] = message.offset()

        return report

    def send(numbers: range) -> None:
        for number in numbers:
            producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=delivered(number))
            producer.poll(0)

    send(range(200))
    wait_until(lambda: producer.poll(0.05) and len(offsets) > 20, 20, "some are acknowledged", every=0)
    end(broker)
    send(range(200, 400))
    broker.start()
    send(range(400, 600))
    assert producer.flush(60) == 0
    with connect(broker) as connection:
        assert values(connection, TOPIC) == [b"%d" % number for number in range(600)]
    assert [offsets[number] for number in range(600)] == list(range(600))


@ENDS
def test_a_consumer_lives_through_a_restart(end: End, broker: BrokerProcess) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | {"reconnect.backoff.max.ms": 200})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    seen: list[Any] = []

    def read(count: int) -> bool:
        seen.extend(m.value() for m in consumer.consume(100, timeout=0.2) if not m.error())
        return len(seen) >= count

    try:
        fill(broker, 10)
        wait_until(lambda: read(10), 30, "the first ten", every=0)
        end(broker)
        broker.start()
        fill(broker, 10)
        wait_until(lambda: read(20), 30, "all twenty", every=0)
    finally:
        consumer.close()
    assert seen == [b"%d" % index for index in range(10)] * 2
