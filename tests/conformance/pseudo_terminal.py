"""A program on a pseudo terminal: what it draws, as text, and keys for it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 180
HOME = "\x1b[H"
_STYLES = re.compile(r"\x1b\[\??[0-9;]*[a-zA-Z]")


class PseudoTerminal:
    def __init__(self, command: list[str], columns: int = 120, rows: int = 24, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        self._size(columns, rows)
        self.modes = termios.tcgetattr(theirs)
        """As they were before the program came."""
        self._theirs = theirs
        plain = {
            key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**plain, "TERM": "xterm-256color", **env},
        )
        self.output = ""

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def screen(self) -> list[str]:
        """The lines of the last drawing that has come as a whole; none if there is none of this size."""
        for drawing in reversed(self.output.split(HOME)[-3:]):
            lines = _STYLES.sub("", drawing).split("\r\n")
            if len(lines) == self._rows and len(lines[-1]) == self._columns:
                return [line.rstrip() for line in lines]
        return []

    @property
    def text(self) -> str:
        return "\n".join(self.screen)

    def modes_now(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, seen: Callable[[str], bool], what: str) -> str:
        """Reads until the text on the screen is so."""
        deadline = time.monotonic() + SECONDS_MAX
        while not seen(self.text):
            assert time.monotonic() < deadline, f"{what}; on the screen is:\n{self.text}"
            if not self._read(0.2):
                assert self.process.poll() is None, f"{what}; it ended with:\n{self.output[-2000:]}"
        return self.text

    def until_output(self, seen: Callable[[str], bool], what: str) -> str:
        """Reads until everything that was printed is so, for a program that does not draw the whole screen."""
        deadline = time.monotonic() + SECONDS_MAX
        while not seen(text := _STYLES.sub("", self.output)):
            assert time.monotonic() < deadline, f"{what}; it printed:\n{text}"
            if not self._read(0.2) and self.process.poll() is not None:
                self.drain()
                assert seen(self.output), f"{what}; it ended with:\n{self.output[-2000:]}"
        return text

    def ended(self) -> int:
        """Waits for the end, and gives the exit code."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the program goes on and on"
            self._read(0.05)
        self.drain()
        return self.process.returncode

    def drain(self) -> None:
        """Reads what has come."""
        while self._read(0.05):
            pass

    def _read(self, wait_s: float) -> bool:
        if not select.select([self._ours], [], [], wait_s)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        # A character may be cut in two: the drawing after it is whole.
        self.output += data.decode(errors="replace")
        return bool(data)

    def _size(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
