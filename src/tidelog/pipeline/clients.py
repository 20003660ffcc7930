"""The clients of this process: connected once, then used by every task and every trigger that runs in the process.

Spark keeps its Python workers, so the next micro-batch finds open connections.  A forked worker begins without any.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from tidelog.client.admin.admin import Admin
from tidelog.client.blocking import loop_thread
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.environment import Environment
from tidelog.errors import TidelogError, UnknownTopicOrPartition
from tidelog.pipeline.options.connection import ConnectionSettings

T = TypeVar("T")

KEPT_MAX = 16
REQUEST_TIMEOUT_MS = 30_000
RETRY_MS = 20
FIRST_WAIT_S, WAIT_S_MAX = 0.05, 1.0


class PipelineClients:
    """The connections of one process to one cluster."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        request_ms = min(REQUEST_TIMEOUT_MS, settings.timeout_ms)
        self._thread = loop_thread.join()
        security = settings.security()
        options = ConnectionOptions(
            client_id=settings.client_id,
            request_timeout_ms=request_ms,
            retry_backoff_ms=RETRY_MS,
            security=security,
        )
        addresses, environment = parse_addresses(settings.bootstrap), Environment.system()
        self.cluster = Cluster(addresses, options, environment)
        self.admin = Admin(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            request_timeout_ms=request_ms,
            retry_backoff_ms=RETRY_MS,
            security=security,
        )
        try:
            self.patiently(self._open)
        except BaseException:
            self.close()
            raise

    async def _open(self) -> None:
        await self.cluster.open()
        await self.admin.start()

    def close(self) -> None:
        try:
            self._thread.run(self._close())
        finally:
            loop_thread.leave(self._thread)

    async def _close(self) -> None:
        await self.cluster.close()
        await self.admin.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts the work without waiting for its result."""
        return self._thread.submit(work)

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterates over an asynchronous iterator in the calling thread."""

        async def following() -> tuple[T] | None:
            async for item in items:
                return (item,)
            return None

        while (next_item := self.run(following())) is not None:
            yield next_item[0]

    def patiently(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return patient(lambda: self.run(make()), self.settings.timeout_ms)


def patient(work: Callable[[], T], timeout_ms: int) -> T:
    """Retries while brokers cannot be reached, for as long as the option `timeoutMs` allows."""
    deadline = time.monotonic() + timeout_ms / 1000
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return work()
        except UnknownTopicOrPartition:
            raise  # Waiting does not create a topic.
        except TidelogError as problem:
            if not problem.retriable or time.monotonic() + wait_s > deadline:
                raise
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, WAIT_S_MAX)


_kept: OrderedDict[ConnectionSettings, PipelineClients] = OrderedDict()
_lock = threading.Lock()


def clients(settings: ConnectionSettings) -> PipelineClients:
    with _lock:
        connected = _kept.pop(settings, None)
        if connected is None:
            connected = PipelineClients(settings)
        _kept[settings] = connected
        while len(_kept) > KEPT_MAX:
            _kept.popitem(last=False)[1].close()
        return connected


def _forked() -> None:
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def close_all() -> None:
    """Closes all clients, so that asyncio does not warn when the interpreter ends."""
    with _lock:
        while _kept:
            _kept.popitem()[1].close()
