"""A whole cluster keeps its promises while two to four troubles strike it at the same time.

Producers and readers are at work in every run; a group, transactions, a share group, transactional offsets and topics that
come and go each in about a third of them.  See `survivors` for which losses
are allowed, to the record."""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.concurrent.play import Profile, play
from tests.simulation.cluster.concurrent.troubles import (
    DISKS,
    LINES,
    MOVES,
    POWER,
    PROCESSES,
    ROT,
)
from tidelog.testing import seeds
from tidelog.testing.scenario import SEED_VARIABLE

DEEP_SEEDS = 10_000
CHUNK = 50
LONG = Profile(rounds=2)
ROTTING = Profile(troubles=(ROT, PROCESSES))
MOVING = (
    Profile(troubles=(MOVES, POWER, PROCESSES, LINES)),
    Profile(troubles=(MOVES, DISKS, POWER)),
)


@pytest.mark.parametrize("seed", seeds(300))
def test_a_cluster_keeps_its_promises_when_troubles_meet(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_keeps_its_promises_while_bytes_rot(seed: int) -> None:
    play(seed, ROTTING)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_keeps_its_promises_while_logs_move_between_directories(seed: int) -> None:
    play(seed, MOVING[seed % len(MOVING)])


def _chunks() -> list[range]:
    """So many seeds to a test that the workers of a long run share them; one seed when it is named."""
    if SEED_VARIABLE in os.environ:
        seed = int(os.environ[SEED_VARIABLE])
        return [range(seed, seed + 1)]
    return [range(start, start + CHUNK) for start in range(1_000, 1_000 + DEEP_SEEDS, CHUNK)]


@pytest.mark.deep
@pytest.mark.parametrize("chunk", _chunks(), ids=lambda chunk: f"{chunk.start}-{chunk.stop - 1}")
def test_a_cluster_keeps_its_promises_when_troubles_meet_for_longer(chunk: range) -> None:
    for seed in chunk:
        play(seed, LONG)
