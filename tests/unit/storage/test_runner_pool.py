"""As many compactions at a time as there are threads, also while their number changes; and their pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from tidelog.storage.compaction.io_pace import IoPace
from tidelog.storage.compaction.job import CompactionJob, CompactionProgress, Rewritten
from tidelog.storage.compaction.runner_pool import RunnerPool

JOB = cast(CompactionJob, None)


class SlowRunner:
    """Runs until it is let go."""

    made: list[SlowRunner]

    def __init__(self) -> None:
        self.running = False
        self.closed = False
        self.go = asyncio.Event()

    async def run(self, job: CompactionJob) -> AsyncGenerator[Rewritten | CompactionProgress, None]:
        assert not self.running, "a runner does one job at a time"
        self.running = True
        try:
            await self.go.wait()
            yield CompactionProgress(end=7)
        finally:
            self.running = False
            self.go.clear()

    async def close(self) -> None:
        self.closed = True


def pool(threads: int) -> tuple[RunnerPool, list[SlowRunner]]:
    made: list[SlowRunner] = []

    def make() -> SlowRunner:
        made.append(SlowRunner())
        return made[-1]

    return RunnerPool(make, threads), made


async def work(runners: RunnerPool) -> list[Any]:
    return [answer async for answer in runners.run(JOB)]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_jobs_wait_for_a_thread_and_runners_are_used_again() -> None:
    runners, made = pool(2)
    tasks = [asyncio.ensure_future(work(runners)) for _ in range(3)]
    await settle()
    assert [runner.running for runner in made] == [True, True]
    made[0].go.set()
    await settle()
    assert tasks[0].done() and made[0].running and len(made) == 2
    for runner in made:
        runner.go.set()
    assert [len(answers) for answers in await asyncio.gather(*tasks)] == [1, 1, 1]
    await runners.close()
    assert all(runner.closed for runner in made)


async def test_the_number_of_threads_changes_while_jobs_wait() -> None:
    runners, made = pool(0)
    tasks = [asyncio.ensure_future(work(runners)) for _ in range(3)]
    await settle()
    assert not made
    runners.resize(2)
    await settle()
    assert sum(runner.running for runner in made) == 2
    runners.resize(1)
    made[0].go.set()
    await settle()
    assert sum(runner.running for runner in made) == 1  # the third waits for both
    made[1].go.set()
    await settle()
    assert sum(runner.running for runner in made) == 1 and tasks[0].done() and tasks[1].done()
    next(runner for runner in made if runner.running).go.set()
    await asyncio.gather(*tasks)


async def test_who_gives_up_waiting_takes_no_thread() -> None:
    runners, made = pool(1)
    first, second, third = [asyncio.ensure_future(work(runners)) for _ in range(3)]
    await settle()
    made[0].go.set()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    await settle()
    assert made[0].running and len(made) == 1
    made[0].go.set()
    assert len(await third) == 1


@pytest.mark.parametrize(("rate", "expected_s"), [(1000.0, 9.5), (1.7976931348623157e308, 0.0)])
def test_reading_and_writing_stay_below_the_pace(rate: float, expected_s: float) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    pace = IoPace(rate, lambda: now_s, sleep)
    for _ in range(95):
        pace.used(100)
    assert now_s == pytest.approx(expected_s, abs=0.02)
    now_s += 60  # time without work is not saved up
    pace.used(5000)
    assert now_s == pytest.approx(expected_s + 60 + 5000 / rate, abs=0.02)
