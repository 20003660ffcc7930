"""Verdicts of the bench's table."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench import usage
from bench.results import Goal, Outcome, Row, percentile, table


@pytest.mark.parametrize(
    ("goal", "ours", "theirs", "met"),
    [
        (Goal(), [1.0], [1.0], None),
        (Goal(most=80), [79.0], [], True),
        (Goal(most=80), [81.0, 82.0, 1.0], [], False),
        (Goal(ratio_most=0.4), [0.39], [1.0], True),
        (Goal(ratio_most=0.4), [0.41], [1.0], False),
        (Goal(ratio_most=0.4), [0.39], [], None),
        (Goal(ratio_least=10), [100.0], [10.0], True),
        (Goal(ratio_least=10), [99.0], [10.0], False),
        (Goal(most=10, ratio_most=0.5), [9.0], [10.0], False),
        (Goal(most=10), [], [1.0], None),
    ],
)
def test_a_goal_is_held_against_the_median(
    goal: Goal, ours: list[float], theirs: list[float], met: bool | None
) -> None:
    outcome = Outcome(Row("row", "what", "s", goal), ours, theirs)
    assert outcome.met is met
    assert ("yes" in outcome.cells(), "NO" in outcome.cells()) == (met is True, met is False)


def test_a_system_that_was_left_out_shows_as_a_dash() -> None:
    text = table([Outcome(Row("row", "what", "s"), [0.25, 0.75, 0.5], [])])
    assert text.splitlines()[-1].split() == ["what", "s", "0.50", "(0.25..0.75)", "-"]


def test_percentiles_are_samples() -> None:
    samples = [float(number) for number in range(100, 0, -1)]
    assert (percentile(samples, 50), percentile(samples, 99), percentile(samples, 100)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 99) == 7.0


def test_the_work_of_worker_processes_counts_while_they_live_and_after() -> None:
    before = usage.cpu_seconds(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    worker = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None and worker.stdout.readline() == b"\n"
    assert worker.pid in usage.tree(os.getpid())
    assert usage.cpu_seconds(os.getpid()) - before >= 0.25
    worker.communicate(b"\n")
    assert usage.cpu_seconds(os.getpid()) - before >= 0.25
