"""A seed replays a run: nothing depends on where objects lie in memory, on how strings are hashed, or on what the process
did before."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import asyncio
import hashlib
import sys
unused = [object() for _ in range(int(sys.argv[1]))]  # so that objects lie elsewhere
async def tasks_before():
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(int(sys.argv[2]))))
asyncio.run(tasks_before())
from tests.simulation.cluster import play, test_transactions
from tests.simulation.cluster.concurrent import play as concurrent
for plays, seeds in ((play, (3, 35)), (test_transactions, (1, 10, 14)), (concurrent, (0, 1, 4))):
    for seed in seeds:
        played = plays.play(seed)
        told = played.random.getstate(), played.cluster.clock.monotonic_ms()
        print(hashlib.sha256(repr(told).encode()).hexdigest())
"""


def test_a_run_takes_the_same_steps_in_every_process() -> None:
    found = set()
    # Tasks are numbered, so that names with and without another digit meet at another place of the run.
    for hash_seed, tasks_before in (("1", 0), ("2", 60), ("3", 900)):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(1000 * int(hash_seed)), str(tasks_before)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1, found
