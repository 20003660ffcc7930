"""A simulated process: everything that runs on its behalf, and that a kill ends at once.

Tasks, callbacks and timers belong to the process in whose context they were made.  After `kill` none of them takes another
step, as after kill -9.  Python runs the `finally` blocks of coroutines that are discarded: they run at once, and their calls
to the loop, or to a `Machine`'s disk and sockets, have no effect."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from tidelog.testing.disk_state import Crashed
from tidelog.testing.loop import VirtualLoop, running_process

T = TypeVar("T")


class Process:
    def __init__(self, name: str, loop: VirtualLoop | None = None) -> None:
        self.name = name
        self.dead = False
        self._loop = loop or virtual_loop()
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._outcomes: list[asyncio.Future[Any]] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task of this process.  A caller outside of the process that awaits the task waits for ever if the process
        dies: use `run` where that can happen."""
        context = contextvars.copy_context()
        context.run(running_process.set, self)
        name = f"{self.name}: {getattr(work, '__qualname__', work)}"
        return self._loop.create_task(work, context=context, name=name)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` done by this process, or `Crashed` if the process dies first."""
        if self.dead:
            work.close()
            raise Crashed(f"{self.name} is dead")
        outcome: asyncio.Future[T] = self._loop.create_future()
        self._outcomes.append(outcome)
        self.spawn(work).add_done_callback(lambda task: _pass_on(task, outcome))
        try:
            return await outcome
        finally:
            self._outcomes.remove(outcome)

    def pause(self) -> None:
        """Pauses the process, as after SIGSTOP."""
        if not self.dead:
            self._loop.pause(self)

    def go_on(self) -> None:
        self._loop.go_on(self)

    def kill(self) -> None:
        if self.dead:
            return
        self.dead = True
        self._loop.bury(self)
        for outcome in self._outcomes:
            if not outcome.done():
                outcome.set_exception(Crashed(f"{self.name} was killed"))


def _pass_on(task: asyncio.Task[T], outcome: asyncio.Future[T]) -> None:
    problem = None if task.cancelled() else task.exception()
    if outcome.done():
        return
    if task.cancelled():
        outcome.cancel()
    elif problem is not None:
        outcome.set_exception(problem)
    else:
        outcome.set_result(task.result())


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError("This works only on a VirtualLoop: start the scenario with tidelog.testing.run")
    return loop
