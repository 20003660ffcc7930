"""Produce latency at 1,000 records/s on one topic while another one is compacted, against the same without."""

from __future__ import annotations

from pathlib import Path

from bench import pages
from bench.admin import Admin, Topic
from bench.bulk import BulkProducer
from bench.paced import Paced
from bench.requests import batch
from bench.results import Row, Samples, Scenario, percentile
from bench.scale import MB, Scale
from bench.systems import System
from bench.workload import BATCH_BYTES, warm_up
from tests.conformance.process import BrokerProcess

RATE = 1_000
DISTINCT_BATCHES = 100
QUIET_SECONDS = 3.0  # without any change on disk: compaction is over

SETTINGS = {"log.cleaner.backoff.ms": "1000"}
TOPIC = {
    "cleanup.policy": "delete",
    "segment.bytes": str(32 * MB),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "1000",
}


def run(system: System, scale: Scale) -> Samples:
    with system.running(SETTINGS) as broker:
        warm_up(broker, scale)
        with Admin(broker.port) as admin:
            dirty = admin.create_topic("dirty", 1, TOPIC)
            _fill(broker, admin, dirty, scale)
            paced = Paced(broker.port, admin.create_topic("beside", 1), admin.producer(), consume=False)
            try:
                paced.run(RATE, 3)
                quiet = paced.run(RATE, 10).acknowledged
                admin.set_topic_config(dirty, "cleanup.policy", "compact")
                pages.provide(system.folder, scale.compaction_bytes)
                watch = _Watch(broker.data / "dirty-0")
                during = paced.run(RATE, scale.compaction_seconds_max, watch)
            finally:
                paced.close()
    busy = [
        latency
        for due, latency in zip(during.due, during.acknowledged, strict=True)
        if watch.first <= due <= watch.last
    ]
    if not busy:
        raise TimeoutError(f"no compaction was seen in {scale.compaction_seconds_max} s")
    return {
        "compaction-quiet-p99": [percentile(quiet, 99)],
        "compaction-p99": [percentile(busy, 99)],
        "compaction-max": [max(busy)],
        "compaction-seconds": [watch.last - watch.first],
        "compaction-left": [100 * watch.size / watch.size_before],
    }


def _fill(broker: BrokerProcess, admin: Admin, topic: Topic, scale: Scale) -> None:
    """The same keys over and over; most of what is written is superseded."""
    contents = [batch(100, BATCH_BYTES, first_key=number * 1_000) for number in range(DISTINCT_BATCHES)]
    with BulkProducer(broker.port, topic, contents, [admin.producer()]) as producer:
        producer.run(scale.compaction_bytes)


class _Watch:
    """Sees from the files of a partition when its compaction begins and ends, whatever the system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._listing()
        self.size_before = self.size = _data_bytes(self._seen)
        self.first = self.last = 0.0

    def _listing(self) -> dict[str, int]:
        sizes = {}
        for entry in self._folder.iterdir():
            try:
                if entry.suffix != ".deleted":  # waits for its removal, which is no work
                    sizes[entry.name] = entry.stat().st_size
            except FileNotFoundError:
                continue
        return sizes

    def __call__(self, now: float) -> bool:
        """Whether to go on watching."""
        listing = self._listing()
        if listing != self._seen:
            self._seen, self.last = listing, now
            self.first = self.first or now
        self.size = _data_bytes(listing)
        return not self.first or now - self.last < QUIET_SECONDS


def _data_bytes(listing: dict[str, int]) -> int:
    return sum(size for name, size in listing.items() if name.endswith(".log"))


SCENARIO = Scenario(
    "compaction",
    (
        Row("compaction-quiet-p99", "acknowledged at 1,000/s: p99", "ms"),
        Row("compaction-p99", "  while another topic is compacted: p99", "ms"),
        Row("compaction-max", "  slowest", "ms"),
        Row("compaction-seconds", "  the compaction took", "s"),
        Row("compaction-left", "  and left of the data", "%"),
    ),
    run,
)
