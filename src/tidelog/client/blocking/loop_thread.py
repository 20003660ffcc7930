"""The clients' thread: one event loop for all blocking clients of this process.

It starts with the first client and ends with the last one.  A blocking client runs the asyncio client's
coroutines here and waits for them, so there is one implementation of everything.  A forked child starts with
no thread and no clients: those of its parent are not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

# Tasks that the last client has left behind (its close was interrupted) have so long to end.
LEFT_S_MAX = 1.0


class LoopThread:
    """`join` it, and `leave` it once."""

    def __init__(self) -> None:
        self.clients = 0
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidelog-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            # `sys.exit()` in a function of the application leaves the loop, after its waiter has got the exception.
            # Other clients go on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=LEFT_S_MAX))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` and waits for its result; an interrupt of the wait cancels the work."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs `work`, for a caller that waits in another way."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a callback runs on the client's own thread and must not wait for it: "
                "hand the work to another thread"
            )
        if not self.alive:
            work.close()
            raise RuntimeError("this client was made before the process forked: make a new one")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stopping = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()


_lock = threading.Lock()
_current: LoopThread | None = None


def join() -> LoopThread:
    """One more client."""
    global _current
    with _lock:
        if _current is None or not _current.alive:
            _current = LoopThread()
        _current.clients += 1
        return _current


def leave(thread: LoopThread) -> None:
    """One client less; the last one ends the thread."""
    global _current
    with _lock:
        thread.clients -= 1
        if thread.clients:
            return
        if _current is thread:
            _current = None
    thread.stop()


def _forked() -> None:
    global _lock, _current
    _lock, _current = threading.Lock(), None


os.register_at_fork(after_in_child=_forked)
