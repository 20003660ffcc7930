"""Ends what a test process leaves behind when it dies, as by Ctrl-C, which gives workers of xdist no time for fixtures.

`python tests/leftovers.py PID` waits until its standard input ends.  Unless the process said that it ended by itself, every
process that still has the mark of PID in its environment is killed: brokers, etcd, Spark, browsers, whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

MARK = "TIDELOG_TESTS_OF"
ENDED = b"ended"
ROUNDS = 20  # a process may be starting another one just now


def watch() -> Callable[[], None]:
    """Marks everything that this process starts from now on.  Call what is returned when the process ends in order."""
    os.environ[MARK] = str(os.getpid())
    watcher = subprocess.Popen(
        [sys.executable, "-S", __file__, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        watcher.communicate(ENDED)

    return end


def marked(pid: str) -> list[int]:
    """The processes with the mark of `pid`, except this one."""
    mark = f"{MARK}={pid}".encode()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and int(entry.name) != os.getpid()
        and mark in _environment(entry).split(b"\0")
    ]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""  # it has ended, or is somebody else's


def main(pid: str) -> None:
    if sys.stdin.buffer.read() == ENDED:
        return
    for _ in range(ROUNDS):
        left = marked(pid)
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
