"""What Ctrl-C does to work on another thread."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tidelog.cli.interruptible import Interruptible


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_what_the_work_returns_and_raises_is_passed_on() -> None:
    work = Interruptible(lambda: None)
    assert work.run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        work.run(lambda: 1 // 0)
    assert (
        work.run(threading.current_thread)
        is work.run(threading.current_thread)
        is not threading.main_thread()
    )


def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    cancelled, ended = threading.Event(), threading.Event()
    work = Interruptible(cancelled.set)

    def long() -> None:
        interrupt()
        assert cancelled.wait(30)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        work.run(long)
    assert ended.is_set()
    assert work.run(lambda: "the next") == "the next"


def test_the_outcome_of_cancelled_work_does_not_matter() -> None:
    cancelled = threading.Event()
    work = Interruptible(cancelled.set)

    def long() -> None:
        interrupt()
        assert cancelled.wait(30)
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt):
        work.run(long)
