"""Answers without an end: they end when the broker stops, before they are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

T = TypeVar("T")


async def until_stopped(stopping: asyncio.Event, stream: AsyncIterator[T]) -> Any:
    """What the stream yields.  It is closed at the end, wherever it is then."""
    stopped = asyncio.ensure_future(stopping.wait())
    more: asyncio.Future[T] | None = None
    try:
        while True:
            more = asyncio.ensure_future(anext(stream))
            await asyncio.wait({more, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not more.done():
                return
            try:
                item = more.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        stopped.cancel()
        if more is not None and not more.done():
            more.cancel()
            await asyncio.gather(more, return_exceptions=True)
        await stream.aclose()  # type: ignore[attr-defined]
