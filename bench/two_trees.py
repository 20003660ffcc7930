"""`python -m bench.two_trees OTHER`: CPU and p99 of produce requests in this checkout, with and without scrubbing, and in
another one, whose native modules are built.  All brokers run at the same time, and the rounds take turns."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import usage
from bench.admin import Admin
from bench.paced import Paced
from bench.results import percentile
from bench.workload import BULK_PARTITIONS, bulk_producer, large
from tests.conformance.tidelog_broker import TidelogBroker

ROUNDS, ROUND_BYTES, IDLE_S = 15, 400_000_000, 30
PACED_ROUNDS, PACED_S, PACED_RATE = 40, 3, 1000
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
            _wait(brokers)
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


def _wait(brokers: dict[str, TidelogBroker]) -> None:
    """How long acknowledgements take at a constant rate: the median of the rounds' 50th and 99th percentiles."""
    paced, waits = {}, {name: list[tuple[float, float]]() for name in brokers}
    for name, broker in brokers.items():
        with Admin(broker.port) as admin:
            topic = admin.create_topic("paced", 1)
            paced[name] = Paced(broker.port, topic, admin.producer(), consume=False)
        paced[name].run(PACED_RATE, PACED_S)
    for turn in range(PACED_ROUNDS):
        names = list(brokers)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken = paced[name].run(PACED_RATE, PACED_S).acknowledged
            waits[name].append((percentile(taken, 50), percentile(taken, 99)))
    for name, rounds in waits.items():
        p50, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"acknowledged after, {name}: {p50:.3f} ms (p50), {p99:.3f} ms (p99)")
        paced[name].close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
