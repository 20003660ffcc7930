"""Consumers on a stage, and records for them to read."""

from __future__ import annotations

from typing import Any

from tests.unit.client.stage import Stage
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.fetch.assigned_partition import Record
from tidelog.record import BatchBuilder, Codec
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchRequest

ORDERS = TopicPartition("orders", 0)


FETCH = FetchRequest.API_KEY


def consumer_on(stage: Stage, **options: Any) -> Consumer:
    return Consumer(
        **{
            "bootstrap_servers": "broker1:9092",
            "auto_offset_reset": "earliest",
            "environment": stage.environment,
            **options,
        }
    )


def batch(*values: bytes, codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.add(b"k", value, 1_000, [("h", b"1")])
    return builder.build(codec=codec)


def fill(stage: Stage, *values: bytes, partition: TopicPartition = ORDERS, per_batch: int = 3) -> None:
    for at in range(0, len(values), per_batch):
        stage.world.logs[partition].write(batch(*values[at : at + per_batch]))
    stage.world.wake()


async def drain(consumer: Consumer, count: int, timeout_ms: int = 60_000) -> list[Record]:
    received: list[Record] = []
    while len(received) < count:
        records = await consumer.poll(timeout_ms)
        assert records, f"only {len(received)} of {count} came"
        received += records
    return received
