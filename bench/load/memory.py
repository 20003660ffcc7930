"""Resident memory: idle after the start, and after a load of large batches, produced and consumed."""

from __future__ import annotations

import time

from bench import usage
from bench.admin import Admin
from bench.bulk import BulkConsumer
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System
from bench.workload import BULK_PARTITIONS, bulk_producer, large

SETTLE_SECONDS = 3


def run(system: System, scale: Scale) -> Samples:
    with system.running() as broker:
        time.sleep(SETTLE_SECONDS)
        idle = usage.resident_mib(broker.pid)
        content = large(1000)
        with Admin(broker.port) as admin:
            topic = admin.create_topic("memory", BULK_PARTITIONS)
            with bulk_producer(admin, broker.port, topic, content) as producer:
                written = producer.run(scale.memory_load_bytes).amount
                ends = producer.ends()
            with BulkConsumer(broker.port, topic, content) as consumer:
                consumer.run(ends, written)
        time.sleep(SETTLE_SECONDS)
        return {
            "memory-idle": [idle],
            "memory-loaded": [usage.resident_mib(broker.pid)],
            "memory-private": [usage.private_mib(broker.pid)],
            "memory-peak": [usage.peak_mib(broker.pid)],
        }


SCENARIO = Scenario(
    "memory",
    (
        Row("memory-idle", "memory, idle", "MiB", Goal(most=80)),
        Row("memory-loaded", "memory after the load", "MiB", Goal(most=200)),
        Row("memory-private", "  of it not mapped files", "MiB"),
        Row("memory-peak", "  at its peak", "MiB"),
    ),
    run,
)
