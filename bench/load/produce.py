"""Broker CPU for each GB of record batches: 64 KB batches, idempotent, acks=all, five requests in flight on each of
two connections."""

from __future__ import annotations

from bench import pages
from bench.admin import Admin
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import GB, MB, Scale
from bench.systems import System
from bench.workload import BULK_PARTITIONS, CpuMeter, bulk_producer, large, warm_up

RECORD_BYTES = (100, 1000)


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with system.running() as broker:
        warm_up(broker, scale)
        with Admin(broker.port) as admin:
            for record_bytes in RECORD_BYTES:
                topic = admin.create_topic(f"produce-{record_bytes}", BULK_PARTITIONS)
                costs, rates = [], []
                with bulk_producer(admin, broker.port, topic, large(record_bytes)) as producer:
                    producer.run(scale.round_bytes)
                    for _ in range(scale.rounds):
                        pages.provide(system.folder, scale.round_bytes)
                        meter = CpuMeter(broker)
                        load = producer.run(scale.round_bytes)
                        costs.append(meter.read() / (load.amount / GB))
                        rates.append(load.amount / MB / load.seconds)
                samples[f"produce-{record_bytes}"] = costs
                samples[f"produce-{record_bytes}-rate"] = rates
                admin.delete_topic(topic)
    return samples


SCENARIO = Scenario(
    "produce",
    (
        Row("produce-100", "produce, 100 B records: CPU", "s/GB", Goal(ratio_most=0.4)),
        Row("produce-100-rate", "  throughput", "MB/s"),
        Row("produce-1000", "produce, 1 KB records: CPU", "s/GB", Goal(ratio_most=0.4)),
        Row("produce-1000-rate", "  throughput", "MB/s"),
    ),
    run,
)
