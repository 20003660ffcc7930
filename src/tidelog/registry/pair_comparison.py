"""Compares recursive schemas, and schemas that use the same part in many places, in bounded time.

Each pair of parts is compared once.  A pair that recurs while it is being compared is assumed to be compatible.  If an
assumption was wrong, the whole comparison is repeated with the pairs that turned out to be incompatible; their number
only grows, so this ends.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tidelog.registry.difference import Difference
from tidelog.registry.refusal import invalid_schema

PAIRS_MAX = 200_000

Differences = list[Difference]


class PairComparison:
    def __init__(self, bad: dict[Hashable, Differences]) -> None:
        self._done: dict[Hashable, Differences] = {}
        self._under_way: set[Hashable] = set()
        self._bad = bad
        self.guessed = False

    def compare(self, pair: Hashable, compute: Callable[[], Differences]) -> Differences:
        done = self._done.get(pair)
        if done is not None:
            return done
        if pair in self._under_way:
            self.guessed = True
            return self._bad.get(pair, [])
        if len(self._done) + len(self._under_way) >= PAIRS_MAX:
            raise invalid_schema("it has too many parts to be compared with another schema")
        self._under_way.add(pair)
        differences = self._done[pair] = compute()
        self._under_way.discard(pair)
        return differences

    def incompatible(self) -> dict[Hashable, Differences]:
        return {pair: differences for pair, differences in self._done.items() if differences}


def settled(compare: Callable[[PairComparison], Differences]) -> Differences:
    bad: dict[Hashable, Differences] = {}
    while True:
        pairs = PairComparison(bad)
        differences = compare(pairs)
        incompatible = pairs.incompatible()
        if not pairs.guessed or incompatible.keys() <= bad.keys():
            return differences
        bad = {**bad, **incompatible}
