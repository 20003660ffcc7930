"""A whole broker, crashed in every way at every moment, keeps its promises."""

from __future__ import annotations

import pytest

from tests.simulation.play import Play, Profile, play
from tidelog.testing import seeds


@pytest.mark.parametrize("seed", seeds(200))
def test_a_broker_keeps_its_promises_through_crashes(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(4000, start=1000))
def test_a_broker_keeps_its_promises_through_many_more_crashes(seed: int) -> None:
    play(seed, Profile(rounds=6, pause_chance=0.4))


def test_a_seed_repeats_a_run_to_the_byte() -> None:
    def outcome(played: Play) -> tuple[object, ...]:
        world = played.world
        return (
            world.machine.disk.files(),
            world.machine.disk.operations,
            world.clock.now_ms(),
            world.partitions,
        )

    for seed in (1, 2, 3):
        assert outcome(play(seed)) == outcome(play(seed))


def test_a_run_is_worth_its_name() -> None:
    """Producers are answered, segments roll, and what is promised is a lot."""
    worlds = [play(seed).world for seed in range(5)]
    promised = [len(history.promised) for world in worlds for history in world.partitions.values()]
    assert sum(promised) > 500
    logs = [path for world in worlds for path in world.machine.disk.files() if path.endswith(".log")]
    assert len(logs) > 2 * len(promised), "segments did not roll"
