"""The processes of a cluster on this machine: started apart from the terminal, ended by number.

Whoever ends one may not have started it (`tidelog dev restart` is another command than `tidelog dev`), so a process is
known by its number together with its command line: numbers are given again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

END_SECONDS_MAX = 30
LOOK_SECONDS = 0.05
LOG_LINES = 5
ENDED = "ZX"  # ended, and perhaps not waited for


class Gone(Exception):
    """A process has ended before it was ready; the text has the end of its log."""


def spawn(command: Sequence[str], out: Path, log: Path) -> int:
    """In a session of its own, so that Ctrl-C in the terminal reaches only the command that looks after it.  What the
    environment says to `tidelog serve` is for brokers that somebody starts, not for these."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_SERVE_")}
    with out.open("wb") as stdout, log.open("ab") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True, env=env
        )
    return process.pid


def is_alive(pid: int, command: Sequence[str]) -> bool:
    """Running, or frozen, and still the one that `command` started."""
    try:
        running = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    if state in ENDED:
        return False
    # A process that has just begun has none for a moment.
    return not running or running[-len(command) :] == [os.fsencode(word) for word in command]


def reap(pid: int) -> None:
    """Takes note of the end of a process, if it was ours to wait for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def await_ready(
    pid: int, command: Sequence[str], ready: Callable[[], bool], log: Path, seconds: float
) -> None:
    """Gone when it ends instead, or takes longer."""
    deadline = time.monotonic() + seconds
    while not ready():
        reap(pid)
        if not is_alive(pid, command):
            raise Gone(tail(log))
        if time.monotonic() > deadline:
            raise Gone(f"not ready after {seconds:.0f} s: {tail(log)}")
        time.sleep(LOOK_SECONDS)


def end(
    processes: Sequence[tuple[int, Sequence[str]]],
    patient: Callable[[], bool] = lambda: True,
    seconds: float = END_SECONDS_MAX,
) -> None:
    """All of them at once: asked first, and killed when that takes too long or patience is over."""
    for pid, command in processes:
        _send(pid, command, signal.SIGTERM)
        _send(pid, command, signal.SIGCONT)  # one that is frozen cannot end
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left:
        if time.monotonic() > deadline or not patient():
            for pid, command in left:
                _send(pid, command, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
        for pid, _ in left:
            reap(pid)
        left = [(pid, command) for pid, command in left if is_alive(pid, command)]


def _send(pid: int, command: Sequence[str], number: signal.Signals) -> None:
    if is_alive(pid, command):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join(lines[-LOG_LINES:]) or "it said nothing"
