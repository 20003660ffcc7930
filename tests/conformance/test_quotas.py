"""Client quotas with other people's clients: rates hold, and clients are told for how long they are throttled.

Bounds hold on any machine: a slow one only takes longer, and what may be had at once follows from the windows (eleven of a
second, of which ten are full).  Only waits that a quota causes are waited for."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.conftest import BrokerFactory
from tests.conformance.process import BrokerProcess
from tidelog import aio
from tidelog.wire.client_quotas import QuotaEntity

RATE = 200_000
BURST_S = 10
VALUE = b"x" * 1000
RECORDS = 3_000  # 3 MB: 2 MB are free
SECONDS_MAX = 180


@pytest.fixture
def limited(own_broker: BrokerFactory) -> BrokerProcess:
    return own_broker({"auto.create.topics.enable": "true"})


async def set_quota(bootstrap: str, entity: QuotaEntity, **values: float) -> None:
    async with aio.Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_client_quotas({entity: dict(values)})


def produce(bootstrap: str, client_id: str, topic: str, records: int) -> tuple[float, list[float]]:
    """(seconds taken, throttle times in seconds)"""
    throttles: list[float] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 5,
            "batch.size": 20_000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    failed: list[Any] = []
    began = time.monotonic()
    for _ in range(records):
        producer.produce(topic, VALUE, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert not failed
    return time.monotonic() - began, throttles


def consume(bootstrap: str, client_id: str, topic: str, records: int) -> tuple[float, list[float]]:
    throttles: list[float] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "fetch.message.max.bytes": 100_000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    began, count = time.monotonic(), 0
    while count < records and time.monotonic() - began < SECONDS_MAX:
        messages = consumer.consume(500, 0.5)
        assert not [message.error() for message in messages if message.error()]
        count += len(messages)
    took = time.monotonic() - began
    consumer.close()
    assert count == records
    return took, throttles


def test_a_producer_and_a_consumer_stay_within_their_quotas_and_are_told(limited: BrokerProcess) -> None:
    asyncio.run(
        set_quota(
            limited.bootstrap,
            QuotaEntity(client_id="slow"),
            producer_byte_rate=RATE,
            consumer_byte_rate=RATE,
        )
    )
    least_s = RECORDS * len(VALUE) / RATE - BURST_S
    took, throttles = produce(limited.bootstrap, "slow", "slow", RECORDS)
    assert took >= least_s * 0.9
    assert max(throttles) > 0
    _, unthrottled = produce(limited.bootstrap, "free", "free", RECORDS)
    assert max(unthrottled, default=0) == 0
    took, throttles = consume(limited.bootstrap, "slow", "free", RECORDS)
    # The fetches that are under way when the quota is reached come on top.
    assert took >= least_s * 0.5
    assert max(throttles) > 0
    if limited.name == "tidelog":
        with urllib.request.urlopen(f"http://{limited.http}/metrics") as answer:  # type: ignore[attr-defined]
            page = answer.read().decode()
        for kind in ("produce", "fetch"):
            assert f'mq_throttled_requests_total{{quota="{kind}"}}' in page
            assert f'mq_throttle_time_ms_total{{quota="{kind}"}}' in page


async def test_our_clients_wait_and_show_it(limited: BrokerProcess) -> None:
    await set_quota(
        limited.bootstrap, QuotaEntity(client_id="ours"), producer_byte_rate=RATE, consumer_byte_rate=RATE
    )
    began = time.monotonic()
    async with aio.Producer(bootstrap_servers=limited.bootstrap, client_id="ours") as producer:
        for number in range(RECORDS):
            await producer.send("ours", VALUE + b"%d" % number)
        await producer.flush()
        metrics = producer.metrics()
    assert time.monotonic() - began >= (RECORDS * len(VALUE) / RATE - BURST_S) * 0.9
    assert metrics.requests_throttled_total > 0
    assert metrics.throttle_time_ms_total > 0
    assert metrics.records_failed_total == 0
