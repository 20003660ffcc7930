"""Held heartbeats: each waits for a rebalance or an assignment of its member, for a bounded time.

The next request of its connection ends the hold, so no request waits for it.  Each driver of groups owns one instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from tidelog.coordination.timers import Timers

T = TypeVar("T")
Hold = Callable[[Any], bool]
"""Lets an answer wait until its connection gets another request; false when it must not wait at all."""


class HeldAnswer(Generic[T]):
    """An answer that is found out when the wait is over.  As much of a future as a connection needs, without a task and
    without turns of the loop: heartbeats are many, and nearly all of them bring nothing."""

    __slots__ = ("_cancelled", "_done", "_find", "_heard", "_outcome", "_problem", "expired")

    def __init__(self, find: Callable[[bool], T]) -> None:
        """`find` gets what the wait ended with."""
        self._find: Callable[[bool], Any] = find
        self._heard: Callable[[Any], object] | None = None
        self._outcome: Any = None
        self._problem: Exception | None = None
        self._done = self._cancelled = False
        self.expired = False  # it waited for as long as it may

    def turned(self, into: Callable[[Any], Any]) -> HeldAnswer[Any]:
        """Itself, with what `into` makes of its answer."""
        find = self._find
        self._find = lambda ended: into(find(ended))
        return self

    def set_result(self, ended: bool | None) -> None:
        if self._done:
            return
        self._done, self.expired = True, ended is True
        find, self._find = self._find, _found  # which may lead back here: no rings for the collector
        try:
            self._outcome = find(ended is True)
        except Exception as problem:  # a bug: the connection tells of it, and ends
            self._problem = problem
        if self._heard is not None:
            self._heard(self)

    def done(self) -> bool:
        return self._done

    def result(self) -> T:
        if self._cancelled:
            raise asyncio.CancelledError
        if self._problem is not None:
            raise self._problem
        outcome: T = self._outcome
        return outcome

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        if not self._done:
            self._cancelled, self._heard = True, None
            self.set_result(None)

    def add_done_callback(self, heard: Callable[[Any], object]) -> None:
        """One, called as soon as it is done."""
        assert self._heard is None
        if self._done:
            heard(self)
        else:
            self._heard = heard

    def __await__(self) -> Generator[Any, None, T]:
        answered = asyncio.get_running_loop().create_future()
        self.add_done_callback(lambda _: None if answered.done() else answered.set_result(None))
        try:
            yield from answered
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result()


class HeldHeartbeats:
    def __init__(self, kind: str, timers: Timers) -> None:
        self._kind = kind
        self._timers = timers
        self._waiting: dict[str, dict[str, Any]] = {}

    async def wait(self, group: str, member: str, most_ms: int, hold: Hold) -> bool:
        """True after `most_ms`; false when there is news, at the next request of the connection, or at once when it
        must not wait."""
        news: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self._begin(group, member, most_ms, hold, news):
            return False
        try:
            return await news is True
        finally:
            self._end(group, member, news)

    def answer(
        self, group: str, member: str, most_ms: int, hold: Hold, find: Callable[[bool], T]
    ) -> HeldAnswer[T] | None:
        """The same for an answer that `find` gives without waiting for anything else; None when it must not wait."""
        news: HeldAnswer[T] = HeldAnswer(find)
        if not self._begin(group, member, most_ms, hold, news):
            return None

        def ended(expired: bool) -> T:
            self._end(group, member, news)
            return find(expired)

        news._find = ended
        return news

    def _begin(self, group: str, member: str, most_ms: int, hold: Hold, news: Any) -> bool:
        if most_ms <= 0 or not hold(news):
            return False
        self.release(group, member)  # an earlier one, of a connection that the member has given up
        self._waiting.setdefault(group, {})[member] = news
        self._timers.set((self._kind, group, member, "held"), most_ms, partial(_release, news, True))
        return True

    def _end(self, group: str, member: str, news: Any) -> None:
        waiting = self._waiting.get(group, {})
        if waiting.get(member) is news:
            del waiting[member]
            self._timers.cancel((self._kind, group, member, "held"))
            if not waiting:
                del self._waiting[group]

    def members(self, group: str) -> tuple[str, ...]:
        """The members of the group whose heartbeats are held."""
        return tuple(self._waiting.get(group, ()))

    def release(self, group: str, member: str) -> None:
        news = self._waiting.get(group, {}).get(member)
        if news is not None:
            _release(news)

    def release_group(self, group: str) -> None:
        for news in list(self._waiting.get(group, {}).values()):
            _release(news)

    def release_all(self) -> None:
        for group in list(self._waiting):
            self.release_group(group)


def _found(_: bool) -> Any:
    raise AssertionError("an answer is found out once")


def _release(news: Any, expired: bool = False) -> None:
    if not news.done():
        news.set_result(expired)
