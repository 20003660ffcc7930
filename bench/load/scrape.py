"""What it costs to look at a broker with many partitions: one page of metrics, and records that arrive meanwhile.

A page a second, fifteen times what Prometheus asks for, so that the wait behind one shows in the percentiles."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import urllib.request

from bench import pages
from bench.admin import Admin
from bench.paced import Paced
from bench.results import Goal, Row, Samples, Scenario, percentile
from bench.scale import Scale
from bench.systems import System
from bench.workload import CpuMeter, warm_up
from tests.conformance.tidelog_broker import TidelogBroker

RATE = 1_000
REQUEST_BYTES = 200
TOPIC_PARTITIONS = 500
SLICES = 5
# A process of its own: what reads the page must not hold up what measures.
SCRAPING = "import sys, time, urllib.request as u\nwhile True: u.urlopen(sys.argv[1]).read(); time.sleep(1)"


def run(system: System, scale: Scale) -> Samples:
    if system.name != "tidelog":
        return {}
    with system.broker() as broker:
        assert isinstance(broker, TidelogBroker)
        broker.start()
        url = f"http://{broker.http}/metrics"
        warm_up(broker, scale)
        with Admin(broker.port) as admin:
            for number in range(scale.partitions // TOPIC_PARTITIONS):
                admin.create_topic(f"scraped-{number}", TOPIC_PARTITIONS)
            topic = admin.create_topic("paced", 1)
            paced = Paced(broker.port, topic, admin.producer())
        urllib.request.urlopen(url).read()
        samples: Samples = {"scrape-time": [], "scrape-cpu": []}
        for _ in range(scale.rounds):
            meter, began = CpuMeter(broker), time.perf_counter()
            urllib.request.urlopen(url).read()
            samples["scrape-time"].append(1000 * (time.perf_counter() - began))
            samples["scrape-cpu"].append(1000 * meter.read())
        try:
            paced.run(RATE, max(2, scale.latency_seconds // 3))
            alone = _p99(system, scale, paced)
            scraping = subprocess.Popen([sys.executable, "-c", SCRAPING, url])
            try:
                scraped = _p99(system, scale, paced)
            finally:
                scraping.kill()
                scraping.wait()
        finally:
            paced.close()
    return {
        **samples,
        "scrape-alone-p99": alone,
        "scrape-p99": scraped,
        "scrape-ratio": [statistics.median(scraped) / statistics.median(alone)],
    }


def _p99(system: System, scale: Scale, paced: Paced) -> list[float]:
    """Of acknowledgements, in milliseconds."""
    found = []
    for _ in range(SLICES):
        pages.provide(system.folder, REQUEST_BYTES * RATE * scale.latency_seconds // SLICES)
        part = paced.run(RATE, max(scale.latency_seconds / SLICES, 2)).acknowledged
        found.append(percentile(part, 99))
    return found


SCENARIO = Scenario(
    "scrape",
    (
        Row("scrape-time", "one page of metrics with 10,000 partitions", "ms", Goal(most=1_000)),
        Row("scrape-cpu", "CPU of one page", "ms"),
        Row("scrape-alone-p99", "produce at 1,000/s beside 10,000 partitions: p99", "ms"),
        Row("scrape-p99", "the same with a page a second: p99", "ms"),
        Row("scrape-ratio", "the two, divided", "x", Goal(most=1.5)),
    ),
    run,
)
