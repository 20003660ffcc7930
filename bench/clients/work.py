"""One client writes or reads records, in a process of its own; prints what that took as JSON.

`python -m bench.clients.work CLIENT ACTION BOOTSTRAP TOPIC SIZE COUNT SETTINGS`.  The topic has one partition;
readers find the records there.  Preparing (imports, connections, metadata) does not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

BATCH_BYTES = 128 * 1024
LINGER_MS = 5
BUFFER_BYTES = 32 * 1024 * 1024


class Meter:
    """CPU of all threads and time, between `begin` and `end`."""

    def begin(self) -> None:
        self._cpu, self._wall = self._now(), time.perf_counter()

    def end(self, count: int) -> None:
        cpu, wall = self._now() - self._cpu, time.perf_counter() - self._wall
        print(json.dumps({"cpu_us": cpu / count * 1e6, "wall_us": wall / count * 1e6}))

    def _now(self) -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime


def tidelog_rows(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from tidelog import Producer

    meter = Meter()
    options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if same else {}
    with Producer(bootstrap_servers=bootstrap, buffer_memory=BUFFER_BYTES, **options) as producer:
        producer.send(topic, value).get(30)
        send = producer.send
        meter.begin()
        for _ in range(count):
            send(topic, value)
        producer.flush(120)
        meter.end(count)


def tidelog_arrow(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    import pyarrow

    from tidelog import Producer

    meter = Meter()
    table = pyarrow.table({"value": pyarrow.array([value] * count)})
    with Producer(bootstrap_servers=bootstrap, buffer_memory=BUFFER_BYTES) as producer:
        producer.send_batch(topic, table.slice(0, 10)).get(30)
        meter.begin()
        producer.send_batch(topic, table).get(120)
        meter.end(count)


def confluent(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from confluent_kafka import Producer

    meter = Meter()
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 0,
    }
    if same:
        settings |= {"batch.size": BATCH_BYTES, "linger.ms": LINGER_MS}
    producer = Producer(settings)
    producer.produce(topic, value)
    producer.flush(30)
    produce = producer.produce
    meter.begin()
    for _ in range(count):
        while True:
            try:
                produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(120)
    meter.end(count)


def kafka_python(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from kafka import KafkaProducer

    meter = Meter()
    options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if same else {}
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, **options)
    producer.send(topic, value).get(30)
    send = producer.send
    meter.begin()
    for _ in range(count):
        send(topic, value)
    producer.flush(120)
    meter.end(count)
    producer.close()


def aiokafka(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from aiokafka import AIOKafkaProducer

    async def work() -> None:
        meter = Meter()
        options: dict[str, Any] = {"max_batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if same else {}
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, **options)
        await producer.start()
        await producer.send_and_wait(topic, value)
        meter.begin()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        meter.end(count)
        await producer.stop()

    asyncio.run(work())


def tidelog_aio(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from tidelog.aio import Producer

    async def work() -> None:
        meter = Meter()
        options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if same else {}
        async with Producer(bootstrap_servers=bootstrap, buffer_memory=BUFFER_BYTES, **options) as producer:
            await (await producer.send(topic, value))
            meter.begin()
            for _ in range(count):
                await producer.send(topic, value)
            await producer.flush()
            meter.end(count)

    asyncio.run(work())


def read_tidelog_arrow(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from tidelog import Consumer, TopicPartition
    from tidelog.record.columns import schema

    meter = Meter()
    schema()  # loads pyarrow
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        meter.begin()
        found = 0
        while found < count:
            for batch in [consumer.poll_arrow(timeout_ms=1_000)]:
                found += 0 if batch is None else batch.num_rows
        meter.end(found)


def read_tidelog(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from tidelog import Consumer, TopicPartition

    meter = Meter()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        meter.begin()
        found = 0
        while found < count:
            for record in consumer.poll(1_000):
                found += len(record.value) > 0
        meter.end(found)


def read_confluent(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from confluent_kafka import Consumer, TopicPartition

    meter = Meter()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    meter.begin()
    found = 0
    while found < count:
        for message in consumer.consume(500, timeout=1.0):
            found += len(message.value()) > 0
    meter.end(found)
    consumer.close()


def read_kafka_python(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from kafka import KafkaConsumer, TopicPartition

    meter = Meter()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(topic, 0)])
    meter.begin()
    found = 0
    while found < count:
        for records in consumer.poll(1_000).values():
            for record in records:
                found += len(record.value) > 0
    meter.end(found)
    consumer.close()


def read_aiokafka(bootstrap: str, topic: str, value: bytes, count: int, same: bool) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> None:
        meter = Meter()
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        meter.begin()
        found = 0
        while found < count:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                for record in records:
                    found += len(record.value) > 0
        meter.end(found)
        await consumer.stop()

    asyncio.run(work())


Work = Callable[[str, str, bytes, int, bool], None]
WRITERS: dict[str, Work] = {
    "confluent-kafka": confluent,
    "tidelog": tidelog_rows,
    "tidelog.aio": tidelog_aio,
    "tidelog, Arrow": tidelog_arrow,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
READERS: dict[str, Work] = {
    "confluent-kafka": read_confluent,
    "tidelog": read_tidelog,
    "tidelog, Arrow": read_tidelog_arrow,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
}


def main() -> None:
    client, action, bootstrap, topic, size, count, settings = sys.argv[1:]
    work = (WRITERS if action == "produce" else READERS)[client]
    work(bootstrap, topic, os.urandom(int(size)), int(count), settings == "same")


if __name__ == "__main__":
    main()
