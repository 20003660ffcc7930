"""Virtual time passes only when no task can run, and a scenario that is stuck says why."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from random import Random

import pytest

from tidelog.testing import Crashed, Process, Stuck, VirtualClock, VirtualLoop, rerun_command, run, seeds

pytestmark = pytest.mark.simulated


async def test_a_day_of_sleep_takes_no_time() -> None:
    loop, started = asyncio.get_running_loop(), time.monotonic()
    before = loop.time()
    await asyncio.sleep(86_400)
    assert loop.time() - before == pytest.approx(86_400)
    assert time.monotonic() - started < 5


async def test_timers_fire_in_order_at_their_time() -> None:
    clock, seen = VirtualClock(), list[tuple[str, int]]()

    async def note(name: str, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        seen.append((name, clock.monotonic_ms()))

    await asyncio.gather(note("c", 1500), note("a", 1), note("b", 333))
    assert seen == [("a", 1), ("b", 333), ("c", 1500)]


async def test_timeouts_work_on_virtual_time(random: Random) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()


async def test_advancing_runs_all_that_falls_due_and_nothing_more(random: Random) -> None:
    clock = VirtualClock()

    async def work() -> str:
        await asyncio.sleep(1.5)
        for _ in range(10):
            await asyncio.sleep(0)
        return "done"

    first, second = asyncio.ensure_future(work()), asyncio.ensure_future(work())
    await clock.advance_ms(1_499)
    assert not first.done()
    await clock.advance_ms(1)
    assert first.done()
    assert second.done()
    third = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    await clock.advance_ms(1_500)
    assert third.done(), "what fell due at the same instant was left behind"


async def wait_for_nothing() -> None:
    await asyncio.Event().wait()


def test_a_run_that_waits_for_nothing_names_the_line_it_waits_at() -> None:
    with pytest.raises(Stuck, match="wait_for_nothing") as problem:
        run(lambda _: wait_for_nothing())
    assert "test_loop.py" in str(problem.value)


async def spin() -> None:
    for _ in range(10_000_000):
        await asyncio.sleep(0)


def test_a_run_that_spins_without_time_is_stopped() -> None:
    with pytest.raises(Stuck, match="no time has passed"):
        run(lambda _: spin())


async def test_executor_work_is_done_inline_and_its_failure_is_the_futures(random: Random) -> None:
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, lambda: 7) == 7
    assert await asyncio.to_thread(lambda: 8) == 8
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, lambda: 1 // 0)


async def test_a_real_file_descriptor_is_refused(random: Random) -> None:
    with pytest.raises(ValueError, match="not a socket of tidelog"):
        asyncio.get_running_loop().add_reader(0, print)


async def test_wall_time_jumps_and_monotonic_time_does_not(random: Random) -> None:
    clock, other = VirtualClock(start_ms=5_000), VirtualClock(start_ms=5_000)
    await asyncio.sleep(1)
    clock.jump_ms(-3_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (3_000, 1_000)
    assert other.now_ms() == 6_000


def test_a_clock_without_a_virtual_loop_moves_by_hand() -> None:
    clock = VirtualClock(start_ms=100)
    assert (clock.now_ms(), clock.monotonic_ms()) == (100, 0)
    clock.elapse_ms(50)
    assert (clock.now_ms(), clock.monotonic_ms()) == (150, 50)
    with pytest.raises(RuntimeError, match="VirtualLoop"):
        asyncio.run(clock.advance_ms(1))


async def test_nothing_of_a_killed_process_runs_again(random: Random) -> None:
    ran: list[str] = []
    process = Process("p")

    async def child() -> None:
        try:
            await asyncio.sleep(1)
            ran.append("slept")
        finally:
            loop = asyncio.get_running_loop()
            loop.call_soon(ran.append, "soon after death")
            with pytest.raises(Crashed):
                loop.run_in_executor(None, ran.append, "work after death")
            await asyncio.sleep(0)
            ran.append("went on after death")

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, ran.append, "timer")
        asyncio.get_running_loop().call_soon(ran.append, "soon")
        kept.append(asyncio.create_task(child()))
        await asyncio.sleep(0.5)
        process.kill()
        asyncio.get_running_loop().call_soon(ran.append, "after death")
        kept.append(asyncio.create_task(child()))
        try:
            await asyncio.sleep(0)
        finally:
            ran.append("thrown away")

    kept: list[asyncio.Task[None]] = [process.spawn(main())]
    await asyncio.sleep(10)
    assert ran == ["soon", "thrown away"]
    kept.clear()
    gc.collect()
    assert ran == ["soon", "thrown away"]


async def test_whoever_waits_for_a_process_learns_that_it_died(random: Random) -> None:
    process = Process("p")

    async def quick() -> str:
        return "result"

    async def fails() -> None:
        raise KeyError("mine")

    assert await process.run(quick()) == "result"
    with pytest.raises(KeyError):
        await process.run(fails())
    asyncio.get_running_loop().call_later(1, process.kill)
    with pytest.raises(Crashed):
        await process.run(asyncio.sleep(2))
    with pytest.raises(Crashed):
        await process.run(quick())


async def leave_a_task(ended: list[str]) -> asyncio.Task[None]:
    async def left_behind() -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    task = asyncio.create_task(left_behind())
    await asyncio.sleep(0)
    return task


def test_tasks_left_behind_are_cancelled_when_the_run_ends() -> None:
    ended: list[str] = []
    assert run(lambda _: leave_a_task(ended)).cancelled()
    assert ended == ["cancelled"]


async def fail(random: Random) -> None:
    assert random.random() < 0, "chance"


def test_a_failing_run_carries_its_seed_and_the_command_to_repeat_it() -> None:
    with pytest.raises(AssertionError) as problem:
        run(fail, seed=41)
    note = " ".join(problem.value.__notes__)
    assert "TIDELOG_SEED=41 " in note
    assert " -m pytest " in note
    assert "test_loop.py::test_a_failing_run_carries" in note


@pytest.mark.parametrize("seed", seeds(2))
def test_the_rerun_command_leaves_the_parameters_out(seed: int) -> None:
    assert rerun_command(seed).endswith("::test_the_rerun_command_leaves_the_parameters_out")


def test_the_environment_chooses_the_one_seed_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_SEED", raising=False)
    assert list(seeds(3)) == [0, 1, 2]
    monkeypatch.setenv("TIDELOG_SEED", "17")
    assert list(seeds(3)) == [17]


def test_outside_pytest_the_rerun_command_is_the_one_that_was_given() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    code = (
        "import sys; sys.argv = ['mine.py', '--fast']; import tidelog.testing as t; print(t.rerun_command(3))"
    )
    child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    printed = child.stdout.decode().strip()
    assert printed.startswith("TIDELOG_SEED=3 ")
    assert "python" in printed
    assert printed.endswith("mine.py --fast")


def test_the_loop_is_chosen_like_any_other() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(asyncio.sleep(3_600))


async def test_a_killed_process_that_waits_on_its_way_out_leaves_no_coroutine_behind(
    random: Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a broker that is killed while it stops: each thing that it ends waits, and the next one is ended all the same."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda problem: ignored.append(problem.exc_value))

    async def stop() -> None:
        async with AsyncExitStack() as undo:
            for _ in range(3):
                undo.push_async_callback(asyncio.sleep, 1)

    process = Process("broker")
    process.spawn(stop())
    await asyncio.sleep(0.5)
    process.kill()
    gc.collect()
    assert not ignored
