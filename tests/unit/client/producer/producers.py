"""Producers on a stage, and what they have written."""

from __future__ import annotations

from typing import Any

from tests.unit.client.scripted import ScriptedBroker
from tests.unit.client.stage import Stage
from tidelog.client.producer.producer import Producer
from tidelog.record import read_records
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import ProduceRequest

ORDERS = TopicPartition("orders", 0)


PRODUCE = ProduceRequest.API_KEY


def producer_on(stage: Stage, *brokers: ScriptedBroker, **options: Any) -> Producer:
    addresses = [broker.address for broker in brokers] or ["broker1:9092"]
    return Producer(bootstrap_servers=addresses, environment=stage.environment, **options)


def values(stage: Stage, partition: TopicPartition = ORDERS) -> list[bytes]:
    log = stage.world.logs[partition]
    return [record.value or b"" for batch in log.batches for record in read_records(batch.data)]


def batches(stage: Stage, partition: TopicPartition = ORDERS) -> int:
    return len(stage.world.logs[partition].batches)
