"""Nanoseconds of one call: the best of several rounds, since noise only ever adds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

ROUNDS = 7
ROUND_SECONDS = 0.05


class Case(NamedTuple):
    name: str
    work: Callable[[], object]


def nanoseconds(work: Callable[[], object]) -> float:
    """The loop around `work` and the call itself count too: about 40 ns."""
    calls, took = 1, _round(work, 1)
    while took < ROUND_SECONDS / 4:
        calls *= 4
        took = _round(work, calls)
    calls = max(1, int(calls * ROUND_SECONDS / took))
    return min(_round(work, calls) for _ in range(ROUNDS)) / calls * 1e9


def _round(work: Callable[[], object], calls: int) -> float:
    numbers = range(calls)
    begin = time.perf_counter()
    for _ in numbers:
        work()
    return time.perf_counter() - begin
