from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.timers import Timers
from tidelog.testing import VirtualClock

pytestmark = pytest.mark.simulated

NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.tuples(st.just("set"), NAMES, st.integers(0, 50))
    | st.tuples(st.just("cancel"), NAMES, st.just(0))
    | st.tuples(st.just("wait"), st.just(""), st.integers(0, 40)),
    max_size=40,
)


@given(STEPS)
async def test_each_deadline_passes_once_at_its_last_time(steps: list[tuple[str, str, int]]) -> None:
    clock = VirtualClock()
    timers = Timers(clock)
    passed: list[str] = []
    due: dict[str, int] = {}
    for what, name, ms in steps:
        if what == "set":
            timers.set(name, ms, lambda name=name: passed.append(name))  # type: ignore[misc]
            due[name] = clock.monotonic_ms() + ms
        elif what == "cancel":
            timers.cancel(name)
            due.pop(name, None)
        else:
            passed.clear()
            await asyncio.sleep(ms / 1000)
            for _turn in range(3):
                await asyncio.sleep(0)
            now = clock.monotonic_ms()
            assert len(passed) == len(set(passed))
            for name in passed:
                assert due.pop(name) <= now
            # One that is due in this very millisecond may pass in the next.
            assert all(at >= now for at in due.values())
    await asyncio.sleep(0.1)
    due.clear()
    assert len(timers) == len(due)
    timers.clear()


async def test_a_deadline_that_fails_does_not_take_the_others_along() -> None:
    timers = Timers(VirtualClock())
    passed: list[str] = []
    timers.set("a", 5, lambda: 1 // 0)  # type: ignore[arg-type]
    timers.set("b", 5, lambda: passed.append("b"))
    timers.set("c", 9, lambda: timers.set("d", 1, lambda: passed.append("d")))
    await asyncio.sleep(1)
    assert passed == ["b", "d"]


async def test_an_act_can_cancel_one_that_is_due_with_it() -> None:
    timers = Timers(VirtualClock())
    passed: list[str] = []
    timers.set("a", 5, lambda: timers.cancel("b"))
    timers.set("b", 5, lambda: passed.append("b"))
    await asyncio.sleep(1)
    assert passed == []
