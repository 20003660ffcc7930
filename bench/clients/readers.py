"""Each client reads the same records and looks at every value; what comes before does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench.clients.meter import Load, Meter


def tidelog_rows(load: Load) -> None:
    from tidelog import Consumer, TopicPartition

    meter = Meter()
    with Consumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(load.topic, 0)])
        meter.begin()
        found = bytes_found = 0
        while found < load.count:
            for record in consumer.poll(1_000):
                found += 1
                bytes_found += len(record.value or b"")
        meter.end(found)


def tidelog_aio(load: Load) -> None:
    from tidelog.aio import Consumer, TopicPartition

    async def work() -> None:
        meter = Meter()
        async with Consumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(load.topic, 0)])
            meter.begin()
            found = bytes_found = 0
            while found < load.count:
                for record in await consumer.poll(1_000):
                    found += 1
                    bytes_found += len(record.value or b"")
            meter.end(found)

    asyncio.run(work())


def tidelog_arrow(load: Load) -> None:
    from tidelog import Consumer, TopicPartition
    from tidelog.record.columns import schema

    meter = Meter()
    schema()  # loads pyarrow
    with Consumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(load.topic, 0)])
        meter.begin()
        found = 0
        while found < load.count:
            found += consumer.poll_arrow(timeout_ms=1_000).num_rows
        meter.end(found)


def confluent(load: Load) -> None:
    from confluent_kafka import Consumer, TopicPartition

    meter = Meter()
    consumer = Consumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(load.topic, 0, 0)])
    meter.begin()
    found = bytes_found = 0
    while found < load.count:
        for message in consumer.consume(500, timeout=1.0):
            found += 1
            bytes_found += len(message.value() or b"")
    meter.end(found)
    consumer.close()


def kafka_python(load: Load) -> None:
    from kafka import KafkaConsumer, TopicPartition

    meter = Meter()
    consumer = KafkaConsumer(
        bootstrap_servers=load.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(load.topic, 0)])
    meter.begin()
    found = bytes_found = 0
    while found < load.count:
        for records in consumer.poll(1_000).values():
            for record in records:
                found += 1
                bytes_found += len(record.value or b"")
    meter.end(found)
    consumer.close()


def aiokafka(load: Load) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> None:
        meter = Meter()
        consumer = AIOKafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(load.topic, 0)])
        meter.begin()
        found = bytes_found = 0
        while found < load.count:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                for record in records:
                    found += 1
                    bytes_found += len(record.value or b"")
        meter.end(found)
        await consumer.stop()

    asyncio.run(work())


READERS: dict[str, Callable[[Load], None]] = {
    "confluent-kafka": confluent,
    "tidelog": tidelog_rows,
    "tidelog.aio": tidelog_aio,
    "tidelog, Arrow": tidelog_arrow,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
