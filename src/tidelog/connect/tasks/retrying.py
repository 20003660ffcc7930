"""Runs a task again after its other side or a broker was away, with growing pauses; says how it is."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidelog import errors
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.state.status import FAILED, RESTARTING, RUNNING
from tidelog.connect.task_log import TaskLog

PAUSE_S = 0.2
STEADY_S = 30.0  # what has run for so long begins with short pauses again

Say = Callable[[str, str], Awaitable[None]]


class RunnableTask(Protocol):
    log: TaskLog

    async def run(self, running: Callable[[], Awaitable[None]]) -> None:
        """Until it is cancelled; `running` is awaited as soon as the other side answers."""


async def keep_running(task: RunnableTask, config: ConnectorConfig, say: Say) -> None:
    """`say`: state and trace of the task."""
    pause_max_s = config.number("errors.retry.delay.max.ms") / 1000
    timeout_s = config.number("errors.retry.timeout") / 1000
    pause_s, failing_since, state = PAUSE_S, None, ""
    while True:
        began = time.monotonic()

        async def running() -> None:
            nonlocal state
            if state != RUNNING:
                state = RUNNING
                await say(RUNNING, "")

        try:
            await task.run(running)
            return
        except Exception as problem:
            now = time.monotonic()
            if now - began > STEADY_S or failing_since is None:
                pause_s, failing_since = PAUSE_S, now
            waited_long = 0 <= timeout_s < now - failing_since
            if not may_pass(problem) or waited_long:
                task.log.error("the task failed: %s", problem, exc_info=_unexpected(problem))
                await say(FAILED, trace_of(problem))
                return
            task.log.warning("trying again in %.1f s: %s", pause_s, problem)
            if state != RESTARTING:
                state = RESTARTING
                await say(RESTARTING, trace_of(problem))
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, pause_max_s)


def may_pass(problem: BaseException) -> bool:
    """Another attempt may succeed.  A task that was fenced by its own successor loses its slot soon, or wins."""
    fenced = (
        errors.ProducerFenced,
        errors.InvalidProducerEpoch,
        errors.InvalidTxnState,
        errors.TransactionAbortable,
    )
    return isinstance(problem, errors.TidelogError) and (problem.retriable or isinstance(problem, fenced))


def _unexpected(problem: Exception) -> Exception | None:
    return None if isinstance(problem, errors.TidelogError) else problem


def trace_of(problem: BaseException) -> str:
    if isinstance(problem, errors.TidelogError):
        return f"{type(problem).__name__}: {problem}"
    return "".join(traceback.format_exception(problem))
