"""Excludes what a Python worker has imported from the garbage collection that Spark runs after every task.

That collection takes tens of milliseconds in each worker, and Spark begins the next micro-batch only afterwards."""

from __future__ import annotations

import gc

# A worker imports some modules only during its first tasks.
TASKS_WATCHED = 3
_tasks = 0


def task_done() -> None:
    """Called in workers only: the garbage collector ignores everything that exists now from here on."""
    global _tasks
    if _tasks < TASKS_WATCHED:
        _tasks += 1
        gc.freeze()
