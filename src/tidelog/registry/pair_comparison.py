"""Comparing schemas that refer to themselves, or to the same parts in many places, in bounded time.

Each pair of parts is compared once.  A pair that is met again while it is being compared is taken for compatible; where
that guess may have hidden something, everything is compared once more with the pairs that turned out not to be.  The
guesses can only be wrong about fewer and fewer pairs, so this ends.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tidelog.registry.difference import Difference
from tidelog.registry.refusal import invalid_schema

PAIRS_MAX = 200_000

Found = list[Difference]


class PairComparison:
    def __init__(self, bad: dict[Hashable, Found]) -> None:
        self._done: dict[Hashable, Found] = {}
        self._under_way: set[Hashable] = set()
        self._bad = bad
        self.guessed = False

    def compare(self, pair: Hashable, compute: Callable[[], Found]) -> Found:
        done = self._done.get(pair)
        if done is not None:
            return done
        if pair in self._under_way:
            self.guessed = True
            return self._bad.get(pair, [])
        if len(self._done) + len(self._under_way) >= PAIRS_MAX:
            raise invalid_schema("it has too many parts to be compared with another")
        self._under_way.add(pair)
        found = self._done[pair] = compute()
        self._under_way.discard(pair)
        return found

    def incompatible(self) -> dict[Hashable, Found]:
        return {pair: found for pair, found in self._done.items() if found}


def settled(compare: Callable[[PairComparison], Found]) -> Found:
    bad: dict[Hashable, Found] = {}
    while True:
        pairs = PairComparison(bad)
        found = compare(pairs)
        known = pairs.incompatible()
        if not pairs.guessed or known.keys() <= bad.keys():
            return found
        bad = {**bad, **known}
