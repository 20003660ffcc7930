"""Work that Ctrl-C ends in order: it runs on a thread of its own, so that the signal never lands in the middle of a call
to the JVM, which would be torn and told of with a traceback."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

END_S_MAX = 30.0


class Interruptible:
    """One thread for all of it, one piece after the other: Spark keeps some of its state by thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """`cancel` makes the piece that runs end soon; it is called on the thread that waits."""
        self._cancel = cancel
        self._given: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="interruptible", daemon=True).start()

    def _work(self) -> None:
        while True:
            work, done = self._given.get()
            try:
                done.set_result(work())
            except BaseException as problem:
                done.set_exception(problem)

    def run(self, work: Callable[[], T]) -> T:
        """What it returns or raises; KeyboardInterrupt once it was cancelled and has ended."""
        done: Future[T] = Future()
        self._given.put((work, done))
        try:
            return done.result()
        except KeyboardInterrupt:
            if not done.done():
                self._cancel()
                wait([done], END_S_MAX)
            raise
