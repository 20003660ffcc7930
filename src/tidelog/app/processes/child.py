"""A process that the supervisor forks: its parts are loaded already, and share their memory with it.

A child leads a process group of its own, so that Ctrl-C in a terminal reaches the supervisor alone, and is told to end when
the supervisor dies, however that happens.  Its standard output is a pipe to the supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)


def fork(
    name: str, run: Callable[[], int], closes: Collection[int], orphaned: signal.Signals
) -> tuple[int, int]:
    """(process id, where its standard output is read).  `closes`: descriptors of the supervisor that are not for the
    child; `orphaned`: the signal that the child gets when the supervisor dies."""
    supervisor = os.getpid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    return _live(name, run, supervisor, writing, (reading, *closes), orphaned)


def _live(
    name: str,
    run: Callable[[], int],
    supervisor: int,
    out: int,
    closes: Collection[int],
    orphaned: signal.Signals,
) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        process_control = ctypes.CDLL(None, use_errno=True).prctl
        process_control(PR_SET_PDEATHSIG, int(orphaned), 0, 0, 0)
        process_control(PR_SET_NAME, name[:15].encode(), 0, 0, 0)
        if os.getppid() == supervisor:
            for descriptor in closes:
                os.close(descriptor)
            os.dup2(out, 1)
            os.close(out)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            code = run()
            sys.stdout.flush()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
