"""A second try for tests of real processes: brokers, clients, browsers and Spark share a machine with whatever else runs on
it, and starve at times.  What needed one is told at the end.  Tests of pure code and of simulations have one try only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

REAL = ("browser", "conformance", "faults", "pipeline")
HERE = Path(__file__).parent


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.path.relative_to(HERE).parts[0] not in REAL:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(one.failed for one in reports):
        first = next(one for one in reports if one.failed)
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
