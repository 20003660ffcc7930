"""Backups: what a running one costs producers, how fast it copies and restores, and how long a fork takes as files grow.

Apache Kafka has none.  The store is a folder on the disk of the broker, so a backup reads, hashes and writes on the machine
that is measured.  The commands run as processes of their own, as users run them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench import pages
from bench.admin import Admin
from bench.bulk import BulkProducer
from bench.paced import Paced
from bench.requests import batch
from bench.results import Row, Samples, Scenario, percentile
from bench.scale import MB, Scale
from bench.systems import System
from bench.workload import BATCH_BYTES, identities, warm_up
from tests.conformance.process import BrokerProcess

RATE = 1_000
PARTITIONS = 16
FORKS = 3
TIDELOG = str(Path(sys.executable).parent / "tidelog")
CREATE, RESTORE, FORK = ("backup", "create"), ("backup", "restore"), ("fork",)


def run(system: System, scale: Scale) -> Samples:
    if system.name != "tidelog":
        return {}
    samples: Samples = {}
    with (
        tempfile.TemporaryDirectory(dir=system.folder, prefix="backups-") as folder,
        system.running({}) as broker,
        Admin(broker.port) as admin,
    ):
        warm_up(broker, scale)
        topic = admin.create_topic("kept", PARTITIONS, {"segment.bytes": str(64 * MB), "retention.ms": "-1"})
        contents = [batch(100, BATCH_BYTES, first_key=number * 1_000) for number in range(100)]
        for number in range(1, FORKS + 1):
            pages.provide(system.folder, scale.compaction_bytes)
            with BulkProducer(broker.port, topic, contents, identities(admin, PARTITIONS)) as producer:
                producer.run(scale.compaction_bytes)
            forked = _command(broker, *FORK, "--data", f"{folder}/fork-{number}")
            samples[f"backup-fork-{number}"] = [forked["seconds"]]
            samples[f"backup-fork-{number}-shared"] = [forked["linked_bytes"] / MB]
        pages.provide(system.folder, 3 * FORKS * scale.compaction_bytes)
        _measure_create(broker, admin, folder, samples)
        restored, seconds = _timed(broker, *RESTORE, "--store", f"{folder}/store", "--data", f"{folder}/new")
        size = sum(each["bytes"] for each in restored["partitions"])
        samples["backup-restore-rate"] = [size / MB / seconds]
    return samples


def _measure_create(broker: BrokerProcess, admin: Admin, folder: str, samples: Samples) -> None:
    paced = Paced(broker.port, admin.create_topic("beside", 1), admin.producer(), consume=False)
    created: list[tuple[dict[str, Any], float]] = []

    def create() -> None:
        created.append(_timed(broker, *CREATE, "--store", f"{folder}/store"))

    try:
        paced.run(RATE, 3)
        quiet = paced.run(RATE, 10).acknowledged
        working = threading.Thread(target=create)
        working.start()
        busy = paced.run(RATE, 600, lambda now: working.is_alive()).acknowledged
        working.join()
    finally:
        paced.close()
    (described, seconds) = created[0]
    samples["backup-quiet-p99"] = [percentile(quiet, 99)]
    samples["backup-p99"] = [percentile(busy, 99)]
    samples["backup-max"] = [max(busy)]
    samples["backup-rate"] = [described["copied_bytes"] / MB / seconds]


def _timed(broker: BrokerProcess, *arguments: str) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    described = _command(broker, *arguments)
    return described, time.monotonic() - began


def _command(broker: BrokerProcess, *arguments: str) -> dict[str, Any]:
    where = [] if arguments[:2] == RESTORE else ["--bootstrap", broker.bootstrap]
    done = subprocess.run(
        [TIDELOG, *arguments, *where, "--json"], capture_output=True, text=True, timeout=600, check=True
    )
    described: dict[str, Any] = json.loads(done.stdout)
    return described


SCENARIO = Scenario(
    "backup",
    (
        Row("backup-quiet-p99", "acknowledged at 1,000/s: p99", "ms"),
        Row("backup-p99", "  while a backup is taken: p99", "ms"),
        Row("backup-max", "  slowest", "ms"),
        Row("backup-rate", "backup", "MB/s"),
        Row("backup-restore-rate", "restore", "MB/s"),
        *(
            row
            for number in range(1, FORKS + 1)
            for row in (
                Row(f"backup-fork-{number}-shared", f"fork {number}: shared", "MB"),
                Row(f"backup-fork-{number}", "  took", "s"),
            )
        ),
    ),
    run,
)
