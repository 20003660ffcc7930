"""Heartbeats that are not answered yet: each waits for news for its member, for a bounded time.

The next request of its connection ends a wait, so nobody waits behind it.  Drivers of groups own one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.coordination.timers import Timers

Waits = asyncio.Future[Any]
Hold = Callable[[Waits], bool]
"""Lets an answer wait until its connection gets another request; false when it must not wait at all."""


class Held:
    def __init__(self, kind: str, timers: Timers) -> None:
        self._kind = kind
        self._timers = timers
        self._waiting: dict[str, dict[str, Waits]] = {}

    async def wait(self, group: str, member: str, most_ms: int, hold: Hold) -> bool:
        """True after `most_ms`; false when there is news, at the next request of the connection, or at once when it
        must not wait."""
        news: Waits = asyncio.get_running_loop().create_future()
        if most_ms <= 0 or not hold(news):
            return False
        self.release(group, member)  # an earlier one, of a connection that the member has given up
        waiting = self._waiting.setdefault(group, {})
        waiting[member] = news
        name = (self._kind, group, member, "held")
        self._timers.set(name, most_ms, partial(_release, news, True))
        try:
            return await news is True
        finally:
            if waiting.get(member) is news:
                del waiting[member]
                self._timers.cancel(name)
                if not waiting and self._waiting.get(group) is waiting:
                    del self._waiting[group]

    def members(self, group: str) -> tuple[str, ...]:
        """Those of the group whose heartbeat waits."""
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


def _release(news: Waits, expired: bool = False) -> None:
    if not news.done():
        news.set_result(expired)
