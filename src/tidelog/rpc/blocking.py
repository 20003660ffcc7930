"""Callers and responders for threads: those of asyncio on the clients' thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from tidelog._speed.client.consumed import Record
from tidelog.client.blocking import loop_thread
from tidelog.client.errors import ClientClosed
from tidelog.client.security.security import Security
from tidelog.rpc.caller import AsyncCaller
from tidelog.rpc.responder import AsyncResponder


class Caller:
    """Calls a service, and waits for its answers; any number of threads may call.

    with Caller("resize", bootstrap_servers="127.0.0.1:9092") as caller:
        print(caller.call(b"picture 7", timeout=10).value)
    """

    def __init__(
        self, queue: str, *, bootstrap_servers: str = "127.0.0.1:9092", security: Security | None = None
    ) -> None:
        self._closed = True
        self._thread = loop_thread.join()
        try:
            self._core = self._thread.run(_started(queue, bootstrap_servers, security))
        except BaseException:
            loop_thread.leave(self._thread)
            raise
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Calls that wait fail with `ClientClosed`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.run(self._core.close())
        finally:
            loop_thread.leave(self._thread)

    def call(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timeout: float = 30.0,
    ) -> Record:
        """As `AsyncCaller.call`."""
        if self._closed:
            raise ClientClosed("the caller was closed")
        return self._thread.run(self._core.call(value, key=key, headers=headers, timeout=timeout))


class Responder:
    """Answers the requests of a service, each in a thread of a pool; `AsyncResponder` says the rest.

    def answer(request):
        return resize(request.value)

    Responder("resize", answer, bootstrap_servers="127.0.0.1:9092").run()
    """

    def __init__(
        self,
        queue: str,
        answer: Callable[[Record], bytes | None],
        *,
        bootstrap_servers: str = "127.0.0.1:9092",
        concurrency: int = 16,
        security: Security | None = None,
    ) -> None:
        async def answer_in_thread(request: Record) -> bytes | None:
            return await asyncio.to_thread(answer, request)

        self._core = AsyncResponder(
            queue,
            answer_in_thread,
            bootstrap_servers=bootstrap_servers,
            concurrency=concurrency,
            security=security,
        )
        self._thread: loop_thread.LoopThread | None = None

    def run(self) -> None:
        """Returns after `stop`, which any thread may call."""
        self._thread = loop_thread.join()
        try:
            self._thread.run(self._core.run())
        finally:
            loop_thread.leave(self._thread)

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.submit(_called(self._core.stop)).result()


async def _started(queue: str, bootstrap_servers: str, security: Security | None) -> AsyncCaller:
    caller = AsyncCaller(queue, bootstrap_servers=bootstrap_servers, security=security)
    try:
        await caller.start()
    except BaseException:
        await caller.close()
        raise
    return caller


async def _called(work: Callable[[], None]) -> None:
    work()
