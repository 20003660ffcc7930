"""Runs scenarios on systems, one after the other, and keeps what came out."""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import dataclass
from pathlib import Path

from bench.clients.compare import Figures
from bench.noise import CORES_MAX, Meter, wait_for_quiet
from bench.results import Outcome, Samples, Scenario, table
from bench.scale import Scale
from bench.systems import System

ATTEMPTS_MAX = 3


@dataclass(frozen=True)
class Attempt:
    """One scenario on one system."""

    scenario: str
    system: str
    samples: Samples
    problem: str  # a traceback, or empty
    seconds: float
    others_cores: float
    load_average: float

    @property
    def noisy(self) -> bool:
        return self.others_cores > CORES_MAX

    def __str__(self) -> str:
        if self.problem:
            return self.problem.splitlines()[-1]
        noise = f", others took {self.others_cores:.2f} cores: noisy" if self.noisy else ""
        return f"{self.seconds:.0f} s{noise}"


class Report:
    """The table so far; written after each scenario, so that a run that is cut short leaves something."""

    def __init__(self, path: Path, facts: dict[str, object]) -> None:
        self.path = path
        self._facts = facts
        self._outcomes: list[Outcome] = []
        self._attempts: list[Attempt] = []
        self._clients: list[Figures] = []

    @property
    def failed(self) -> bool:
        return any(attempt.problem for attempt in self._attempts)

    def add(self, scenario: Scenario, attempts: list[Attempt]) -> None:
        self._attempts += attempts
        samples = {attempt.system: attempt.samples for attempt in attempts}
        for row in scenario.rows:
            ours, theirs = (samples.get(name, {}).get(row.key, []) for name in ("tidelog", "kafka"))
            self._outcomes.append(Outcome(row, ours, theirs))
        self._write()

    def add_clients(self, figures: Figures) -> None:
        self._clients.append(figures)
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        content = {
            **self._facts,
            "rows": [outcome.as_json() for outcome in self._outcomes],
            "runs": [vars(attempt) for attempt in self._attempts],
            "clients": [figures.as_json() for figures in self._clients],
        }
        self.path.write_text(json.dumps(content, indent=1))

    def __str__(self) -> str:
        return "\n\n".join([*([table(self._outcomes)] if self._outcomes else []), *map(str, self._clients)])


def run(
    scenarios: list[Scenario], systems: list[System], scale: Scale, patience: float, report: Report
) -> None:
    for scenario in scenarios:
        report.add(scenario, [_patiently(scenario, system, scale, patience) for system in systems])


def _patiently(scenario: Scenario, system: System, scale: Scale, patience: float) -> Attempt:
    """With patience: waits for a quiet machine first, and tries again what noise has spoiled; the quietest counts."""
    best: Attempt | None = None
    for _ in range(ATTEMPTS_MAX if patience else 1):
        wait_for_quiet(patience)
        print(f"{scenario.name} on {system.name} ...", end=" ", flush=True)
        attempt = _attempt(scenario, system, scale)
        print(attempt, flush=True)
        if best is None or attempt.others_cores < best.others_cores:
            best = attempt
        if attempt.problem or not attempt.noisy:
            return attempt
    assert best is not None
    return best


def _attempt(scenario: Scenario, system: System, scale: Scale) -> Attempt:
    meter = Meter()
    samples: Samples = {}
    problem = ""
    try:
        samples = scenario.run(system, scale)
    except Exception:  # the other scenarios still have something to say
        problem = traceback.format_exc().rstrip()
    cores, load = round(meter.cores(), 2), os.getloadavg()[0]
    return Attempt(scenario.name, system.name, samples, problem, round(meter.seconds, 1), cores, load)
