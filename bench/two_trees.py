"""`python -m bench.two_trees OTHER`: CPU of produce requests in this checkout, with and without scrubbing, and in another
one, whose native modules are built.  All brokers run at the same time, and the rounds take turns."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import usage
from bench.admin import Admin
from bench.workload import BULK_PARTITIONS, bulk_producer, large
from tests.conformance.tidelog_broker import TidelogBroker

ROUNDS, ROUND_BYTES, IDLE_S = 15, 400_000_000, 30
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "100000000",
    "log.retention.bytes": "300000000",
    "log.retention.check.interval.ms": "2000",
}


def main(other: Path) -> None:
    here = Path(__file__).parents[1]
    unscrubbed = {"tidelog.scrub.bytes.per.second": "0"}
    made = {"other": (other, {}), "here": (here, {}), "here, no scrubbing": (here, unscrubbed)}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        brokers: dict[str, TidelogBroker] = {}
        try:
            for name, (tree, settings) in made.items():
                os.environ["PYTHONPATH"] = str(tree / "src")
                brokers[name] = TidelogBroker(Path(folder) / str(len(brokers)), {**SETTINGS, **settings})
                brokers[name].start()
            for record_bytes in (100, 1000):
                _produce(brokers, record_bytes)
            before = {name: usage.cpu_seconds(broker.pid) for name, broker in brokers.items()}
            time.sleep(IDLE_S)
            for name, broker in brokers.items():
                used = (usage.cpu_seconds(broker.pid) - before[name]) / IDLE_S
                print(f"idle, {name}: {used:.2%} of a core")
        finally:
            for broker in brokers.values():
                broker.discard()


def _produce(brokers: dict[str, TidelogBroker], record_bytes: int) -> None:
    producers, costs = {}, {name: list[float]() for name in brokers}
    for name, broker in brokers.items():
        with Admin(broker.port) as admin:
            topic = admin.create_topic(f"produce-{record_bytes}", BULK_PARTITIONS)
            producers[name] = bulk_producer(admin, broker.port, topic, large(record_bytes))
        producers[name].run(ROUND_BYTES // 4)
    for turn in range(ROUNDS):
        names = list(brokers)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            before = usage.cpu_seconds(brokers[name].pid)
            load = producers[name].run(ROUND_BYTES)
            costs[name].append((usage.cpu_seconds(brokers[name].pid) - before) / (load.amount / 1e9))
    for name, some in costs.items():
        least, most = min(some), max(some)
        print(f"{record_bytes} B, {name}: {statistics.median(some):.3f} s/GB ({least:.3f}..{most:.3f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
