"""A whole broker, crashed in every way at every moment, keeps its promises."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.play import Play
from tidelog.testing import run, seeds

ROUNDS = 4


def play(seed: int, rounds: int = ROUNDS) -> Play:
    async def scenario(random: Random) -> Play:
        played = Play(random)
        await played.run(rounds)
        return played

    return run(scenario, seed)


@pytest.mark.parametrize("seed", seeds(200))
def test_a_broker_keeps_its_promises_through_crashes(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(5000, start=1000))
def test_a_broker_keeps_its_promises_through_many_more_crashes(seed: int) -> None:
    play(seed, rounds=8)
