"""Which tests run in one worker, and a second try for those of real processes.

A second try for tests of real processes that waited in vain: brokers, browsers and Spark share a machine with whatever
else runs on it, and starve at times.  Only a wait that ran out is tried again, and it is told at the end; what a test found
to be wrong, such as a lost record or another value, fails at once.  Pure code and simulations have one try only."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

WAITED = ("AssertionError: not within ", "Failed: Timeout ")  # of `wait_until`, and of pytest-timeout
REAL = ("browser", "conformance", "faults", "pipeline")
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
)


class Grouped(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return next((group for start, group in GROUPS if nodeid.startswith(start)), None) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped | None:
    return Grouped(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**fixtures))
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
