"""One request to the simulated metadata store: on its way, there, and back, as the weather has it.

Used by `tidelog.testing.metadata` alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

RETRY_MS = 100


@dataclass(slots=True)
class Weather:
    """How the store and the ways to it behave from now on; shares are from 0 to 1."""

    delay_ms_max: int = 0
    """Of each request, and of each answer; which one is chance."""
    lost_requests: float = 0.0
    """Share of requests that never arrive.  Reads and leases are asked for again after a second."""
    lost_answers: float = 0.0
    """Share of requests that are done and not answered."""
    late_ms_max: int = 0
    """A request that is given up may still be under way for as long as this; 0: never."""
    late: float = 0.0
    """Share of requests that are held up on their way for up to `late_ms_max`: they may happen when nobody expects it."""
    twice: float = 0.0
    """Share of requests that are done once more, up to `late_ms_max` later; nobody is told what came of it."""
    patience_ms: int = 10_000
    """After this long without an answer its author is told Unanswered."""


class Place(Protocol):
    """The store, as a request sees it."""

    weather: Weather

    def reaches(self, name: str) -> bool: ...

    def now(self) -> float: ...

    def later(self, delay_ms: int, work: Callable[[], None]) -> None: ...

    def work_of(self, name: str, work: Callable[[], T]) -> T:
        """Does `work` for the process `name`, at this instant."""
        ...


class StoreRequest:
    """On its way to the store, there, and back.  Chance has decided at the start what becomes of it."""

    def __init__(
        self,
        store: Place,
        name: str,
        work: Callable[[], T],
        answer: asyncio.Future[T],
        ends: float,
        random: Random,
    ) -> None:
        weather = store.weather
        self._store = store
        self._name = name
        self._work = work
        self._answer = answer
        self._ends = ends
        self._late_ends = ends + random.randint(0, weather.late_ms_max) / 1000
        self._back_ms = random.randint(0, weather.delay_ms_max)
        self._arrives = random.random() >= weather.lost_requests
        self._is_answered = random.random() >= weather.lost_answers
        self._again_ms: int | None = None
        if weather.twice and random.random() < weather.twice:
            self._again_ms = random.randint(0, weather.late_ms_max)
        delay_ms = random.randint(0, weather.delay_ms_max)
        if weather.late and random.random() < weather.late:
            delay_ms += random.randint(0, weather.late_ms_max)
        store.later(delay_ms, self._arrive)

    def _arrive(self) -> None:
        if not self._arrives:
            return
        if not self._store.reaches(self._name):
            # It waits: in a client that tries again, or in a member that is cut off itself and passes it on late.
            if self._store.now() < self._late_ends:
                self._store.later(RETRY_MS, self._arrive)
            return
        result: Any = None
        problem: Exception | None = None
        try:
            result = self._store.work_of(self._name, self._work)
        except Exception as failure:
            problem = failure
        if self._again_ms is not None:
            self._store.later(self._again_ms, self._arrive_again)
        if self._is_answered:
            self._store.later(self._back_ms, lambda: self._deliver(result, problem))

    def _arrive_again(self) -> None:
        """A copy of the request that was long on its way."""
        if not self._store.reaches(self._name):
            return
        try:
            self._store.work_of(self._name, self._work)
        except Exception:
            pass  # nobody is there to be told

    def _deliver(self, result: Any, problem: Exception | None) -> None:
        if self._answer.done() or self._store.now() >= self._ends:
            return
        if not self._store.reaches(self._name):
            self._store.later(RETRY_MS, lambda: self._deliver(result, problem))
        elif problem is not None:
            self._answer.set_exception(problem)
            self._answer.exception()  # a process that was killed meanwhile does not ask for it
        else:
            self._answer.set_result(result)
