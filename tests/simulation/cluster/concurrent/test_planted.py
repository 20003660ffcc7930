"""The concurrent play finds what it is there for: each mistake, planted into the running code, breaks a run within the stated
number of seeds.  `test_planted_mistakes` beside it has those that one trouble after the other finds."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from tests.simulation.cluster.concurrent import plants
from tests.simulation.cluster.concurrent.plants import Plant
from tests.simulation.cluster.concurrent.play import Profile, play
from tests.simulation.cluster.concurrent.troubles import ALL, DISKS, LINES, OPERATORS, POWER, PROCESSES, STORE
from tests.simulation.history import OneValuePerOffset
from tests.simulation.invariants import Violated
from tests.simulation.producers import StateForgotten
from tests.simulation.readers import Unreadable

LOST = {
    "AcknowledgedSurvives",
    "CommittedNeverBack",
    "NoStaleEnd",
    "OneValuePerOffset",
    "PrefixOfHistory",
    "ShownStays",
    "StateForgotten",
    "Unreadable",
}
ELECTED = {"DoubtedNeverLead", "DoubtedNeverServe", "AllHoldersReport", "LongestLogLeads", "OnlyHoldersLead"}


class Found(NamedTuple):
    """By which invariants, within how many seeds, and where several kinds of trouble are needed, by which."""

    by: set[str]
    seeds: int
    troubles: tuple[tuple[object, ...], ...] = ALL


PLANTED: dict[Plant, Found] = {}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    expected = PLANTED[plant]
    profile = Profile(clients=(), troubles=expected.troubles)  # type: ignore[arg-type]
    others: Counter[str] = Counter()
    for seed in range(expected.seeds):
        try:
            play(seed, profile)
        except (Violated, Unreadable, StateForgotten, OneValuePerOffset) as problem:
            names = problem.names if isinstance(problem, Violated) else {type(problem).__name__}
            if names & expected.by:
                return
            others.update(names)
    pytest.fail(f"not found in {expected.seeds} seeds, which found {dict(others)}")
