"""Producers and consumers of the client libraries behind one shape, so that each test runs on all of them.

Consumers read one partition by assignment, without a group.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import kafka

READ_SECONDS_MAX = 180
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Message(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0  # 0: the client's clock


class Read(NamedTuple):
    """A message as a consumer saw it."""

    offset: int
    message: Message
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime


class Produced(NamedTuple):
    partition: int
    offset: int


def confluent_produce(
    bootstrap: str,
    topic: str,
    messages: Iterable[Message],
    codec: str = "none",
    partition: int = 0,
    **config: Any,
) -> list[Produced]:
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "linger.ms": 5,
        "message.max.bytes": 4_000_000,
    }
    producer = confluent_kafka.Producer(settings | config)
    found: dict[int, Produced] = {}

    def delivered(number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            found[number] = Produced(message.partition(), message.offset())

        return report

    count = 0
    for number, message in enumerate(messages):
        timestamp: dict[str, Any] = {"timestamp": message.timestamp} if message.timestamp else {}
        producer.produce(
            topic,
            message.value,
            message.key,
            partition,
            on_delivery=delivered(number),
            headers=list(message.headers) or None,
            **timestamp,
        )
        producer.poll(0)
        count += 1
    assert producer.flush(READ_SECONDS_MAX) == 0
    return [found[number] for number in range(count)]


def confluent_consume(
    bootstrap: str, topic: str, count: int, partition: int = 0, start: int = 0, **config: Any
) -> list[Read]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = confluent_kafka.Consumer(settings | {"fetch.wait.max.ms": 100} | config)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, start)])
        found: list[Read] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), timeout=0.5):
                if message.error():
                    raise confluent_kafka.KafkaException(message.error())
                kind, timestamp = message.timestamp()
                headers: Any = message.headers() or ()
                content = Message(message.value(), message.key(), tuple(headers), timestamp)
                found.append(Read(message.offset() or 0, content, kind - 1))
        return found
    finally:
        consumer.close()


def kafka_python_produce(
    bootstrap: str,
    topic: str,
    messages: Iterable[Message],
    codec: str = "none",
    partition: int = 0,
    **config: Any,
) -> list[Produced]:
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "max_request_size": 4_000_000}
    settings["compression_type"] = None if codec == "none" else codec
    producer = kafka.KafkaProducer(**(settings | config))
    try:
        futures = [
            producer.send(
                topic,
                message.value,
                message.key,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp or None,
            )
            for message in messages
        ]
        producer.flush(timeout=READ_SECONDS_MAX)
        answers = [future.get(READ_SECONDS_MAX) for future in futures]
        return [Produced(answer.partition, answer.offset) for answer in answers]
    finally:
        producer.close()


def kafka_python_consume(
    bootstrap: str, topic: str, count: int, partition: int = 0, start: int = 0, **config: Any
) -> list[Read]:
    settings = {
        "bootstrap_servers": bootstrap,
        "consumer_timeout_ms": READ_SECONDS_MAX * 1000,
        "group_id": None,
    }
    consumer = kafka.KafkaConsumer(**(settings | {"fetch_max_wait_ms": 100} | config))
    try:
        where = kafka.TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, start)
        return [
            Read(m.offset, Message(m.value, m.key, tuple(m.headers), m.timestamp), m.timestamp_type)
            for m in itertools.islice(consumer, count)
        ]
    finally:
        consumer.close()


def aiokafka_produce(
    bootstrap: str,
    topic: str,
    messages: Iterable[Message],
    codec: str = "none",
    partition: int = 0,
    **config: Any,
) -> list[Produced]:
    async def run() -> list[Produced]:
        settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "max_request_size": 4_000_000}
        settings["compression_type"] = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(**(settings | config)) as producer:
            futures = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    partition=partition,
                    timestamp_ms=message.timestamp or None,
                    headers=list(message.headers) or None,
                )
                for message in messages
            ]
            answers = await asyncio.gather(*futures)  # None where acks=0 asked for no answer
            return [Produced(found.partition, found.offset) for found in answers if found]

    return asyncio.run(run())


def aiokafka_consume(
    bootstrap: str, topic: str, count: int, partition: int = 0, start: int = 0, **config: Any
) -> list[Read]:
    async def run() -> list[Read]:
        settings = {"bootstrap_servers": bootstrap, "group_id": None, "fetch_max_wait_ms": 100}
        async with aiokafka.AIOKafkaConsumer(**(settings | config)) as consumer:
            where = aiokafka.TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, start)
            found: list[Read] = []
            async with asyncio.timeout(READ_SECONDS_MAX):
                while len(found) < count:
                    m = await consumer.getone()
                    content = Message(m.value, m.key, tuple(m.headers), m.timestamp)
                    found.append(Read(m.offset, content, m.timestamp_type))
            return found

    return asyncio.run(run())


PRODUCERS: dict[str, Callable[..., list[Produced]]] = {
    "confluent": confluent_produce,
    "kafka-python": kafka_python_produce,
    "aiokafka": aiokafka_produce,
}
CONSUMERS: dict[str, Callable[..., list[Read]]] = {
    "confluent": confluent_consume,
    "kafka-python": kafka_python_consume,
    "aiokafka": aiokafka_consume,
}


def can_write(client: str, codec: str) -> bool:
    """kafka-python takes snappy from a package of its own, which is not among the test dependencies."""
    return (client, codec) != ("kafka-python", "snappy")
