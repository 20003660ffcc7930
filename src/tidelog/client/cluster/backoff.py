"""Backoff: the wait before the next attempt doubles, is bounded, and has jitter, so that clients do not return in
step.  Pure: random numbers are passed in."""

from __future__ import annotations

from typing import Protocol

JITTER = 0.2


class RandomUniform(Protocol):
    def uniform(self, low: float, high: float, /) -> float: ...


class Backoff:
    def __init__(self, first_ms: int, most_ms: int, chance: RandomUniform) -> None:
        self._first_ms = first_ms
        self._most_ms = max(first_ms, most_ms)
        self._chance = chance
        self._failures = 0

    def failed(self) -> float:
        """Milliseconds to wait after one more failure in a row."""
        wait_ms = delay_ms(self._first_ms, self._most_ms, self._failures, self._chance)
        self._failures += 1
        return wait_ms

    def succeeded(self) -> None:
        self._failures = 0


def delay_ms(first_ms: int, most_ms: int, failures: int, chance: RandomUniform) -> float:
    """The wait after `failures` earlier failures: 0 stands for the first."""
    # 2**30 times the first wait is past every bound; a larger power only costs.
    plain = min(first_ms << min(failures, 30), most_ms)
    return plain * chance.uniform(1 - JITTER, 1 + JITTER)
