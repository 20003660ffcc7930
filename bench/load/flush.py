"""Requests per second when each must be on disk before it is answered (`flush.messages=1`), on 100 connections."""

from __future__ import annotations

from bench import pages
from bench.admin import Admin
from bench.closed_loop import ClosedLoop
from bench.requests import single
from bench.results import Goal, Row, Samples, Scenario
from bench.scale import Scale
from bench.systems import System
from bench.workload import SMALL_RECORD_BYTES, identities, warm_up

CONNECTIONS = 100
REQUEST_BYTES = 200
PARTITIONS = (10, 1)
REQUESTS_PER_SECOND_MAX = 100_000


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with system.running() as broker:
        warm_up(broker, scale)
        with Admin(broker.port) as admin:
            for partitions in PARTITIONS:
                topic = admin.create_topic(f"flush-{partitions}", partitions, {"flush.messages": "1"})
                names = identities(admin, CONNECTIONS)
                content = single(SMALL_RECORD_BYTES)
                rates = []
                with ClosedLoop(broker.port, topic, content, CONNECTIONS, names) as loop:
                    for _ in range(scale.rounds):
                        loop.prepare(REQUESTS_PER_SECOND_MAX * scale.flush_seconds)
                        pages.provide(system.folder, REQUEST_BYTES * REQUESTS_PER_SECOND_MAX)
                        load = loop.run(scale.flush_seconds)
                        rates.append(load.amount / load.seconds)
                samples[f"flush-{partitions}"] = rates
    return samples


SCENARIO = Scenario(
    "flush",
    (
        Row("flush-10", "flush.messages=1, 10 partitions", "requests/s", Goal(ratio_least=10)),
        Row("flush-1", "flush.messages=1, 1 partition", "requests/s", Goal(ratio_least=10)),
    ),
    run,
)
