"""An answer that is held: as much of a future as a connection needs."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tidelog.coordination.timers import Timers
from tidelog.groups.held import Held, HeldAnswer
from tidelog.testing import VirtualClock

pytestmark = pytest.mark.simulated


def yes(_: Any) -> bool:
    return True


def test_it_is_found_out_once_and_told_at_once() -> None:
    heard: list[Any] = []
    answer = HeldAnswer(lambda expired: f"expired {expired}").turned(str.upper)
    answer.add_done_callback(lambda done: heard.append(done.result()))
    assert not answer.done()
    answer.set_result(True)
    answer.set_result(False)
    assert (answer.done(), heard) == (True, ["EXPIRED TRUE"])


def test_a_connection_that_went_away_hears_nothing() -> None:
    heard: list[Any] = []
    answer = HeldAnswer(lambda expired: expired)
    answer.add_done_callback(heard.append)
    answer.cancel()
    assert (answer.done(), heard) == (True, [])
    with pytest.raises(asyncio.CancelledError):
        answer.result()


def test_a_bug_in_finding_it_out_is_told_to_the_connection() -> None:
    answer = HeldAnswer(lambda expired: 1 // 0)
    heard: list[Any] = []
    answer.add_done_callback(heard.append)
    answer.set_result(None)
    assert heard == [answer]
    with pytest.raises(ZeroDivisionError):
        answer.result()


async def test_it_can_be_awaited() -> None:
    answer = HeldAnswer(lambda expired: expired)

    async def wait() -> bool:
        return await answer

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    answer.set_result(True)
    assert await waiting is True


async def test_it_ends_with_news_with_time_and_with_a_later_one_of_its_member() -> None:
    held = Held("test", Timers(VirtualClock()))

    def hold() -> HeldAnswer[bool]:
        answer = held.answer("g", "m", 1000, yes, lambda expired: expired)
        assert answer is not None
        return answer

    first = hold()
    second = hold()
    assert (first.done(), first.result(), second.done()) == (True, False, False)
    held.release_group("g")
    assert (second.result(), held.members("g")) == (False, ())
    third = hold()
    await asyncio.sleep(0.999)
    assert not third.done()
    await asyncio.sleep(0.002)
    assert (third.result(), held.members("g")) == (True, ())
    assert held.answer("g", "m", 0, yes, lambda expired: expired) is None
    assert held.answer("g", "m", 1000, lambda _: False, lambda expired: expired) is None


async def test_it_leaves_nothing_for_the_collector() -> None:
    """There are thousands of them a second: rings would keep the collector of garbage busy."""

    class Weighed(HeldAnswer[bool]):
        __slots__ = ("__weakref__",)

    held = Held("test", Timers(VirtualClock()))
    answer = held.answer("g", "m", 1000, yes, lambda expired: expired)
    assert answer is not None
    gone = weakref.ref(Weighed(lambda expired: expired))
    assert gone() is None
    answer.set_result(None)
    rings = [referrer for referrer in gc.get_referrers(answer) if callable(referrer)]
    assert rings == []
