"""`tidelog serve --processes N`: what a GB costs, and what all together take, for 1, 2, 4 and 8 processes.

One thread loads all of them, so on a machine with few cores the rate says how much is left for the brokers; the cost for
each GB says whether processes are in each other's way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench import pages
from bench.admin import Topic
from bench.bulk import BulkConsumer, BulkProducer
from bench.clusters import ClusterAdmin
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import GB, MB, Scale
from bench.systems import System
from bench.usage import shared_once_mib
from bench.workload import CpuMeter, identities, large
from tests.conformance.process import free_ports
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.config.process_count import PROCESSES_MAX

COUNTS = (1, 2, 4, 8)
PARTITIONS = 8
RECORD_BYTES = 1000
HTTP_ABOVE = 20


class Unit(TidelogBroker):
    """Its ready line has an address for each process; the first one is as good as any."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home, dict(settings))
        count = int(settings["tidelog.processes"])
        assert count <= min(HTTP_ABOVE, PROCESSES_MAX)
        self.port = free_ports([*range(count), *range(HTTP_ABOVE, HTTP_ABOVE + count)])
        self.http = f"127.0.0.1:{self.port + HTTP_ABOVE}"

    def _first_line(self) -> bytes:
        words = super()._first_line().split()
        return b" ".join(word.split(b",")[0] for word in words)


class UnitAdmin(ClusterAdmin):
    replication_factor = 1


def _leaders(first: int, admin: ClusterAdmin, topic: Topic) -> list[int]:
    """The port of each partition's leader, once it knows that it leads."""
    leaders = admin.leaders(topic)
    for node in set(leaders):
        with UnitAdmin(first + node - 1) as its:
            its.await_leading(topic, [at for at, leader in enumerate(leaders) if leader == node])
    return [first + node - 1 for node in leaders]


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    if system.name != "tidelog":
        return samples
    content = large(RECORD_BYTES)
    for count in COUNTS:
        unit = replace(system, make=Unit, settings={**system.settings, "tidelog.processes": str(count)})
        with unit.running() as broker, UnitAdmin(broker.port) as admin:
            topic = admin.create_topic("spread", PARTITIONS)
            ports = _leaders(broker.port, admin, topic)
            names = identities(admin, PARTITIONS)
            with BulkProducer(ports, topic, [content], names) as producer:
                producer.run(scale.round_bytes)
                for _ in range(scale.rounds):
                    pages.provide(system.folder, scale.round_bytes)
                    meter = CpuMeter(broker)
                    load = producer.run(scale.round_bytes)
                    samples.setdefault(f"processes-{count}", []).append(meter.read() / (load.amount / GB))
                    samples.setdefault(f"processes-{count}-rate", []).append(load.amount / MB / load.seconds)
                ends = producer.ends()
            for _ in range(scale.rounds):
                with BulkConsumer(ports, topic, content) as consumer:
                    meter = CpuMeter(broker)
                    load = consumer.run(ends, scale.round_bytes)
                samples.setdefault(f"processes-{count}-consume", []).append(meter.read() / (load.amount / GB))
            samples[f"processes-{count}-memory"] = [shared_once_mib(broker.pid)]
    return samples


def _rows(count: int) -> tuple[Row, ...]:
    name = f"{count} process{'es' if count > 1 else ''}"
    return (
        Row(f"processes-{count}", f"{name}, produce, 1 KB records: CPU", "s/GB", Goal()),
        Row(f"processes-{count}-rate", "  throughput", "MB/s"),
        Row(f"processes-{count}-consume", "  consume: CPU", "s/GB"),
        Row(f"processes-{count}-memory", "  memory, without mapped files", "MiB"),
    )


SCENARIO = Scenario("processes", tuple(row for count in COUNTS for row in _rows(count)), run)
