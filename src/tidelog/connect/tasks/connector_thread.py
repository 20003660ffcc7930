"""A thread on which a task calls its connector: connectors are blocking code, and are called by one thread only."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ConnectorThread:
    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """The call ends by itself: a task that is stopped waits for it."""
        future = asyncio.get_running_loop().run_in_executor(
            self._executor, functools.partial(work, *arguments)
        )
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def end(self) -> None:
        self._executor.shutdown(wait=False)
