"""Work that Ctrl-C ends in order: it runs on a thread of its own, so that the signal never interrupts a call
to the JVM, which would break it and print a traceback."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

END_S_MAX = 30.0
WAKE_S = 0.2


class Interruptible:
    """Runs all work on one thread, in order: Spark keeps some of its state by thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """`cancel` makes the running work end soon; it is called on the thread that waits."""
        self._cancel = cancel
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="interruptible", daemon=True).start()

    def _work(self) -> None:
        while True:
            work, done = self._queue.get()
            if not done.set_running_or_notify_cancel():
                continue  # interrupted before it began
            try:
                done.set_result(work())
            except BaseException as problem:
                done.set_exception(problem)

    def run(self, work: Callable[[], T]) -> T:
        """Returns or raises what the work does; raises KeyboardInterrupt after the work was cancelled and has ended."""
        done: Future[T] = Future()
        try:
            self._queue.put((work, done))
            # The kernel may give the signal to another thread; Python then handles it when this one next wakes up.
            while not wait([done], WAKE_S).done:
                pass
            return done.result()
        except KeyboardInterrupt:
            if not done.cancel() and not done.done():
                self._cancel()
                wait([done], END_S_MAX)
            raise
