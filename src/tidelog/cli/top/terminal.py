"""The terminal of `tidelog top`: its other screen, keys one by one, and all as it was when the program ends or is stopped.

Used within one event loop.  The size is asked for at every drawing, so a window that changes needs a drawing, no more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, Group
from rich.control import Control
from rich.screen import Screen
from rich.text import Text

from tidelog.cli.top.keys import Keys

READ_BYTES = 1024
ESCAPE_WAIT_S = 0.05
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """`pressed` is called with each key, `redraw` when the picture must be drawn anew."""

    def __init__(self, pressed: Callable[[str], None], redraw: Callable[[], None]) -> None:
        self._pressed = pressed
        self._redraw = redraw
        self._console = Console(markup=False, highlight=False, emoji=False)
        self._keys = Keys()
        self._alone: asyncio.TimerHandle | None = None
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: list[Any] = []

    @property
    def has_keys(self) -> bool:
        """False where the input comes from elsewhere."""
        return self._input is not None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._console.size.width, self._console.size.height

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in ENDS:
            loop.add_signal_handler(number, self._pressed, "quit")
        loop.add_signal_handler(signal.SIGWINCH, self._redraw)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._take()
        try:
            yield
        finally:
            with contextlib.suppress(OSError, termios.error):  # it may be gone
                self._give_back()
            for number in (*ENDS, signal.SIGWINCH, signal.SIGTSTP):
                loop.remove_signal_handler(number)

    def show(self, lines: list[Text]) -> None:
        """Over what was there, in one write: nothing flickers."""
        with self._console:
            self._console.control(Control.home())
            self._console.print(Screen(Group(*lines)), end="")

    def _take(self) -> None:
        if self._input is not None:
            self._before = termios.tcgetattr(self._input)
            tty.setcbreak(self._input, termios.TCSANOW)
            asyncio.get_running_loop().add_reader(self._input, self._read)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _give_back(self) -> None:
        if self._input is not None:
            asyncio.get_running_loop().remove_reader(self._input)
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal back; `fg` goes on from here."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._redraw()

    def _read(self) -> None:
        assert self._input is not None
        try:
            data = os.read(self._input, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._pressed("quit")
            return
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None
        for key in self._keys.feed(data):
            self._pressed(key)
        if self._keys.waiting:
            self._alone = asyncio.get_running_loop().call_later(ESCAPE_WAIT_S, self._escaped)

    def _escaped(self) -> None:
        for key in self._keys.flush():
            self._pressed(key)
