"""The time-out that admin requests carry: how long the client waits for the change to take effect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tidelog.errors import RequestTimedOut

T = TypeVar("T")


async def within(timeout_ms: int, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, or RequestTimedOut; a change that was on its way then happens all the same."""
    if timeout_ms <= 0:
        work.close()
        raise RequestTimedOut(f"a time-out of {timeout_ms} ms leaves no time to do it")
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await work
    except TimeoutError:
        raise RequestTimedOut(f"it did not take effect within {timeout_ms} ms, and may still do so") from None
