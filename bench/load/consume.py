"""Broker CPU for each GB fetched from the page cache: two partitions, a connection each, fetches of up to 1 MB."""

from __future__ import annotations

from bench.admin import Admin
from bench.bulk import BulkConsumer
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import GB, MB, Scale
from bench.systems import System
from bench.workload import BULK_PARTITIONS, CpuMeter, bulk_producer, large, warm_up

PASSES = 4  # over the topic, for one measurement: one alone would be too short to measure


def run(system: System, scale: Scale) -> Samples:
    costs, rates = [], []
    content = large(1000)
    with system.running() as broker:
        warm_up(broker, scale)
        with Admin(broker.port) as admin:
            topic = admin.create_topic("consume", BULK_PARTITIONS)
            with bulk_producer(admin, broker.port, topic, content) as producer:
                written = producer.run(scale.round_bytes).amount
                ends = producer.ends()
        with BulkConsumer(broker.port, topic, content) as consumer:
            for _ in range(PASSES):
                consumer.run(ends, written)
            meter = CpuMeter(broker)
            for _ in range(scale.rounds):
                loads = [consumer.run(ends, written) for _ in range(PASSES)]
                read = sum(load.amount for load in loads)
                costs.append(meter.read() / (read / GB))
                rates.append(read / MB / sum(load.seconds for load in loads))
    return {"consume": costs, "consume-rate": rates}


SCENARIO = Scenario(
    "consume",
    (
        Row("consume", "consume, warm: CPU", "s/GB", Goal(ratio_most=1.0)),
        Row("consume-rate", "  throughput", "MB/s"),
    ),
    run,
)
