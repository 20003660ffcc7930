"""Each client writes the same records; what comes before (imports, connections, metadata) does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bench.clients.meter import BATCH_BYTES, BUFFER_BYTES, LINGER_MS, POOL, TRACE, Load, Meter


def tidelog_rows(load: Load) -> None:
    from tidelog import Producer

    with Producer(
        bootstrap_servers=load.bootstrap, buffer_memory=BUFFER_BYTES, **_tidelog_options(load)
    ) as producer:
        topic, value, send, meter = load.topic, load.value, producer.send, Meter()
        keys, values = load.pool()
        headers = [TRACE]
        send(topic, value).get(30)
        meter.begin()
        if load.full:
            for at in range(load.count):
                send(topic, values[at % POOL], keys[at % POOL], headers)
        else:
            for _ in range(load.count):
                send(topic, value)
        producer.flush(120)
        meter.end(load.count)


def tidelog_aio(load: Load) -> None:
    from tidelog.aio import Producer

    async def work() -> None:
        topic, value, meter = load.topic, load.value, Meter()
        async with Producer(
            bootstrap_servers=load.bootstrap, buffer_memory=BUFFER_BYTES, **_tidelog_options(load)
        ) as producer:
            await (await producer.send(topic, value))
            meter.begin()
            for _ in range(load.count):
                await producer.send(topic, value)
            await producer.flush()
            meter.end(load.count)

    asyncio.run(work())


def _tidelog_options(load: Load) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if load.same else {}
    return {**options, "compression_type": "lz4"} if load.full else options


def tidelog_arrow(load: Load) -> None:
    import pyarrow

    from tidelog import Producer

    meter = Meter()
    columns: dict[str, Any] = {"value": pyarrow.array([load.value] * load.count)}
    if load.full:
        keys, values = load.pool()
        header = pyarrow.struct(
            [pyarrow.field("key", pyarrow.string()), pyarrow.field("value", pyarrow.binary())]
        )
        one = [{"key": TRACE[0], "value": TRACE[1]}]
        turns = range(load.count)
        columns = {
            "key": pyarrow.array([keys[at % POOL] for at in turns], pyarrow.binary()),
            "value": pyarrow.array([values[at % POOL] for at in turns], pyarrow.binary()),
            "headers": pyarrow.array([one] * load.count, pyarrow.list_(header)),
        }
    table = pyarrow.table(columns)
    named = "headers" if load.full else None
    compression = "lz4" if load.full else "none"
    with Producer(
        bootstrap_servers=load.bootstrap, buffer_memory=BUFFER_BYTES, compression_type=compression
    ) as producer:
        producer.send_batch(load.topic, table.slice(0, 10), headers=named).get(30)
        meter.begin()
        producer.send_batch(load.topic, table, headers=named).get(120)
        meter.end(load.count)


def confluent(load: Load) -> None:
    from confluent_kafka import Producer

    settings: dict[str, Any] = {
        "bootstrap.servers": load.bootstrap,
        "enable.idempotence": True,
        "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 0,
    }
    if load.same:
        settings |= {"batch.size": BATCH_BYTES, "linger.ms": LINGER_MS}
    if load.full:
        settings["compression.type"] = "lz4"
    producer = Producer(settings)
    topic, value, produce, meter = load.topic, load.value, producer.produce, Meter()
    keys, values = load.pool()
    headers = [TRACE]
    produce(topic, value)
    producer.flush(30)
    meter.begin()
    for at in range(load.count):
        while True:
            try:
                if load.full:
                    produce(topic, values[at % POOL], keys[at % POOL], headers=headers)
                else:
                    produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(120)
    meter.end(load.count)


def kafka_python(load: Load) -> None:
    from kafka import KafkaProducer

    options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if load.same else {}
    producer = KafkaProducer(bootstrap_servers=load.bootstrap, acks="all", enable_idempotence=True, **options)
    topic, value, send, meter = load.topic, load.value, producer.send, Meter()
    send(topic, value).get(30)
    meter.begin()
    for _ in range(load.count):
        send(topic, value)
    producer.flush(120)
    meter.end(load.count)
    producer.close()


def aiokafka(load: Load) -> None:
    from aiokafka import AIOKafkaProducer

    async def work() -> None:
        topic, value, meter = load.topic, load.value, Meter()
        options: dict[str, Any] = {"max_batch_size": BATCH_BYTES, "linger_ms": LINGER_MS} if load.same else {}
        producer = AIOKafkaProducer(bootstrap_servers=load.bootstrap, enable_idempotence=True, **options)
        await producer.start()
        await producer.send_and_wait(topic, value)
        meter.begin()
        for _ in range(load.count):
            await producer.send(topic, value)
        await producer.flush()
        meter.end(load.count)
        await producer.stop()

    asyncio.run(work())


WRITERS: dict[str, Callable[[Load], None]] = {
    "confluent-kafka": confluent,
    "tidelog": tidelog_rows,
    "tidelog.aio": tidelog_aio,
    "tidelog, Arrow": tidelog_arrow,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
