"""A whole cluster, its brokers crashed, frozen, cut off and starved in every way, keeps its promises."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.play import Profile, play
from tidelog.testing import seeds


@pytest.mark.parametrize("seed", seeds(200))
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(4000, start=1000))
def test_a_cluster_keeps_its_promises_for_longer(seed: int) -> None:
    play(seed, Profile(rounds=5))
