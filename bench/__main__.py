"""`python -m bench`: runs scenarios on Tidelog and, when its jars are there, on Apache Kafka, side by side."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench import machine, usage
from bench.load import compaction, consume, flush, idle, latency, memory, produce, small, start
from bench.results import Outcome, Samples, Scenario, table
from bench.scale import DEFAULT, FULL, GB, QUICK, Scale
from bench.systems import System, kafka, tidelog
from tests.conformance import apache_kafka

SCENARIOS = [
    module.SCENARIO for module in (start, memory, produce, consume, small, latency, flush, idle, compaction)
]
RESULTS = Path(__file__).parent / "results"
NOISE_MAX = 0.25  # of one core, taken by others during a measurement


def main() -> int:
    options = _options()
    # Every broker is stopped on the way out, whoever asks to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scale = FULL if options.full else QUICK if options.quick else DEFAULT
    scenarios = [s for s in SCENARIOS if not options.only or s.name in options.only.split(",")]
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.folder))
    try:
        _check_room(folder, scale)
        report = _run(scenarios, _systems(folder, options), scale, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n" + report.text)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(report.content, indent=1))
    print(f"\nwritten to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if report.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ", ".join(scenario.name for scenario in SCENARIOS)
    parser.add_argument("--only", metavar="NAME,NAME", default="", help=f"of: {names}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="small loads, to see that it works; figures are rough"
    )
    size.add_argument("--full", action="store_true", help="10 GB before memory is read, longer latency runs")
    parser.add_argument("--no-kafka", action="store_true", help="Tidelog alone")
    parser.add_argument("--no-tidelog", action="store_true", help="Apache Kafka alone")
    parser.add_argument(
        "--folder", type=Path, help="where the brokers' data goes meanwhile (the system's default)"
    )
    options = parser.parse_args()
    unknown = set(filter(None, options.only.split(","))) - {scenario.name for scenario in SCENARIOS}
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


def _check_room(folder: Path, scale: Scale) -> None:
    needed = scale.memory_load_bytes + 12 * scale.round_bytes + 2 * GB
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SystemExit(f"{folder} has {free / GB:.0f} GB free, {needed / GB:.0f} are needed: give --folder")


class Report:
    def __init__(self, facts: dict[str, object], scale: Scale) -> None:
        self.failures: list[str] = []
        self._outcomes: list[Outcome] = []
        self.content: dict[str, object] = {
            "machine": facts,
            "scale": vars(scale),
            "kafka": apache_kafka.VERSION,
        }
        self._runs: list[dict[str, object]] = []

    def add(self, scenario: Scenario, samples: dict[str, Samples]) -> None:
        for row in scenario.rows:
            ours, theirs = (samples.get(name, {}).get(row.key, []) for name in ("tidelog", "kafka"))
            self._outcomes.append(Outcome(row, ours, theirs))
        self.content["rows"] = [outcome.as_json() for outcome in self._outcomes]

    def add_failure(self, trace: str) -> None:
        self.failures.append(trace)
        self.content["failures"] = self.failures

    def add_run(self, facts: dict[str, object]) -> None:
        self._runs.append(facts)
        self.content["runs"] = self._runs

    @property
    def text(self) -> str:
        return table(self._outcomes)


def _run(scenarios: list[Scenario], systems: list[System], scale: Scale, folder: Path) -> Report:
    report = Report(machine.facts(folder), scale)
    for scenario in scenarios:
        samples: dict[str, Samples] = {}
        for system in systems:
            print(f"{scenario.name} on {system.name} ...", end=" ", flush=True)
            meter = _Meter()
            problem = ""
            try:
                samples[system.name] = scenario.run(system, scale)
            except Exception as failure:
                problem = f"{type(failure).__name__}: {failure}"
                report.add_failure(traceback.format_exc())
            facts = {"scenario": scenario.name, "system": system.name, "problem": problem, **meter.read()}
            report.add_run(facts)
            others = facts["others_cores"]
            noisy = isinstance(others, float) and others > NOISE_MAX
            print(
                problem or f"{facts['seconds']} s" + (f", others took {others} cores: noisy" if noisy else "")
            )
        report.add(scenario, samples)
    return report


class _Meter:
    """How much CPU went elsewhere while a scenario ran: neither to the bench nor to its brokers."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._own, self._all = usage.cpu_seconds(os.getpid()), usage.machine_busy_seconds()

    def read(self) -> dict[str, object]:
        seconds = time.perf_counter() - self._begin
        own = usage.cpu_seconds(os.getpid()) - self._own
        others = usage.machine_busy_seconds() - self._all - own
        return {
            "seconds": round(seconds, 1),
            "others_cores": round(max(0.0, others / seconds), 2),
            "load_average": os.getloadavg()[0],
        }


if __name__ == "__main__":
    sys.exit(main())
