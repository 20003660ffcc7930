"""What the scenarios have in common: topics to load, a warm-up, and the CPU time that a load took."""

from __future__ import annotations

from bench import usage
from bench.admin import Admin, Identity, Topic
from bench.bulk import BulkConsumer, BulkProducer
from bench.closed_loop import ClosedLoop
from bench.requests import Batch, batch, single
from bench.scale import Scale
from tests.conformance.process import BrokerProcess

BATCH_BYTES = 64 * 1024
BULK_PARTITIONS = 2
SMALL_PARTITIONS = 10
SMALL_RECORD_BYTES = 100


def large(record_bytes: int) -> Batch:
    return batch(record_bytes, BATCH_BYTES)


def identities(admin: Admin, count: int) -> list[Identity]:
    return [admin.producer() for _ in range(count)]


def bulk_producer(admin: Admin, port: int, topic: Topic, content: Batch) -> BulkProducer:
    return BulkProducer(port, topic, [content], identities(admin, topic.partitions))


def warm_up(broker: BrokerProcess, scale: Scale) -> None:
    """All that the scenarios do, for a while, so that a JVM has compiled its hot paths before anything counts.
    Tidelog, which needs none, gets the same."""
    content = large(1000)
    with Admin(broker.port) as admin:
        topic = admin.create_topic("warm-up", BULK_PARTITIONS)
        with bulk_producer(admin, broker.port, topic, content) as producer:
            written = producer.run(scale.warm_up_bytes // 2).amount
            ends = producer.ends()
        with BulkConsumer(broker.port, topic, content) as consumer:
            for _ in range(2):
                consumer.run(ends, written)
        admin.delete_topic(topic)
        topic = admin.create_topic("warm-up-small", SMALL_PARTITIONS)
        names = identities(admin, 20)
        with ClosedLoop(broker.port, topic, single(SMALL_RECORD_BYTES), len(names), names) as loop:
            loop.prepare(scale.warm_up_requests)
            loop.run()
        admin.delete_topic(topic)


class CpuMeter:
    """The CPU seconds of a broker between two readings."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._pid = broker.pid
        self._before = usage.cpu_seconds(self._pid)

    def read(self) -> float:
        """Since the last reading, or since the meter was made."""
        before, self._before = self._before, usage.cpu_seconds(self._pid)
        return self._before - before
