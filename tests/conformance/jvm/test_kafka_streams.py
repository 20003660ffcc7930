"""An application of Kafka Streams in both group protocols, on Tidelog and on Apache Kafka: windowed join, global table,
repartition and changelog topics, exactly once, standby tasks, interactive queries; its instances are killed and come back.

The expected records are computed here, so that Tidelog and Apache Kafka are held against the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA, SECURED
from tests.conformance.jvm.applications import StreamsInstance, compiled
from tests.conformance.jvm.maven import STREAMS
from tests.conformance.process import BrokerProcess, free_port, wait_until
from tidelog import Admin, ConfigResource, Consumer, NewTopic, Producer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.deep,
    pytest.mark.skipif(SECURED, reason="the application connects without a log-in"),
]

WAVE, WAVES = 150, 3
CUSTOMERS, PRODUCTS = 20, 7
STEP_MS, PAYMENT_MS = 60_000, 5_000
SECONDS_MAX = 240
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "1000",
    "transaction.max.timeout.ms": "900000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := STREAMS.resolve():
        pytest.skip(reason)
    return compiled(Path(__file__).with_name("OrdersApp.java"), tmp_path_factory.mktemp("classes"))


@pytest.fixture
def broker(own_broker: Any) -> BrokerProcess:
    if ON_KAFKA:
        started: BrokerProcess = own_broker(SETTINGS)
    else:
        started = own_broker(SETTINGS | {"transaction.state.log.replication.factor": "1"})
    return started


class Orders:
    """What goes in, and what must come out."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.paid: Counter[tuple[bytes, bytes]] = Counter()
        self.counts: Counter[str] = Counter()
        self._sent = 0
        # Records of the last hours: older ones are deleted by retention.
        self._first_ms = int(time.time() * 1000) - WAVE * WAVES * STEP_MS

    def create(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name, partitions=3) for name in ("orders", "payments", "paid", "counted")]
                + [NewTopic("regions", partitions=2)]
            )
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for customer in range(CUSTOMERS):
                producer.send("regions", b"region-%d" % (customer % 3), key=b"c%d" % customer)

    def send(self, count: int) -> None:
        """A customer's orders are 20 minutes apart; each has one payment within the window."""
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(self._sent, self._sent + count):
                customer, product = number % CUSTOMERS, number % PRODUCTS
                at_ms = self._first_ms + number * STEP_MS
                key = b"c%d" % customer
                producer.send("orders", b"o%d/p%d" % (number, product), key=key, timestamp=at_ms)
                producer.send("payments", b"m%d" % number, key=key, timestamp=at_ms + PAYMENT_MS)
                joined = b"o%d/p%d m%d region-%d" % (number, product, number, customer % 3)
                self.paid[key, joined] += 1
                self.counts[f"p{product}"] += 1
        self._sent += count

    def counted(self) -> Counter[tuple[bytes, bytes]]:
        """Without a cache every count is written once."""
        return Counter(
            {
                (product.encode(), b"%d" % count): 1
                for product, most in self.counts.items()
                for count in range(1, most + 1)
            }
        )


def committed(bootstrap: str, topic: str) -> Counter[tuple[bytes, bytes]]:
    """All records that a reader of committed transactions gets."""
    records: Counter[tuple[bytes, bytes]] = Counter()
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while batch := consumer.poll(timeout_ms=2000):
            for record in batch:
                records[record.key, record.value] += 1
    return records


def application(bootstrap: str, home: Path, port: int, protocol: str) -> dict[str, str]:
    settings = {
        "application.id": "orders-app",
        "bootstrap.servers": bootstrap,
        "application.server": f"127.0.0.1:{port}",
        "state.dir": str(home / "state"),
        "group.protocol": protocol,
        "processing.guarantee": "exactly_once_v2",
        "replication.factor": "1",
        "commit.interval.ms": "100",
        "statestore.cache.max.bytes": "0",
        "max.task.idle.ms": "1000",
        "num.stream.threads": "2",
        "consumer.auto.offset.reset": "earliest",
        "producer.transaction.timeout.ms": "10000",
    }
    if protocol == "classic":
        settings |= {
            "num.standby.replicas": "1",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
        }
    return settings


@pytest.fixture
def instances(
    broker: BrokerProcess, classes: Path, tmp_path: Path, protocol: str
) -> Iterator[list[StreamsInstance]]:
    made = []
    for name in ("first", "second"):
        home = tmp_path / name
        settings = application(broker.bootstrap, home, free_port(), protocol)
        made.append(StreamsInstance(home, classes, "OrdersApp", settings, ""))
    yield made
    for instance in made:
        instance.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_instances_that_are_killed_process_every_record_once(
    broker: BrokerProcess, instances: list[StreamsInstance], protocol: str
) -> None:
    bootstrap, (first, second) = broker.bootstrap, instances
    orders = Orders(bootstrap)
    orders.create()
    if protocol == "streams":
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.alter_configs({ConfigResource("group", "orders-app"): {"streams.num.standby.replicas": 1}})
    for instance in instances:
        instance.start()
    first.await_running()
    orders.send(WAVE)
    wait_until(lambda: bool(committed(bootstrap, "paid")), SECONDS_MAX, "the first results are committed")
    first.kill()
    orders.send(WAVE)
    first.start()
    second.await_running()
    second.kill()
    orders.send(WAVE)
    second.start()

    def results(topic: str, count: int) -> Counter[tuple[bytes, bytes]]:
        records: Counter[tuple[bytes, bytes]] = Counter()

        def are_all_there() -> bool:
            records.clear()
            records.update(committed(bootstrap, topic))
            return records.total() >= count

        wait_until(are_all_there, SECONDS_MAX, f"{count} records in {topic}, not {records.total()}")
        return records

    assert results("paid", WAVE * WAVES) == orders.paid
    assert results("counted", WAVE * WAVES) == orders.counted()
    for instance in instances:
        instance.await_running()

    def every_key_is_found() -> bool:
        """By any instance: the one that it names has the count."""
        for product, count in orders.counts.items():
            host, value = first.get(product)
            other_host, other_value = second.get(product)
            if host != other_host or str(count) not in (value, other_value):
                return False
        return True

    wait_until(every_key_is_found, SECONDS_MAX, "interactive queries find every key", every=1.0)
