"""An asyncio loop on virtual time: when nothing is ready, the clock jumps to the next timer instead of sleeping.

One thread, no system call, no real socket: the same scenario with the same seed takes the same steps.  Watched descriptors
are those of `tidelog.testing` sockets.  Work for an executor runs at once, in the caller's turn."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

from tidelog.testing.disk_state import Crashed

if TYPE_CHECKING:
    from tidelog.testing.process import Process

Args = TypeVarTuple("Args")

ASYNCIO = os.path.dirname(asyncio.__file__)
START_S = 1_000
TURNS_MAX_AT_ONE_INSTANT = 200_000
CLOSE_ATTEMPTS_MAX = 100  # a broker that was stopping ends many things, each of which may wait
FIRST_DESCRIPTOR = 1_000_000  # far from any of the machine's own

running_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Stuck(RuntimeError):
    """The scenario is stuck: nothing will ever happen again, or callbacks run without end while no time passes."""


class _Turns(deque[asyncio.Handle]):
    """The ready callbacks while some process is paused: its callbacks are put aside until it goes on."""

    def __init__(self, ready: deque[asyncio.Handle], aside: dict[Process, list[asyncio.Handle]]) -> None:
        super().__init__(ready)
        self._aside = aside

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        process = _process(handle)
        if process not in self._aside:
            return handle
        self._aside[process].append(handle)
        return _NOTHING


class _ReadableDescriptors:
    """The watched descriptors that may be readable: all that are, and some that no longer are."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.places: dict[int, int] = {}  # in the order in which they were watched
        self._next_place = 0

    def watched(self, number: int) -> None:
        self.numbers.add(number)
        self._next_place += 1
        self.places[number] = self._next_place

    def readable(
        self, watched: dict[int, asyncio.Handle], find: Callable[[int], Descriptor | None]
    ) -> list[int]:
        """The readable ones, in the order in which they were watched."""
        self.numbers = {
            number
            for number in self.numbers
            if number in watched and (descriptor := find(number)) is not None and descriptor.readable()
        }
        return sorted(self.numbers, key=self.places.__getitem__)


class Descriptor(Protocol):
    """The object behind the number that `fileno()` of a simulated socket returns."""

    def readable(self) -> bool: ...
    def writable(self) -> bool: ...


