"""Which loop an `async def` test runs on, which tests run in one worker, and a second try for those of real processes.

A second try for tests of real processes that waited in vain: brokers, browsers and Spark share a machine with whatever
else runs on it, and starve at times.  Only a wait that ran out is tried again, and it is told at the end; what a test found
to be wrong, such as a lost record or another value, fails at once.  Pure code and simulations have one try only."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests import leftovers
from tidelog import testing

RunAsync = Callable[[Callable[[Random], Coroutine[Any, Any, None]]], None]

WAITED = ("AssertionError: not within ", "Failed: Timeout ")  # of `wait_until`, and of pytest-timeout
REAL = ("browser", "conformance", "connect", "faults", "pipeline")
HERE = Path(__file__).parent

# Shells start what runs in the background with interrupts ignored, and children inherit that: here it is as at a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a change is what breaks a test; `make deep` looks for new ones.  There is no
# deadline: a busy machine is slow, not wrong.
settings.register_profile("tidelog", deadline=None, derandomize="TIDELOG_NEW_EXAMPLES" not in os.environ)
settings.load_profile("tidelog")

# What shares a Spark session, a browser or the patience for drivers that are killed runs in one worker.  The first that
# fits counts; large groups begin first.  xdist's own groups do nothing with pytest 9.2 (pytest-xdist issue 1386).
GROUPS = (
    ("tests/pipeline/test_decisions.py", None),
    ("tests/pipeline/test_exactly_once.py", "drivers"),
    ("tests/pipeline/test_running.py", "drivers"),
    ("tests/pipeline/", "spark"),
    ("tests/browser/", "browser"),
    ("tests/conformance/amqp/", "amqp"),
)


def pytest_configure(config: pytest.Config) -> None:
    """In the process that runs the tests: a worker of xdist, or the only one."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.add_cleanup(leftovers.watch())


class Grouped(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return next((group for start, group in GROUPS if nodeid.startswith(start)), None) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped | None:
    return Grouped(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture
def random() -> None:
    """The random numbers of an `async def` test: the hook below puts those of the test's loop here."""


@pytest.fixture
def run_async(request: pytest.FixtureRequest) -> RunAsync:
    """Runs an `async def` test: on virtual time if it is marked `simulated`, otherwise on asyncio's own loop.  The seed
    is the test's parameter `seed`, or that of the marker.  Folders with loops of their own have another `run_async`."""
    marker = request.node.get_closest_marker("simulated")
    if marker is None:
        return lambda test: asyncio.run(test(Random(0)))
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    seed = parameters.get("seed", marker.kwargs.get("seed", 0))
    return lambda test: testing.run(test, seed)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test with `run_async`; with Hypothesis, each example in a loop of its own."""
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    test = pyfuncitem.obj if given is None else given.inner_test
    if not inspect.iscoroutinefunction(test):
        return None
    run_async = pyfuncitem._request.getfixturevalue("run_async")

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        run_async(
            lambda random: test(**({**arguments, "random": random} if "random" in arguments else arguments))
        )

    if given is not None:
        given.inner_test = run
        return None  # pytest calls Hypothesis, and Hypothesis calls `run`
    run(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.path.relative_to(HERE).parts[0] not in REAL:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    first = next((one for one in reports if one.failed), None)
    if first is not None and any(text in first.longreprtext for text in WAITED):
        _again(item)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        told = ("tried again", f"{item.nodeid}\n{first.longreprtext[-2000:]}")
        for one in reports:
            one.sections.append(told)
    for one in reports:
        item.ihook.pytest_runtest_logreport(report=one)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _again(item: Any) -> None:
    """As it was before its first try, with fixtures of its own."""
    if hasattr(item, "_initrequest"):
        item._initrequest()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    again = {
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "sections", ())
        if name == "tried again"
    }
    for text in sorted(again):
        terminalreporter.write_line(f"tried again: {text}")
