"""What a Python worker of Spark's has imported is left out of the garbage collection that it does after every task.

That takes tens of milliseconds for each worker, and while they last Spark waits to begin with the next micro-batch."""

from __future__ import annotations

import gc

# A worker imports some of what it needs only in the course of its first tasks.
TASKS_WATCHED = 3
_tasks = 0


def task_done() -> None:
    """In workers only: whatever is there now is never looked at again."""
    global _tasks
    if _tasks < TASKS_WATCHED:
        _tasks += 1
        gc.freeze()
