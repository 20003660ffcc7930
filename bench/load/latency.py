"""From the moment a record is due to its arrival at a consumer, without linger, at two constant rates."""

from __future__ import annotations

from bench import pages
from bench.admin import Admin
from bench.paced import Paced
from bench.results import Goal, Row, Samples, Scenario, percentile
from bench.scale import Scale
from bench.systems import System
from bench.workload import warm_up

RATES = (1_000, 10_000)
REQUEST_BYTES = 200
SLICES = 5  # of the time measured, a percentile each: their spread shows the noise


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with system.running() as broker:
        warm_up(broker, scale)
        for rate in RATES:
            with Admin(broker.port) as admin:
                topic = admin.create_topic(f"latency-{rate}", 1)
                paced = Paced(broker.port, topic, admin.producer())
            try:
                paced.run(rate, max(2, scale.latency_seconds // 3))
                parts = []
                for _ in range(SLICES):
                    pages.provide(system.folder, REQUEST_BYTES * rate * scale.latency_seconds // SLICES)
                    parts.append(paced.run(rate, scale.latency_seconds / SLICES).consumed)
            finally:
                paced.close()
            for percent in (50, 99):
                samples[f"latency-{rate}-p{percent}"] = [percentile(part, percent) for part in parts]
    return samples


SCENARIO = Scenario(
    "latency",
    (
        Row("latency-1000-p50", "end to end at 1,000/s: p50", "ms"),
        Row("latency-1000-p99", "end to end at 1,000/s: p99", "ms", Goal(ratio_most=0.5)),
        Row("latency-10000-p50", "end to end at 10,000/s: p50", "ms"),
        Row("latency-10000-p99", "end to end at 10,000/s: p99", "ms", Goal(ratio_most=0.5)),
    ),
    run,
)
