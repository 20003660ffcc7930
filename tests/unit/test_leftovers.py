"""What a test process leaves behind when it dies."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.leftovers import marked

PROGRAM = """
import subprocess, sys, time
from tests import leftovers
end = leftovers.watch()
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
print(left.pid, flush=True)
sys.stdin.readline()
end()
"""
WAIT_S_MAX = 60


@pytest.fixture
def tester() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def started_by(tester: subprocess.Popen[str]) -> int:
    assert tester.stdout is not None
    return int(tester.stdout.readline())


def test_what_a_process_started_is_ended_when_the_process_is_killed(tester: subprocess.Popen[str]) -> None:
    left = started_by(tester)
    assert left in marked(str(tester.pid))
    tester.kill()
    tester.communicate()
    until = time.monotonic() + WAIT_S_MAX
    while marked(str(tester.pid)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_process_that_ends_in_order_is_trusted_with_what_it_started(tester: subprocess.Popen[str]) -> None:
    left = started_by(tester)
    tester.communicate("\n")
    assert marked(str(tester.pid)) == [left]
    subprocess.run(["kill", str(left)], check=True)
