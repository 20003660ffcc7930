"""The price of encryption at rest: the same records to and from a plain topic and an encrypted one, in turn, on one broker.

Apache Kafka has none.  Consumers are two, one after the other over all of the topic, so that what they read is decrypted for
each: what several read at the tail is decrypted once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench import pages
from bench.admin import Admin
from bench.bulk import BulkConsumer
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import GB, MB, Scale
from bench.systems import System
from bench.workload import BULK_PARTITIONS, CpuMeter, bulk_producer, large, warm_up
from tidelog.storage.encryption.key_files import KeyFiles

KEYS = {"plain": "none", "encrypted": "file:bench"}
PASSES = 2
LOST_PERCENT_MAX = 25


def run(system: System, scale: Scale) -> Samples:
    if system.name != "tidelog":
        return {}
    folder = Path(tempfile.mkdtemp(prefix="keys-", dir=system.folder))
    KeyFiles(str(folder)).create("bench")
    try:
        return _measure(system, scale, folder)
    finally:
        shutil.rmtree(folder)


def _measure(system: System, scale: Scale, keys: Path) -> Samples:
    content = large(1000)
    samples: Samples = {}
    with system.running({"encryption.file.keys.dir": str(keys)}) as broker, Admin(broker.port) as admin:
        warm_up(broker, scale)
        for number in range(scale.rounds + 1):
            for name, key in KEYS.items():
                topic = admin.create_topic(f"{name}-{number}", BULK_PARTITIONS, {"encryption.key": key})
                with bulk_producer(admin, broker.port, topic, content) as producer:
                    pages.provide(system.folder, scale.round_bytes)
                    meter = CpuMeter(broker)
                    load = producer.run(scale.round_bytes)
                    produced = meter.read() / (load.amount / GB), load.amount / MB / load.seconds
                    ends = producer.ends()
                with BulkConsumer(broker.port, topic, content) as consumer:
                    meter = CpuMeter(broker)
                    loads = [consumer.run(ends, load.amount) for _ in range(PASSES)]
                    read = sum(each.amount for each in loads)
                    consumed = meter.read() / (read / GB), read / MB / sum(each.seconds for each in loads)
                admin.delete_topic(topic)
                if number:  # the first round warms up
                    for doing, (cost, rate) in (("produce", produced), ("consume", consumed)):
                        samples.setdefault(f"encryption-{doing}-{name}", []).append(cost)
                        samples.setdefault(f"encryption-{doing}-{name}-rate", []).append(rate)
    for doing in ("produce", "consume"):
        rates = (samples[f"encryption-{doing}-{name}-rate"] for name in KEYS)
        samples[f"encryption-{doing}-lost"] = [
            100 * (1 - encrypted / plain) for plain, encrypted in zip(*rates, strict=True)
        ]
    return samples


def _rows() -> list[Row]:
    rows = []
    for doing in ("produce", "consume"):
        for name in KEYS:
            rows.append(Row(f"encryption-{doing}-{name}", f"{doing}, {name}: CPU", "s/GB"))
            rows.append(Row(f"encryption-{doing}-{name}-rate", "  throughput", "MB/s"))
        rows.append(Row(f"encryption-{doing}-lost", "  throughput lost", "%", Goal(most=LOST_PERCENT_MAX)))
    return rows


SCENARIO = Scenario("encryption", tuple(_rows()), run)
