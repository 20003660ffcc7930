"""A seed replays a run: nothing depends on where objects lie in memory, nor on how strings are hashed."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import hashlib
import sys
unused = [object() for _ in range(int(sys.argv[1]))]  # so that objects lie elsewhere
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
    for hash_seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(1000 * int(hash_seed))],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1, found
