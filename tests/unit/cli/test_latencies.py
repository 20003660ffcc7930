from __future__ import annotations

import random

import pytest

from tidelog.cli.bench.latencies import Latencies


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_one_percent(seed: int) -> None:
    chance = random.Random(seed)
    times = [chance.lognormvariate(1, 2) for _ in range(2_000)]
    latencies = Latencies()
    for time_ms in times:
        latencies.add(time_ms)
    ordered = sorted(times)
    for percent, rank in ((50, 1000), (95, 1900), (99, 1980), (99.9, 1998)):
        true = ordered[rank - 1]
        assert true * 0.999 <= latencies.percentile_ms(percent) <= true * 1.011
    assert latencies.figures()["max_ms"] == pytest.approx(ordered[-1], abs=0.001)


def test_no_times_are_no_figures_and_many_take_little_memory() -> None:
    latencies = Latencies()
    assert latencies.figures() == {}
    for number in range(100_000):
        latencies.add(number / 100)
    latencies.add(0)
    assert len(latencies._buckets) < 2_500
