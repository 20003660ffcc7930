"""`python -m bench`: runs scenarios on Tidelog and, when its jars are there, on Apache Kafka, side by side."""

from __future__ import annotations

import argparse
import datetime
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from bench import machine, runner
from bench.clients.compare import cases, compare
from bench.load import (
    backup,
    cluster,
    compaction,
    consume,
    encryption,
    flush,
    groups,
    hostile,
    idle,
    latency,
    memory,
    processes,
    produce,
    scrape,
    security,
    small,
    spark,
    start,
)
from bench.scale import DEFAULT, FULL, GB, QUICK, Scale
from bench.systems import System, kafka, tidelog
from tests.conformance import apache_kafka

SCENARIOS = [
    module.SCENARIO
    for module in (
        start,
        memory,
        produce,
        consume,
        encryption,
        small,
        latency,
        flush,
        groups,
        idle,
        compaction,
        backup,
        cluster,
        spark,
        scrape,
        hostile,
        security,
        processes,
    )
]
# Not a scenario: its figures are of the clients, on the same broker.
CLIENTS = "clients"
NAMES = [*(scenario.name for scenario in SCENARIOS), CLIENTS]
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    options = _options()
    # Every broker is stopped on the way out, whoever asks to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scale = FULL if options.full else QUICK if options.quick else DEFAULT
    wanted = options.only.split(",") if options.only else NAMES
    scenarios = [s for s in SCENARIOS if s.name in wanted]
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.folder))
    facts: dict[str, object] = {
        "machine": machine.facts(folder),
        "scale": vars(scale),
        "kafka": apache_kafka.VERSION,
    }
    report = runner.Report(RESULTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.json", facts)
    try:
        _check_room(folder, scale)
        runner.run(scenarios, _systems(folder, options), scale, options.patience, report)
        if CLIENTS in wanted and not options.no_tidelog:
            _compare_clients(folder, scale, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"\n{report}\n\nin {report.path}")
    return 1 if report.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ", ".join(NAMES)
    parser.add_argument("--only", metavar="NAME,NAME", default="", help=f"of: {names}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small loads, to see that it works; rough figures")
    size.add_argument("--full", action="store_true", help="10 GB before memory is read, longer latency runs")
    parser.add_argument("--no-kafka", action="store_true", help="Tidelog alone")
    parser.add_argument("--no-tidelog", action="store_true", help="Apache Kafka alone")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="on a shared machine: wait up to this long before each scenario until others are quiet, "
        f"and run it up to {runner.ATTEMPTS_MAX} times",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the brokers' data goes meanwhile (a temporary one)"
    )
    options = parser.parse_args()
    unknown = set(filter(None, options.only.split(","))) - set(NAMES)
    if unknown:
        parser.error(f"no scenario is called {', '.join(sorted(unknown))}; there are {names}")
    return options


def _systems(folder: Path, options: argparse.Namespace) -> list[System]:
    systems = [] if options.no_tidelog else [tidelog(folder)]
    if not options.no_kafka:
        reason = apache_kafka.missing()
        if reason is None:
            systems.append(kafka(folder))
        else:
            print(f"without Apache Kafka: {reason}")
    return systems


def _compare_clients(folder: Path, scale: Scale, report: runner.Report) -> None:
    """Python's clients on one Tidelog broker."""
    with tidelog(folder).running({"auto.create.topics.enable": "true"}) as broker:
        chosen = cases(("produce", "consume"), (100, 1000), ("same", "default"))
        for figures in compare(broker.bootstrap, chosen, scale.client_megabytes, scale.rounds):
            print(f"clients: {figures.case}", flush=True)
            report.add_clients(figures)


def _check_room(folder: Path, scale: Scale) -> None:
    needed = scale.memory_load_bytes + 12 * scale.round_bytes + 2 * GB
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SystemExit(f"{folder} has {free / GB:.0f} GB free, {needed / GB:.0f} are needed: give --folder")


if __name__ == "__main__":
    sys.exit(main())
