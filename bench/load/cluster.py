"""Three brokers, three replicas, two of them needed, acks=all: throughput, CPU, latency, outages, moves of partitions."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import pages, usage
from bench.admin import Topic
from bench.bulk import BulkProducer
from bench.clusters import NODES, SIZE, Cluster, cluster
from bench.outage import SteadyProducer
from bench.paced import Paced
from bench.results import Goal, Row, Samples, Scenario, percentile
from bench.scale import GB, Scale
from bench.systems import System
from bench.workload import identities, large

RECORD_BYTES = (100, 1000)
RATES = (200, 1_000)
PARTITIONS = 6  # two led by each broker
TOPIC_PARTITIONS = 500
SETTLE_S = 10
SLICES = 5
MOVED_PARTITIONS = 4


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with cluster(system) as running:
        time.sleep(SETTLE_S)
        samples["cluster-memory"] = [usage.resident_mib(pid) for pid in running.pids]
        _throughput(system, running, scale, samples)
        _latency(running, scale, samples)
        _moves(running, scale, samples)
    with cluster(system) as running:
        _outages(running, scale, samples)
    with cluster(system) as running:
        _idle(running, scale, samples)
    return samples


def _throughput(system: System, running: Cluster, scale: Scale, samples: Samples) -> None:
    with running.admin() as admin:
        for record_bytes in RECORD_BYTES:
            content = large(record_bytes)
            topic = admin.create_topic(f"bulk-{record_bytes}", PARTITIONS)
            ports = running.ports(topic)
            costs, rates = [], []
            with BulkProducer(ports, topic, [content], identities(admin, PARTITIONS)) as producer:
                producer.run(scale.warm_up_bytes // 2)
                for _ in range(scale.rounds):
                    pages.provide(system.folder, SIZE * scale.round_bytes)
                    before = running.cpu_seconds()
                    load = producer.run(scale.round_bytes)
                    costs.append((running.cpu_seconds() - before) / (load.amount / GB))
                    records = load.amount / len(content.data) * content.records
                    rates.append(records / load.seconds / 1000)
            samples[f"cluster-{record_bytes}-cpu"] = costs
            samples[f"cluster-{record_bytes}-rate"] = rates
            admin.delete_topic(topic)


def _latency(running: Cluster, scale: Scale, samples: Samples) -> None:
    for rate in RATES:
        with running.admin() as admin:
            topic = admin.create_topic(f"paced-{rate}", 1)
            paced = Paced(running.ports(topic)[0], topic, admin.producer(), consume=False)
        try:
            paced.run(rate, max(2, scale.latency_seconds // 3))
            parts = [paced.run(rate, scale.latency_seconds / SLICES).acknowledged for _ in range(SLICES)]
        finally:
            paced.close()
        for percent in (50, 99):
            samples[f"cluster-{rate}-p{percent}"] = [percentile(part, percent) for part in parts]


def _moves(running: Cluster, scale: Scale, samples: Samples) -> None:
    """A topic on two brokers is moved to the third while records arrive at a topic on all of them."""
    with running.admin() as admin:
        content = large(1000)
        moved = admin.create_on("moved", [(1, 2)] * MOVED_PARTITIONS)
        names = identities(admin, MOVED_PARTITIONS)
        with BulkProducer(running.ports(moved), moved, [content], names) as producer:
            producer.run(scale.reassigned_bytes)
        topic = admin.create_on("beside", [(1, 2, 3)])
        paced = Paced(running.ports(topic)[0], topic, admin.producer(), consume=False)
        try:
            paced.run(1_000, 2)
            at_rest = paced.run(1_000, scale.latency_seconds).acknowledged
            begin = time.perf_counter()
            admin.move(moved, (3, 2))
            during = paced.run(1_000, 600, lambda now: now < 2 or admin.moving()).acknowledged
            seconds = time.perf_counter() - begin
        finally:
            paced.close()
    rest, busy = percentile(at_rest, 99), percentile(during, 99)
    samples["cluster-move-rest"], samples["cluster-move-p99"] = [rest], [busy]
    samples["cluster-move-ratio"] = [busy / rest]
    samples["cluster-move-rate"] = [scale.reassigned_bytes / 1e6 / seconds]


def _outages(running: Cluster, scale: Scale, samples: Samples) -> None:
    """Of the leader that is written to, so that somebody notices."""
    kinds: dict[str, Callable[[int], None]] = {
        "stop": lambda node: running.brokers[node].stop(),
        "kill": lambda node: running.brokers[node].kill(),
    }
    with running.admin() as admin:
        topic = admin.create_topic("outage", 1)
    with SteadyProducer(running.bootstrap, topic.name, 0) as producer:
        for name, end in kinds.items():
            gaps = [_outage(running, topic, producer, end) for _ in range(scale.cluster_outages)]
            samples[f"cluster-outage-{name}"] = gaps
        gaps = []
        for _ in range(scale.cluster_outages):
            _lead_from_the_controller(running, topic)
            gaps.append(_outage(running, topic, producer, kinds["kill"]))
        samples["cluster-outage-controller"] = gaps


def _outage(running: Cluster, topic: Topic, producer: SteadyProducer, end: Callable[[int], None]) -> float:
    with running.admin() as admin:
        (leader,) = admin.leaders(topic)
    since = time.monotonic()
    end(leader)
    gap_s = producer.gap_s(since)
    running.brokers[leader].start()
    _await_in_sync(running, topic)
    return gap_s


def _lead_from_the_controller(running: Cluster, topic: Topic) -> None:
    """A move that only changes the order of the replicas, and an election."""
    with running.admin() as admin:
        first = admin.controller()
        admin.move(topic, (first, *(node for node in NODES if node != first)))
        while admin.moving():
            time.sleep(0.05)
        admin.elect(topic)
    _await_in_sync(running, topic)


def _await_in_sync(running: Cluster, topic: Topic) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with running.admin() as admin:
            if admin.in_sync(topic):
                return
        time.sleep(0.1)
    raise TimeoutError(f"{topic.name} is not in sync again")


def _idle(running: Cluster, scale: Scale, samples: Samples) -> None:
    with running.admin() as admin:
        left, number = scale.cluster_partitions, 0
        while left:
            size = min(left, TOPIC_PARTITIONS)
            admin.create_topic(f"idle-{number}", size)
            left, number = left - size, number + 1
    time.sleep(SETTLE_S)
    before = [usage.cpu_seconds(pid) for pid in running.pids]
    time.sleep(scale.idle_seconds)
    after = [usage.cpu_seconds(pid) for pid in running.pids]
    samples["cluster-idle"] = [
        (end - start) / scale.idle_seconds * 100 for start, end in zip(before, after, strict=True)
    ]
    samples["cluster-idle-memory"] = [usage.resident_mib(pid) for pid in running.pids]


SCENARIO = Scenario(
    "cluster",
    (
        Row("cluster-100-rate", "three brokers, 100 B: throughput", "k rec/s", Goal(ratio_least=1.0)),
        Row("cluster-100-cpu", "  CPU of the three", "s/GB", Goal(ratio_most=0.5)),
        Row("cluster-1000-rate", "three brokers, 1 KB: throughput", "k rec/s", Goal(ratio_least=1.0)),
        Row("cluster-1000-cpu", "  CPU of the three", "s/GB", Goal(ratio_most=0.5)),
        Row("cluster-200-p50", "acknowledged at 200/s: p50", "ms"),
        Row("cluster-200-p99", "acknowledged at 200/s: p99", "ms"),
        Row("cluster-1000-p50", "acknowledged at 1,000/s: p50", "ms"),
        Row("cluster-1000-p99", "acknowledged at 1,000/s: p99", "ms", Goal(most=10)),
        Row("cluster-outage-stop", "leader stopped: no acknowledgement for", "s", Goal(most=0.2)),
        Row("cluster-outage-kill", "leader killed: no acknowledgement for", "s", Goal(most=3)),
        Row("cluster-outage-controller", "leader and controller killed", "s", Goal(most=3)),
        Row("cluster-move-rest", "p99 at 1,000/s before a move", "ms"),
        Row("cluster-move-p99", "  during it", "ms"),
        Row("cluster-move-ratio", "  during it, times that before", "", Goal(most=2)),
        Row("cluster-move-rate", "  bytes moved", "MB/s"),
        Row("cluster-memory", "memory of each, empty", "MiB"),
        Row("cluster-idle", "idle CPU of each, 3,000 partitions", "% of a core", Goal(most=5)),
        Row("cluster-idle-memory", "  memory", "MiB"),
    ),
    run,
)
