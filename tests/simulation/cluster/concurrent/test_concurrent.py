"""A whole cluster keeps its promises while two to four troubles strike it at the same time.

Producers and readers are at work in every run; a group, transactions, a share group, transactional offsets and topics that
come and go each in about a third of them.  See `survivors` for which losses
are allowed, to the record."""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.concurrent.play import Profile, play
from tests.simulation.cluster.concurrent.troubles import (
    CLOCKS,
    DISKS,
    LINES,
    MOVES,
    POWER,
    PROCESSES,
    REASSIGNED,
    RESTORED,
    ROT,
    STORE,
    TWO_DISKS,
    UNCLEAN,
)
from tidelog.testing import seeds
from tidelog.testing.scenario import SEED_VARIABLE

DEEP_SEEDS = range(1_000, 11_000)
SEEDS_VARIABLE = "TIDELOG_DEEP_SEEDS"
"""FIRST-LAST: other seeds, or a part of them for one of several machines."""
CHUNK = 50
LONG = Profile(rounds=2)
ROTTING = Profile(troubles=(ROT, PROCESSES))
MOVING = (
    Profile(troubles=(MOVES, POWER, PROCESSES, LINES)),
    Profile(troubles=(MOVES, DISKS, POWER)),
)
TOGETHER = {
    "one of two disks is replaced": Profile(troubles=(TWO_DISKS, POWER, PROCESSES)),
    "bytes rot and operators elect": Profile(troubles=(ROT, UNCLEAN, POWER, PROCESSES)),
    "a store is restored during reassignments": Profile(troubles=(RESTORED, REASSIGNED, PROCESSES, POWER)),
    "clocks jump": Profile(troubles=(CLOCKS, STORE, LINES, PROCESSES)),
}
"""Troubles that seldom meet by chance alone."""


@pytest.mark.parametrize("seed", seeds(300))
def test_a_cluster_keeps_its_promises_when_troubles_meet(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_keeps_its_promises_while_bytes_rot(seed: int) -> None:
    play(seed, ROTTING)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_keeps_its_promises_while_logs_move_between_directories(seed: int) -> None:
    play(seed, MOVING[seed % len(MOVING)])


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("troubles", TOGETHER)
def test_a_cluster_keeps_its_promises_when(troubles: str, seed: int) -> None:
    play(seed, TOGETHER[troubles])


def _chunks() -> list[range]:
    """So many seeds to a test that the workers of a long run share them; one seed when it is named."""
    if SEED_VARIABLE in os.environ:
        seed = int(os.environ[SEED_VARIABLE])
        return [range(seed, seed + 1)]
    wanted = DEEP_SEEDS
    if SEEDS_VARIABLE in os.environ:
        first, last = map(int, os.environ[SEEDS_VARIABLE].split("-"))
        wanted = range(first, last + 1)
    return [wanted[at : at + CHUNK] for at in range(0, len(wanted), CHUNK)]


@pytest.mark.deep
@pytest.mark.parametrize("chunk", _chunks(), ids=lambda chunk: f"{chunk.start}-{chunk.stop - 1}")
def test_a_cluster_keeps_its_promises_when_troubles_meet_for_longer(chunk: range) -> None:
    for seed in chunk:
        play(seed, LONG)