class VirtualLoop(asyncio.BaseEventLoop):
    """`random`: decides the order in which descriptors that are ready together are served."""

    def __init__(self, random: Random | None = None) -> None:
        super().__init__()
        self.random = random or Random(0)
        # Simulated networks and disks run in this context, so they act even if the calling process is dead by then.
        self.outside = contextvars.Context()
        self._now_ns = START_S * 1_000_000_000
        self._turns = 0
        self._descriptors: dict[int, Descriptor] = {}
        self._next_descriptor = FIRST_DESCRIPTOR
        self._readers: dict[int, asyncio.Handle] = {}
        self._readable = _ReadableDescriptors()
        self._writers: dict[int, asyncio.Handle] = {}
        self._buried: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._tasks_made = 0
        self._numbers: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        self._aside: dict[Process, list[asyncio.Handle]] = {}  # the callbacks of paused processes
        self._generators: dict[int, Process] = {}  # by id: a weak reference is gone before the finalizer runs
        self._selector = self  # the base class asks `select` what is ready

    # Time.

    def time(self) -> float:
        return self._now_ns / 1e9

    def elapsed_ms(self) -> int:
        return self._now_ns // 1_000_000 - START_S * 1_000

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        """Called once per turn: returns the callbacks of ready descriptors, or advances the time and returns none."""
        ready = self._ready_descriptors()
        if ready or timeout == 0:
            self._turns += 1
            if self._turns > TURNS_MAX_AT_ONE_INSTANT:
                raise Stuck(f"{self._turns} turns have run and no time has passed\n{self.waiting()}")
            self.random.shuffle(ready)
            return ready
        if timeout is None:
            raise Stuck(
                f"nothing is ready and no timer is set: all tasks wait for each other\n{self.waiting()}"
            )
        self._turns = 0
        self._now_ns += math.ceil(timeout * 1e9)
        return []

    async def settle(self) -> None:
        """Returns when all other tasks wait for a timer or for good; no time passes."""
        await asyncio.sleep(0)
        while self._ready or self._ready_descriptors():
            await asyncio.sleep(0)

    # Descriptors.

    def open_descriptor(self, descriptor: Descriptor) -> int:
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = descriptor
        return self._next_descriptor

    def close_descriptor(self, number: int) -> None:
        self._descriptors.pop(number, None)
        self._readable.places.pop(number, None)
        if number in self._readers or number in self._writers:
            self.remove_reader(number)
            self.remove_writer(number)
            raise RuntimeError(f"Descriptor {number} was closed while the loop watches it: remove it first")

    def became_readable(self, number: int) -> None:
        """Called by a descriptor when something has arrived, so that the loop need not look at all descriptors."""
        self._readable.numbers.add(number)

    def add_reader(self, fd: Any, callback: Callable[[*Args], Any], *args: *Args) -> None:
        self._watch(self._readers, fd, callback, args)
        self._readable.watched(_number(fd))

    def add_writer(self, fd: Any, callback: Callable[[*Args], Any], *args: *Args) -> None:
        self._watch(self._writers, fd, callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return _dropped(self._readers, fd)

    def remove_writer(self, fd: Any) -> bool:
        return _dropped(self._writers, fd)

    def _watch(
        self, watched: dict[int, asyncio.Handle], fd: Any, callback: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        number = _number(fd)
        if number not in self._descriptors:
            raise ValueError(f"{fd!r} is not a socket of tidelog.testing, or it is closed")
        context = contextvars.copy_context()
        _dropped(watched, number)
        if not _dead(context):
            watched[number] = asyncio.Handle(callback, args, self, context)

    def _ready_descriptors(self) -> list[asyncio.Handle]:
        find = self._descriptors.get
        ready = [self._readers[number] for number in self._readable.readable(self._readers, find)]
        ready += [
            handle
            for number, handle in self._writers.items()
            if (descriptor := find(number)) is not None and descriptor.writable()
        ]
        if self._aside:
            return [handle for handle in ready if _process(handle) not in self._aside]
        return ready

    def _process_events(self, event_list: list[asyncio.Handle]) -> None:
        for handle in event_list:
            self._ready.append(handle)

    # Processes: callbacks and tasks of a dead process never run.

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = super().call_soon(callback, *args, context=context)
        if _dead(context):
            handle.cancel()
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        handle = super().call_at(when, callback, *args, context=context)
        if _dead(context):
            handle.cancel()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._tasks_made += 1
        self._numbers[task] = self._tasks_made
        context = options.get("context")
        process = running_process.get() if context is None else context.get(running_process)
        if process is not None and process.dead:
            self._bury_task(task)
        elif process is not None:
            process.tasks.add(task)
        return task

    def living_tasks(self) -> list[asyncio.Task[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if task not in self._buried]
        return sorted(tasks, key=self._numbers.__getitem__)

    def pause(self, process: Process) -> None:
        """Pauses a process until `go_on`, as after SIGSTOP: time passes, and what others send waits."""
        self._aside.setdefault(process, [])
        self._ready: deque[asyncio.Handle] = _Turns(self._ready, self._aside)

    def go_on(self, process: Process) -> None:
        """Resumes a process: callbacks that became due meanwhile run now, in the order in which they became due."""
        waiting = self._aside.pop(process, [])
        self._ready = _Turns(self._ready, self._aside) if self._aside else deque(self._ready)
        self._ready.extend(waiting)

    def bury(self, process: Process) -> None:
        """Ends a process: none of its callbacks and tasks runs from now on."""
        self.go_on(process)
        for handle in self._handles():
            if handle._context.get(running_process) is process:  # type: ignore[attr-defined]
                handle.cancel()
        for watched in (self._readers, self._writers):
            for number in [fd for fd, handle in watched.items() if handle.cancelled()]:
                del watched[number]
        context = contextvars.copy_context()
        context.run(running_process.set, process)
        for task in sorted(process.tasks, key=self._numbers.__getitem__):
            context.run(self._bury_task, task)

    def _asyncgen_firstiter_hook(self, generator: Any) -> None:
        process = running_process.get()
        if process is None:
            super()._asyncgen_firstiter_hook(generator)  # type: ignore[misc]
        else:
            self._generators[id(generator)] = process

    def _asyncgen_finalizer_hook(self, generator: Any) -> None:
        process = self._generators.pop(id(generator), None)
        if process is None or not process.dead:
            super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]

    def _bury_task(self, task: asyncio.Task[Any]) -> None:
        """Ends its coroutine now, where all it could still do is dead, and not when memory is collected.  What it is told is
        not GeneratorExit: that ends each coroutine by its caller's, and one that waits once more on its way out is
        left behind unfinished."""
        self._buried.add(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        work: Any = task.get_coro()
        if not hasattr(work, "cr_running"):  # a step of an asynchronous generator
            work.close()
            return
        for _ in range(CLOSE_ATTEMPTS_MAX):
            if work.cr_running:  # when its turn is over
                again = contextvars.copy_context().run
                super().call_soon(again, self._bury_task, task, context=self.outside)
                return
            if work.cr_frame is None:
                return
            try:
                work.throw(Crashed("its process is gone"))
            except BaseException:
                return  # it has ended; nobody is left to be told how

    def _handles(self) -> Iterator[asyncio.Handle]:
        yield from self._ready
        yield from list(self._scheduled)  # type: ignore[attr-defined]
        yield from self._readers.values()
        yield from self._writers.values()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignores `Crashed`, because the scenario planned that death."""
        if not isinstance(context.get("exception"), Crashed):
            super().call_exception_handler(context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        if _dead(contextvars.copy_context()):
            raise Crashed("A dead process cannot give work to threads")
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:
            done.set_exception(problem)
        return done

    def waiting(self) -> str:
        """Each task and the line where it waits, for an error message."""
        lines = [f"  {task.get_name()} waits in {_place(task)}" for task in self.living_tasks()]
        watched = {fd: self._descriptors.get(fd) for fd in (*self._readers, *self._writers)}
        lines += [f"  watched: {descriptor!r}" for descriptor in watched.values()]
        return "\n".join(lines)


def _process(handle: asyncio.Handle) -> Process | None:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context.get(running_process)


def _dead(context: contextvars.Context) -> bool:
    process = context.get(running_process)
    return process is not None and process.dead


def _nothing() -> asyncio.Handle:
    """A handle that the loop skips."""
    handle = asyncio.Handle.__new__(asyncio.Handle)
    handle._cancelled = True
    return handle


_NOTHING = _nothing()


def _number(fd: Any) -> int:
    number: int = fd if isinstance(fd, int) else fd.fileno()
    return number


def _dropped(watched: dict[int, asyncio.Handle], fd: Any) -> bool:
    handle = watched.pop(_number(fd), None)
    if handle is not None:
        handle.cancel()
    return handle is not None


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost line of our own code in a suspended task."""
    place = "its first line"
    inner: Any = task.get_coro()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(ASYNCIO):
            place = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return place
