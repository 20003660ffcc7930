"""The garbage collection in Spark's Python workers."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
from tidelog.pipeline.worker_memory import TASKS_WATCHED, task_done

before = gc.get_freeze_count()
for _ in range(TASKS_WATCHED):
    task_done()
frozen = gc.get_freeze_count()
assert frozen > before + 1000, (before, frozen)
kept = [[] for _ in range(1000)]
task_done()
assert gc.get_freeze_count() <= frozen, "a worker that lives long keeps what its tasks leave"
print("ok")
"""


def test_what_is_imported_is_frozen_in_the_first_tasks_and_nothing_after_them() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ok\n", done.stderr
