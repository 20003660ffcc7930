"""`python -m bench.two_trees OTHER`: what produce, fetch and small requests cost in this checkout, with and without
scrubbing, and in another one, whose native modules are built.  All brokers run at once, and the rounds take turns."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import usage
from bench.admin import Admin
from bench.bulk import BulkConsumer
from bench.closed_loop import ClosedLoop
from bench.paced import Paced
from bench.requests import single
from bench.results import percentile
from bench.workload import (
    BULK_PARTITIONS,
    SMALL_PARTITIONS,
    SMALL_RECORD_BYTES,
    bulk_producer,
    identities,
    large,
)
from tests.conformance.tidelog_broker import TidelogBroker

ROUNDS, ROUND_BYTES, IDLE_S = 15, 400_000_000, 30
CONSUME_BYTES, SMALL_CONNECTIONS, SMALL_REQUESTS = 150_000_000, 100, 40_000
PACED_ROUNDS, PACED_S, PACED_RATE = 20, 3, 1000
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
            _consume(brokers)
            _small_requests(brokers)
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
    for name in _turns(brokers, ROUNDS):
        before = usage.cpu_seconds(brokers[name].pid)
        load = producers[name].run(ROUND_BYTES)
        costs[name].append((usage.cpu_seconds(brokers[name].pid) - before) / (load.amount / 1e9))
    _print(f"produce {record_bytes} B", costs, "s/GB")


def _consume(brokers: dict[str, TidelogBroker]) -> None:
    """The same records again and again, each time over new connections: what is read is in the page cache."""
    content, costs = large(1000), {name: list[float]() for name in brokers}
    topics, ends = {}, {}
    for name, broker in brokers.items():
        with Admin(broker.port) as admin:
            topics[name] = admin.create_topic("consume", BULK_PARTITIONS)
            with bulk_producer(admin, broker.port, topics[name], content) as producer:
                producer.run(CONSUME_BYTES)
                ends[name] = producer.ends()
    for name in _turns(brokers, ROUNDS):
        before = usage.cpu_seconds(brokers[name].pid)
        read = 0
        for _ in range(3):
            with BulkConsumer(brokers[name].port, topics[name], content) as consumer:
                read += consumer.run(ends[name], CONSUME_BYTES).amount
        costs[name].append((usage.cpu_seconds(brokers[name].pid) - before) / (read / 1e9))
    _print("consume 1000 B", costs, "s/GB")


def _small_requests(brokers: dict[str, TidelogBroker]) -> None:
    loops, costs = {}, {name: list[float]() for name in brokers}
    for name, broker in brokers.items():
        with Admin(broker.port) as admin:
            topic = admin.create_topic("small", SMALL_PARTITIONS)
            names = identities(admin, SMALL_CONNECTIONS)
        loops[name] = ClosedLoop(broker.port, topic, single(SMALL_RECORD_BYTES), SMALL_CONNECTIONS, names)
    for name in _turns(brokers, ROUNDS):
        loops[name].prepare(SMALL_REQUESTS)
        before = usage.cpu_seconds(brokers[name].pid)
        load = loops[name].run()
        costs[name].append((usage.cpu_seconds(brokers[name].pid) - before) / load.amount * 1e6)
    _print(f"a request of 1 record, {SMALL_CONNECTIONS} connections", costs, "us")


def _turns(brokers: dict[str, TidelogBroker], rounds: int) -> Iterator[str]:
    """Each broker once a round; the first one of a round changes."""
    names = list(brokers)
    for turn in range(rounds):
        first = turn % len(names)
        yield from names[first:] + names[:first]


def _print(what: str, costs: dict[str, list[float]], unit: str) -> None:
    for name, values in costs.items():
        least, most = min(values), max(values)
        print(f"{what}, {name}: {statistics.median(values):.3f} {unit} ({least:.3f}..{most:.3f})", flush=True)


def _wait(brokers: dict[str, TidelogBroker]) -> None:
    """How long acknowledgements take at a constant rate: the median of the rounds' 50th and 99th percentiles."""
    paced, waits = {}, {name: list[tuple[float, float]]() for name in brokers}
    for name, broker in brokers.items():
        with Admin(broker.port) as admin:
            topic = admin.create_topic("paced", 1)
            paced[name] = Paced(broker.port, topic, admin.producer(), consume=False)
        paced[name].run(PACED_RATE, PACED_S)
    for name in _turns(brokers, PACED_ROUNDS):
        taken = paced[name].run(PACED_RATE, PACED_S).acknowledged
        waits[name].append((percentile(taken, 50), percentile(taken, 99)))
    for name, rounds in waits.items():
        p50, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"acknowledged after, {name}: {p50:.3f} ms (p50), {p99:.3f} ms (p99)")
        paced[name].close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
