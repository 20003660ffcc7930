"""The live view: pictures come in, keys come in, and after either the screen is drawn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from tidelog.cli.top.screen import draw
from tidelog.cli.top.terminal import Terminal
from tidelog.cli.top.view import View
from tidelog.cli.top.window import Picture


class LiveView:
    def __init__(self, place: str, internal: bool) -> None:
        self._view = View(place, internal)
        self._picture: Picture | None = None
        self._changed = asyncio.Event()
        self._going_on = asyncio.Event()
        self._going_on.set()
        self._terminal = Terminal(self._pressed, self._changed.set)
        self._view.keys = self._terminal.has_keys

    async def run(self, pictures: AsyncGenerator[Picture, None]) -> None:
        """Until somebody quits.  The first picture comes before the terminal is taken, so that a cluster that cannot be
        reached is told in the ordinary way."""
        async with contextlib.aclosing(pictures):
            self._picture = await anext(pictures)
            with self._terminal.taken():
                looking = asyncio.ensure_future(self._look(pictures))
                try:
                    await self._draw(looking)
                finally:
                    looking.cancel()
                    await asyncio.gather(looking, return_exceptions=True)

    async def _look(self, pictures: AsyncGenerator[Picture, None]) -> None:
        while True:
            await self._going_on.wait()
            picture = await anext(pictures)
            if not self._view.paused:
                self._picture = picture
                self._changed.set()

    async def _draw(self, looking: asyncio.Task[None]) -> None:
        looking.add_done_callback(lambda _: self._changed.set())
        while not self._view.quit:
            if looking.done():
                looking.result()
                return
            self._changed.clear()
            try:
                self._terminal.show(draw(self._view, self._picture, *self._terminal.size))
            except OSError:
                return  # The terminal is gone, and with it the one who looked.
            await self._changed.wait()

    def _pressed(self, key: str) -> None:
        self._view.pressed(key)
        if self._view.paused:
            self._going_on.clear()
        else:
            self._going_on.set()
        self._changed.set()
