"""Runs every client on the same broker, in turns and each in a fresh process, so that what else the machine does meets
all of them; keeps CPU and rate of each, and says whether Tidelog's own client reaches its goals."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.clients.readers import READERS
from bench.clients.writers import WRITERS

FIRST = "confluent-kafka"
ROWS, ARROW = "tidelog", "tidelog, Arrow"
# The slow ones get fewer records: what counts is the time of each.
SHARE = {"aiokafka": 10, "kafka-python": 10}
# Arrow's CPU, as a part of confluent-kafka's.
ARROW_CPU_MOST = {100: 0.1, 1000: 0.25}
# Others have no columns; with headers and compression only these are compared.
FULL_CLIENTS = (FIRST, ROWS, ARROW)
SECONDS_MAX = 600


@dataclass(frozen=True)
class Case:
    action: str
    size: int
    settings: str = "default"
    content: str = "plain"

    def __str__(self) -> str:
        told = f"{self.action}, {self.size} B"
        if self.action == "produce":
            told += f", {self.settings} settings"
        return told + (", keys, nulls, headers, lz4" if self.content == "full" else "")


@dataclass
class Figures:
    """What each client took in each round."""

    case: Case
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)

    def add(self, client: str, one: dict[str, float]) -> None:
        self.cpu_us.setdefault(client, []).append(one["cpu_us"])
        self.rate.setdefault(client, []).append(one["rate"])

    def cpu_ratio(self, client: str) -> float:
        return statistics.median(self.cpu_us[client]) / statistics.median(self.cpu_us[FIRST])

    def rate_ratio(self, client: str) -> float:
        return statistics.median(self.rate[client]) / statistics.median(self.rate[FIRST])

    def goal(self, client: str) -> tuple[str, bool] | None:
        """What is asked of it, and whether that is so."""
        if client == ROWS:
            return "rate >= 1", self.rate_ratio(client) >= 1
        most = ARROW_CPU_MOST.get(self.case.size)
        if client == ARROW and most is not None:
            return f"CPU <= {most:g}", self.cpu_ratio(client) <= most
        return None

    def as_json(self) -> dict[str, object]:
        goals = {client: self.goal(client) for client in self.cpu_us}
        return {
            **vars(self.case),
            "cpu_us": self.cpu_us,
            "rate": self.rate,
            "goals": {client: goal for client, goal in goals.items() if goal is not None},
        }

    def __str__(self) -> str:
        lines = [str(self.case), "", "| client | CPU us | ratio | records/s | ratio | goal | met |"]
        lines.append("|---" * 7 + "|")
        for client in self.cpu_us:
            cpu, rate = statistics.median(self.cpu_us[client]), statistics.median(self.rate[client])
            goal = self.goal(client)
            asked, met = ("", "") if goal is None else (goal[0], "yes" if goal[1] else "NO")
            ratios = f"{self.cpu_ratio(client):.2f}", f"{self.rate_ratio(client):.2f}"
            lines.append(
                f"| {client} | {cpu:.3g} | {ratios[0]} | {rate:,.0f} | {ratios[1]} | {asked} | {met} |"
            )
        return "\n".join(lines)


def cases(actions: Sequence[str], sizes: Sequence[int], settings: Sequence[str]) -> list[Case]:
    found = [
        Case(action, size, one)
        for action in actions
        for one in (settings if action == "produce" else ("default",))
        for size in sizes
    ]
    return found + [Case(action, size, settings[0], "full") for action in actions for size in sizes]


def compare(
    bootstrap: str, chosen: Sequence[Case], megabytes: int, rounds: int, clients: Sequence[str] = ()
) -> Iterator[Figures]:
    for case in chosen:
        count = megabytes * 1_000_000 // case.size
        known = FULL_CLIENTS if case.content == "full" else (WRITERS if case.action == "produce" else READERS)
        wanted = [one for one in known if not clients or one in clients or one == FIRST]
        topic, figures = _new_name(), Figures(case)
        if case.action == "consume":
            _measure(ARROW, Case("produce", case.size, "same", case.content), bootstrap, topic, count)
        for _ in range(rounds):
            for client in wanted:
                here = topic if case.action == "consume" else _new_name()
                figures.add(client, _measure(client, case, bootstrap, here, count // SHARE.get(client, 1)))
        yield figures


def _new_name() -> str:
    return f"bench-{uuid.uuid4().hex[:8]}"


def _measure(client: str, case: Case, bootstrap: str, topic: str, count: int) -> dict[str, float]:
    where = bootstrap, topic, str(case.size), str(count), case.settings, case.content
    command = [sys.executable, "-m", "bench.clients.work", client, case.action, *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(f"{client} failed to {case.action}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
