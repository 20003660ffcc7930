"""What readers of committed data must find once every transaction has ended, whatever happened before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from tests.simulation.transactional import Outcome, Transaction, TransactionalProducer
from tidelog.types import TopicPartition

Found = Mapping[TopicPartition, list[bytes]]


class Invariant(Protocol):
    def violations(self, transaction: Transaction, seen: list[int]) -> Iterator[str]:
        """`seen`: how often each of its records is there."""


class NoAbortedRead:
    """Nothing of a transaction that was aborted, or that nobody ended, is read."""

    def violations(self, transaction: Transaction, seen: list[int]) -> Iterator[str]:
        if transaction.outcome in (Outcome.ABORTED, Outcome.OPEN) and any(seen):
            yield f"{sum(seen)} records can be read"


class CommittedIsThere:
    """Nothing of a transaction that was said to be committed is missing."""

    def violations(self, transaction: Transaction, seen: list[int]) -> Iterator[str]:
        if transaction.outcome is Outcome.COMMITTED and not all(seen):
            yield f"{seen.count(0)} of {len(seen)} records are lost"


class AllOrNothing:
    """Of a transaction whose end nobody was told, all records are there or none."""

    def violations(self, transaction: Transaction, seen: list[int]) -> Iterator[str]:
        if transaction.outcome is Outcome.UNKNOWN and any(seen) and not all(seen):
            yield f"only {len(seen) - seen.count(0)} of {len(seen)} records can be read"


class OnceInTransaction:
    """No record is there twice, however often it was sent."""

    def violations(self, transaction: Transaction, seen: list[int]) -> Iterator[str]:
        if any(count > 1 for count in seen):
            yield "records are there twice"


ALL: tuple[Invariant, ...] = (NoAbortedRead(), CommittedIsThere(), AllOrNothing(), OnceInTransaction())


def check(producers: Iterable[TransactionalProducer], found: Found) -> list[tuple[str, str]]:
    problems = []
    for producer in producers:
        for number, transaction in enumerate(producer.transactions, 1):
            wanted = [(name, value) for name, values in transaction.values.items() for value in values]
            seen = [found[name].count(value) for name, value in wanted]
            about = f"transaction {number} of {producer.name} ({transaction.outcome.value})"
            for one in ALL:
                for problem in one.violations(transaction, seen):
                    problems.append((type(one).__name__, f"{about}: {problem}"))
    return problems
