"""Runs a scenario on virtual time, and tells how to repeat it when it fails."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from tidelog.testing.loop import VirtualLoop

T = TypeVar("T")

SEED_VARIABLE = "TIDELOG_SEED"


def run(scenario: Callable[[Random], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Runs `scenario` with the only source of randomness.  An exception gets a note with the seed and the command that
    repeats the scenario; tasks that the scenario has left are cancelled."""
    random = Random(seed)
    loop = VirtualLoop(Random(random.getrandbits(64)))
    try:
        return loop.run_until_complete(scenario(random))
    except BaseException as problem:
        problem.add_note(f"seed {seed}; to see it again: {rerun_command(seed)}")
        raise
    finally:
        _close(loop)


def seeds(count: int, start: int = 0) -> Sequence[int]:
    """The seeds that a test tries: `count` of them, or the one that the rerun command names."""
    chosen = os.environ.get(SEED_VARIABLE)
    return range(start, start + count) if chosen is None else [int(chosen)]


def rerun_command(seed: int) -> str:
    python = os.path.relpath(sys.executable)
    if python.startswith(os.pardir):
        python = os.path.basename(sys.executable)
    # "path::test[parameters] (call)": the parameters may hold the seed, which the variable replaces.
    test = re.sub(r"(\[.*\])? \(\w+\)$", "", os.environ.get("PYTEST_CURRENT_TEST", ""))
    if test:
        # Both markers, because a test that runs many seeds only with `deep` repeats a single seed quickly.
        return f"{SEED_VARIABLE}={seed} {python} -m pytest -m 'deep or not deep' {shlex.quote(test)}"
    return f"{SEED_VARIABLE}={seed} {shlex.join([python, *sys.argv])}"


def _close(loop: VirtualLoop) -> None:
    try:
        for process in list(loop._aside):
            loop.go_on(process)
        left = loop.living_tasks()
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
