"""Transactions with other people's clients and Apache Kafka's tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.conformance.batches import TRANSACTIONAL, batch
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.test_exactly_once import read, read_committed
from tests.conformance.topics import append, create_topic, values
from tests.conformance.transactions import RawProducer, last_stable

Topic = Callable[..., str]
Produce = Callable[[str, str, str], None]


def with_confluent(bootstrap: str, id: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": id})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def with_aiokafka(bootstrap: str, id: str, topic: str) -> None:
    async def work() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    asyncio.run(work())


def with_kafka_python(bootstrap: str, id: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=id)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()


@pytest.mark.parametrize("write", [with_confluent, with_aiokafka, with_kafka_python])
def test_commits_are_read_and_aborts_are_not(
    bootstrap: str, connection: Connection, topic: Topic, name: Callable[[], str], write: Produce
) -> None:
    orders = topic()
    write(bootstrap, name(), orders)
    assert read_committed(bootstrap, orders) == [b"0", b"2"]
    assert values(connection, orders)[0::2] == [b"0", b"1", b"2", b"3"]


def test_a_second_confluent_instance_fences_the_first(
    bootstrap: str, topic: Topic, name: Callable[[], str]
) -> None:
    orders, settings = topic(), {"bootstrap.servers": bootstrap, "transactional.id": name()}
    first, second = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(orders, b"zombie")
    first.flush(30)
    second.init_transactions(30)
    second.begin_transaction()
    second.produce(orders, b"alive")
    second.commit_transaction(30)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        first.commit_transaction(30)
    assert fenced.value.args[0].fatal() or fenced.value.args[0].code() in (
        confluent_kafka.KafkaError._FENCED,
        confluent_kafka.KafkaError.PRODUCER_FENCED,
    )
    assert read_committed(bootstrap, orders) == [b"alive"]


def test_compaction_takes_what_was_aborted_and_leaves_what_is_open(
    bootstrap: str, topic: Topic, name: Callable[[], str]
) -> None:
    keyed = topic(
        config={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0"}
    )
    writer, slow = (
        confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name()})
        for _ in range(2)
    )
    for producer in (writer, slow):
        producer.init_transactions(30)
    for number in range(6):
        writer.begin_transaction()
        writer.produce(keyed, key=b"key", value=b"%d" % number)
        writer.flush(30)
        if number % 2:
            writer.abort_transaction(30)
        else:
            writer.commit_transaction(30)
    time.sleep(0.2)  # the next record begins a segment: one with an open transaction is not compacted at all
    slow.begin_transaction()
    for value in (b"first", b"second"):
        slow.produce(keyed, key=b"slow", value=value)
        slow.flush(30)
    ticks = confluent_kafka.Producer({"bootstrap.servers": bootstrap})

    def compacted(gone: set[bytes]) -> bool:
        ticks.produce(keyed, key=b"tick", value=b"tick")  # so that segments are closed
        ticks.flush(30)
        return not gone & set(read(bootstrap, keyed, "read_uncommitted"))

    wait_until(lambda: compacted({b"0", b"1", b"2", b"3", b"5"}), 150, "only the last commit is left", 0.3)
    assert [one for one in read(bootstrap, keyed, "read_uncommitted") if one != b"tick"] == [
        *(b"4", b"first", b"second")
    ]
    assert read(bootstrap, keyed, "read_committed") == [b"4"]
    slow.commit_transaction(30)
    wait_until(lambda: compacted({b"first"}), 150, "what was open is compacted, too", 0.3)
    assert [one for one in read(bootstrap, keyed, "read_committed") if one != b"tick"] == [b"4", b"second"]


def test_kafkas_tools_write_read_and_list_transactions(
    bootstrap: str, topic: Topic, name: Callable[[], str], kafka_tools: Callable[..., str]
) -> None:
    orders, id = topic(), name()
    kafka_tools(
        "producer-perf-test",
        *("--topic", orders, "--num-records", "200", "--record-size", "20", "--throughput", "100"),
        *("--transactional-id", id, "--transaction-duration-ms", "100", "--bootstrap-server", bootstrap),
    )
    read = kafka_tools(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", orders, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "200", "--timeout-ms", "20000", "--isolation-level", "read_committed"),
    )
    assert len(read.splitlines()) == 200
    shown = kafka_tools("transactions", "--bootstrap-server", bootstrap, "list")
    assert any(
        line.split()[0] == id and "CompleteCommit" in line for line in shown.splitlines() if line.strip()
    )
    described = kafka_tools(
        "transactions", "--bootstrap-server", bootstrap, "describe", "--transactional-id", id
    )
    assert "CompleteCommit" in described


def test_kafkas_tools_read_the_files_of_transactions(
    broker: BrokerProcess,
    connection: Connection,
    topic: Topic,
    name: Callable[[], str],
    kafka_tools: Callable[..., str],
) -> None:
    orders, producer = topic(), RawProducer(connection, name()).initialize()
    producer.send(orders, b"no")
    producer.end(commit=False)
    producer.settle()
    folder = broker.data / f"{orders}-0"
    out = kafka_tools("dump-log", "--files", str(folder / f"{0:020d}.txnindex"))
    assert f"producerId: {producer.id} firstOffset: 0 lastOffset: 1 lastStableOffset: 2" in out
    out = kafka_tools("dump-log", "--files", str(folder / f"{0:020d}.log"), "--deep-iteration")
    assert "endTxnMarker: ABORT" in out and "isvalid: false" not in out
    for log in broker.data.glob("__transaction_state-*/*.log"):
        if producer.transactional_id.encode() in log.read_bytes():
            out = kafka_tools(
                "dump-log", "--files", str(log), "--transaction-log-decoder", "--print-data-log"
            )
            assert producer.transactional_id in out and f'producerId":{producer.id}' in out.replace(" ", "")
            return
    raise AssertionError("no log has the transactional id")


def test_kafkas_tools_abort_a_hanging_transaction(
    bootstrap: str,
    connection: Connection,
    topic: Topic,
    name: Callable[[], str],
    kafka_tools: Callable[..., str],
) -> None:
    orders = topic()
    producer = RawProducer(connection, name()).initialize()
    start = producer.send(orders, b"hangs")
    where = ("--bootstrap-server", bootstrap)
    shown = kafka_tools("transactions", *where, "describe-producers", "--topic", orders, "--partition", "0")
    assert str(producer.id) in shown
    # Known to its coordinator and not too old: it does not hang.
    hanging = kafka_tools("transactions", *where, "find-hanging", "--topic", orders, "--partition", "0")
    assert str(producer.id) not in hanging
    kafka_tools(
        "transactions",
        *where,
        *("abort", "--topic", orders, "--partition", "0", "--start-offset", str(start)),
    )
    assert last_stable(connection, orders) == 2


def test_kafkas_tools_find_a_hanging_transaction_and_abort_it(
    own_broker: Any, kafka_tools: Callable[..., str]
) -> None:
    """One that no coordinator knows of, as data that were copied from elsewhere may have."""
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Connection(broker.bootstrap) as connection:
        RawProducer(connection, "known").initialize()  # the coordinator is there
        append(connection, "orders", batch([b"plain"]))
    broker.kill()
    hour_ago = int(time.time() * 1000) - 3_600_000
    foreign = batch(
        [b"hangs"],
        attributes=TRANSACTIONAL,
        base_offset=1,
        leader_epoch=0,
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
        base_timestamp=hour_ago,
    )
    with (broker.data / "orders-0" / f"{0:020d}.log").open("ab") as log:
        log.write(foreign)
    broker.start()
    where = ("--bootstrap-server", broker.bootstrap)
    here = ("--topic", "orders", "--partition", "0")
    with Connection(broker.bootstrap) as connection:
        assert last_stable(connection, "orders") == 1
        found = kafka_tools("transactions", *where, "find-hanging", *here)
        assert [line.split()[:3] for line in found.splitlines()[1:]] == [["orders", "0", "4711"]]
        kafka_tools("transactions", *where, "abort", *here, "--start-offset", "1")
        assert last_stable(connection, "orders") == 3
    assert read_committed(broker.bootstrap, "orders") == [b"plain"]
    assert "4711" not in kafka_tools("transactions", *where, "find-hanging", *here)
