"""Compares recursive schemas, and schemas that use the same part in many places, in bounded time.

Each pair of parts is compared once.  A pair that recurs while it is being compared is assumed to be compatible.  If an
assumption was wrong, the whole comparison is repeated with the pairs that turned out to be incompatible; their number
only grows, so this ends.  All of that together may take STEPS_MAX steps: a short schema can stand for exponentially many
cases, and one comparison must not keep the registry from everybody else.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tidelog.registry.difference import Difference
from tidelog.registry.refusal import invalid_schema

STEPS_MAX = 100_000

Differences = list[Difference]


class PairComparison:
    def __init__(self, bad: dict[Hashable, Differences], steps_left: int = STEPS_MAX) -> None:
        self._done: dict[Hashable, Differences] = {}
        self._under_way: set[Hashable] = set()
        self._bad = bad
        self.guessed = False
        self.steps_left = steps_left

    def spend(self, steps: int) -> None:
        """Raises `Refusal` when there is too much to compare."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise invalid_schema("it has too many parts to be compared with another schema")

    def compare(self, pair: Hashable, compute: Callable[[], Differences]) -> Differences:
        done = self._done.get(pair)
        if done is not None:
            return done
        if pair in self._under_way:
            self.guessed = True
            return self._bad.get(pair, [])
        self.spend(1)
        self._under_way.add(pair)
        # A part that is used twice has its differences once: otherwise each level of nesting doubles them.
        differences = self._done[pair] = list(dict.fromkeys(compute()))
        self.spend(len(differences))
        self._under_way.discard(pair)
        return differences

    def incompatible(self) -> dict[Hashable, Differences]:
        return {pair: differences for pair, differences in self._done.items() if differences}


def settled(compare: Callable[[PairComparison], Differences]) -> Differences:
    bad: dict[Hashable, Differences] = {}
    steps_left = STEPS_MAX
    while True:
        pairs = PairComparison(bad, steps_left)
        differences = compare(pairs)
        incompatible = pairs.incompatible()
        if not pairs.guessed or incompatible.keys() <= bad.keys():
            return differences
        bad, steps_left = {**bad, **incompatible}, pairs.steps_left
