from __future__ import annotations

import re

from tests.unit.client.stage import Stage, staged
from tidelog.client.errors import DeliveryTimedOut
from tidelog.client.producer.metrics import ProducerCounters
from tidelog.client.producer.producer import Producer
from tidelog.wire.messages.produce import ProduceRequest


def test_rates_are_those_of_the_last_half_minute() -> None:
    counters = ProducerCounters(100.0)
    idle = {"waiting": 0, "in_flight": 0, "buffer_used": 0, "buffer_total": 10}
    for second in range(100, 160):
        counters.acknowledged(second + 0.5, records=30, size=3_000)
        counters.answered(second + 0.5, latency_s=0.001 * (second - 99))
    metrics = counters.metrics(159.9, **idle)
    assert (metrics.records_sent_total, metrics.bytes_sent_total, metrics.batches_sent_total) == (
        1_800,
        180_000,
        60,
    )
    assert (metrics.record_send_rate, metrics.byte_rate) == (30, 3_000)
    assert (metrics.batch_size_avg, metrics.records_per_batch_avg) == (3_000, 30)
    assert round(metrics.request_latency_avg_ms, 6) == 45.5 and round(metrics.request_latency_max_ms) == 60
    later = counters.metrics(300.0, **idle)
    assert (later.record_send_rate, later.request_latency_avg_ms, later.records_sent_total) == (0, 0, 1_800)


def test_prometheus_reads_every_value_with_its_labels() -> None:
    counters = ProducerCounters(0.0)
    counters.failed(0.0, 3)
    text = counters.metrics(1.0, waiting=5, in_flight=1, buffer_used=2, buffer_total=9).prometheus(
        {"client_id": 'a"b'}
    )
    assert "# TYPE tidelog_producer_records_failed_total counter\n" in text
    assert 'tidelog_producer_records_failed_total{client_id="a\\"b"} 3\n' in text
    assert 'tidelog_producer_records_waiting{client_id="a\\"b"} 5\n' in text
    sample = re.compile(r'[a-z_]+\{client_id="a\\"b"\} [0-9.e+-]+')
    assert all(sample.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))


@staged
async def test_a_producer_counts_what_becomes_of_its_records(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    async with Producer(
        bootstrap_servers="broker1:9092", environment=stage.environment, delivery_timeout_ms=5_000
    ) as producer:
        for _ in range(10):
            await producer.send("orders", b"x" * 100)
        await producer.flush()
        metrics = producer.metrics()
        assert (metrics.records_sent_total, metrics.records_failed_total, metrics.records_waiting) == (
            10,
            0,
            0,
        )
        assert metrics.batch_size_avg > 1_000 / metrics.batches_sent_total
        assert metrics.request_latency_avg_ms > 0 and metrics.buffer_used_bytes == 0

        async def refuse(request: object) -> int:
            return 7  # RequestTimedOut

        broker.scripts[ProduceRequest.API_KEY] = refuse
        sent = await producer.send("orders", b"x")
        assert producer.metrics().records_waiting >= 0
        try:
            await sent
        except DeliveryTimedOut:
            pass
        metrics = producer.metrics()
        assert metrics.records_failed_total == 1 and metrics.records_retried_total > 2
