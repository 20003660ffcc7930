"""One request to the simulated metadata store: its way there and the answer's way back, as `Weather` decides.

Used by `tidelog.testing.metadata` only."""

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
    """How the store and the connections to it behave from now on; shares are from 0 to 1."""

    delay_ms_max: int = 0
    """The longest delay of a request, and of an answer; each delay is random."""
    lost_requests: float = 0.0
    """Share of requests that never arrive.  Reads and requests for leases are sent again after a second."""
    lost_answers: float = 0.0
    """Share of requests that are executed and not answered."""
    late_ms_max: int = 0
    """A request that its sender has given up may still arrive within this time; 0: never."""
    late: float = 0.0
    """Share of requests that are delayed on their way for up to `late_ms_max`: they may happen when no sender expects it."""
    twice: float = 0.0
    """Share of requests that are executed once more, up to `late_ms_max` later, without an answer."""
    patience_ms: int = 10_000
    """The time without an answer after which the sender gets Unanswered."""


class StoreOfRequests(Protocol):
    """The store, as a request needs it."""

    weather: Weather

    def reaches(self, name: str) -> bool: ...

    def now(self) -> float: ...

    def later(self, delay_ms: int, work: Callable[[], None]) -> None: ...

    def work_of(self, name: str, work: Callable[[], T]) -> T:
        """Executes `work` for the process `name`, at this instant."""
        ...


class StoreRequest:
    """A request to the store and its answer.  Random numbers decide at the start what happens to them."""

    def __init__(
        self,
        store: StoreOfRequests,
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
            # The request waits: in a client that retries, or in a member that is itself cut off and passes it on late.
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
        """A delayed copy of the request arrives."""
        if not self._store.reaches(self._name):
            return
        try:
            self._store.work_of(self._name, self._work)
        except Exception:
            pass  # the copy has no sender that could be told

    def _deliver(self, result: Any, problem: Exception | None) -> None:
        if self._answer.done() or self._store.now() >= self._ends:
            return
        if not self._store.reaches(self._name):
            self._store.later(RETRY_MS, lambda: self._deliver(result, problem))
        elif problem is not None:
            self._answer.set_exception(problem)
            self._answer.exception()  # a process that was killed meanwhile does not retrieve it
        else:
            self._answer.set_result(result)
