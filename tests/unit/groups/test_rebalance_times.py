"""The duration of rebalances, from the states that a group goes through."""

from __future__ import annotations

import pytest

from tidelog.groups import rebalance_times
from tidelog.groups.rebalance_times import RebalanceTimes


def test_a_rebalance_lasts_until_the_group_is_stable() -> None:
    times = RebalanceTimes()
    for now_ms, state in (
        (0, "Stable"),
        (100, "PreparingRebalance"),
        (900, "CompletingRebalance"),
        (1_000, "Stable"),
    ):
        times.observe("g", state, now_ms)
    assert times.times_ms.sum == 900 and times.times_ms.read()[-1] == 1
    times.observe("g", "Stable", 5_000)
    assert times.times_ms.read()[-1] == 1
    times.observe("g", "Assigning", 6_000)
    times.observe("h", "Reconciling", 6_010)
    times.observe("g", "Stable", 6_005)
    times.observe("h", "Stable", 6_040)
    assert times.times_ms.sum == 935 and times.times_ms.read()[:2] == [1, 2]


def test_a_group_whose_members_leave_or_that_moves_is_not_counted() -> None:
    times = RebalanceTimes()
    for end in ("Empty", "Dead"):
        times.observe("g", "PreparingRebalance", 0)
        times.observe("g", end, 10)
        times.observe("g", "Stable", 20)
    times.observe("g", "PreparingRebalance", 0)
    times.forget("g")
    times.observe("g", "Stable", 20)
    assert times.times_ms.read()[-1] == 0


def test_open_rebalances_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_times, "OPEN_MAX", 2)
    times = RebalanceTimes()
    for number in range(5):
        times.observe(str(number), "PreparingRebalance", 0)
        times.observe(str(number), "PreparingRebalance", 1)
    for number in range(5):
        times.observe(str(number), "Stable", 2)
    assert times.times_ms.read()[-1] == 2
