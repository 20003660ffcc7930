"""SIGTERM and Ctrl-C under load: a clean end, nothing to recover afterwards, nothing acknowledged lost; and pauses."""

from __future__ import annotations

import signal
import time

import confluent_kafka
import kafka
import pytest

from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, await_leaders, create_topic, describe, fetch_fields, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.history import Writer, check

TOPIC = "numbers"


@pytest.fixture
def broker(new_broker: BrokerFactory) -> FaultyBroker:
    made = new_broker(SMALL)
    made.start()
    create_topic(made.bootstrap, TOPIC, 3)
    return made


def started_without_recovery(broker: FaultyBroker) -> None:
    """Recovery raises the leader epochs; a start after a clean end has no reason to."""
    assert (broker.data / ".clean-shutdown").exists()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        await_leaders(connection, TOPIC, 3)
        assert {p.leader_epoch for p in describe(connection, TOPIC).partitions} == {0}
    assert "recovered" not in broker.log_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_under_load_is_clean(number: signal.Signals, broker: FaultyBroker) -> None:
    waiting = Connection(broker.bootstrap)  # with a long poll, which must not hold up the end
    waiting.send("fetch", 12, **fetch_fields(TOPIC, 0, max_wait=300_000, min_bytes=1 << 30))
    with Writer(broker.bootstrap, TOPIC, 3) as writer:
        wait_until(lambda: writer.acknowledged > 500, 30, "acknowledgements")
        broker.send(number)
        assert broker.wait(10) == 0
        started_without_recovery(broker)
    check(writer, broker.bootstrap)
    waiting.close()


@pytest.mark.parametrize("wait_s", [0.0, 0.01, 0.1])
def test_an_impatient_operator_does_no_harm(wait_s: float, broker: FaultyBroker) -> None:
    with Writer(broker.bootstrap, TOPIC, 3) as writer:
        wait_until(lambda: writer.acknowledged > 300, 30, "acknowledgements")
        broker.send(signal.SIGINT)
        for _ in range(3):
            time.sleep(wait_s)
            if broker.alive():
                broker.send(signal.SIGINT)
        assert broker.wait(10) in (0, -signal.SIGINT)
        broker.start()
    check(writer, broker.bootstrap)


def test_an_end_while_starting(broker: FaultyBroker) -> None:
    """However far it has come, the next start finds everything."""
    with Connection(broker.bootstrap) as connection:
        for index in range(20):
            append(connection, TOPIC, batch([b"%d" % index]))
    for delay_s in (0.05, 0.1, 0.15, 0.2, 0.3):
        broker.kill()
        broker.spawn()
        time.sleep(delay_s)
        broker.send(signal.SIGTERM)
        assert broker.wait(10) in (0, -signal.SIGTERM)
        broker.start()
    with Connection(broker.bootstrap) as connection:
        await_leaders(connection, TOPIC, 3)
        assert values(connection, TOPIC) == [b"%d" % index for index in range(20)]


def test_a_pause_is_survived(broker: FaultyBroker) -> None:
    """SIGSTOP: clients wait, and go on when the broker goes on."""
    pause(broker, 1)


@pytest.mark.deep
def test_a_pause_longer_than_the_session_is_survived(broker: FaultyBroker) -> None:
    """The broker's own lease ends meanwhile, and clients give up their requests."""
    pause(broker, 10)


def pause(broker: FaultyBroker, seconds: float) -> None:
    with Writer(broker.bootstrap, TOPIC, 3, socket_timeout_ms=3000) as writer:
        wait_until(lambda: writer.acknowledged > 300, 30, "acknowledgements")
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=None,
            request_timeout_ms=4000,
            consumer_timeout_ms=20_000,
        )
        consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        next(consumer)
        broker.send(signal.SIGSTOP)
        time.sleep(seconds)
        broker.send(signal.SIGCONT)
        reached = writer.acknowledged + 300
        wait_until(lambda: writer.acknowledged > reached, 30, "acknowledgements after the pause")
        for _ in range(150):
            next(consumer)
        consumer.close()
        with Connection(broker.bootstrap) as connection:
            wait_until(lambda: registered(connection), 10, "the broker is registered again")
    check(writer, broker.bootstrap)
    started_after_a_clean_end(broker)


def registered(connection: Connection) -> bool:
    answer = connection.call("metadata", 12, topics=[])
    coordinator = connection.call("find_coordinator", 4, key_type=0, coordinator_keys=["group"])
    return [b.node_id for b in answer.brokers] == [1] and coordinator.coordinators[0].error_code == 0


def started_after_a_clean_end(broker: FaultyBroker) -> None:
    broker.stop()
    broker.start()
    assert "recovered" not in broker.log_text()


def test_short_pauses_are_only_a_delay(broker: FaultyBroker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    failures: list[object] = []
    for number in range(10):
        broker.send(signal.SIGSTOP)
        producer.produce(
            TOPIC, b"%d" % number, partition=0, on_delivery=lambda e, _: e and failures.append(e)
        )
        producer.poll(0.1)
        broker.send(signal.SIGCONT)
        assert producer.flush(20) == 0
    assert not failures
    with Connection(broker.bootstrap) as connection:
        assert values(connection, TOPIC) == [b"%d" % number for number in range(10)]
