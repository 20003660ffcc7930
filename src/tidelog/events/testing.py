"""Tests of aggregates without a broker: what was given, what was done, what happened then.

given(Account, "alice", Deposited(5)).when(lambda account: account.withdraw(3)).then(Withdrawn(3))"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from tidelog.events.aggregate import Aggregate
from tidelog.events.types import decode, encode

A = TypeVar("A", bound=Aggregate)


def given(kind: type[A], id: str, *events: Any) -> Case[A]:
    """An aggregate to which these events have happened."""
    aggregate = kind(id)
    for offset, happened in enumerate(events):
        stored, _ = decode(encode([happened], {}))  # as a store gives it back
        aggregate.replay(stored, offset)
    return Case(aggregate)


class Case(Generic[A]):
    def __init__(self, aggregate: A) -> None:
        self.aggregate = aggregate
        self._problem: Exception | None = None

    def when(self, decide: Callable[[A], object]) -> Self:
        try:
            decide(self.aggregate)
        except Exception as problem:
            self._problem = problem
        return self

    def then(self, *events: Any) -> Self:
        """Exactly these events happened."""
        if self._problem is not None:
            raise self._problem
        happened = list(self.aggregate.pending)
        assert happened == list(events), f"{happened} happened, and not {list(events)}"
        return self

    def then_raises(self, kind: type[Exception]) -> Self:
        """The command was refused with this error, and stored no event."""
        problem, self._problem = self._problem, None
        assert isinstance(problem, kind), f"{kind.__name__} was not raised, but {problem!r}"
        assert not list(self.aggregate.pending), "events were recorded before it was refused"
        return self
