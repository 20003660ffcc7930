"""Broker CPU for each produce request with one record of 100 bytes, on many connections with one under way each."""

from __future__ import annotations

from bench import pages
from bench.admin import Admin
from bench.closed_loop import ClosedLoop
from bench.requests import single
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System
from bench.workload import SMALL_PARTITIONS, SMALL_RECORD_BYTES, CpuMeter, identities, warm_up
from tests.conformance.process import BrokerProcess

REQUEST_BYTES = 200
CASES = (("small-100", 100, True), ("small-100-plain", 100, False), ("small-1000", 1000, True))


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with system.running() as broker:
        warm_up(broker, scale)
        for name, connections, idempotent in CASES:
            samples |= _measure(broker, scale, name, connections, idempotent)
    return samples


def _measure(broker: BrokerProcess, scale: Scale, name: str, connections: int, idempotent: bool) -> Samples:
    costs, rates = [], []
    with Admin(broker.port) as admin:
        topic = admin.create_topic(name, SMALL_PARTITIONS)
        names = identities(admin, connections) if idempotent else None
        with ClosedLoop(broker.port, topic, single(SMALL_RECORD_BYTES), connections, names) as loop:
            loop.prepare(scale.small_requests)
            loop.run()
            for _ in range(scale.rounds):
                loop.prepare(scale.small_requests)
                pages.provide(broker.home, scale.small_requests * REQUEST_BYTES)
                meter = CpuMeter(broker)
                load = loop.run()
                costs.append(meter.read() / load.amount * 1e6)
                rates.append(load.amount / load.seconds)
        admin.delete_topic(topic)
    return {name: costs, f"{name}-rate": rates}


SCENARIO = Scenario(
    "small",
    (
        Row("small-100", "100 B produce, 100 connections: CPU", "us each", Goal(most=10)),
        Row("small-100-rate", "  throughput", "requests/s"),
        Row("small-100-plain", "  CPU without idempotence", "us each"),
        Row("small-100-plain-rate", "  throughput", "requests/s"),
        Row("small-1000", "100 B produce, 1,000 connections: CPU", "us each"),
        Row("small-1000-rate", "  throughput", "requests/s"),
    ),
    run,
)
