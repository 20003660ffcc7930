"""The tasks of a Celery worker that the tests start."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

app = Celery("celery_tasks", broker=os.environ.get("CELERY_URL"), backend="rpc://")
app.conf.task_default_queue = os.environ.get("CELERY_QUEUE", "celery")


@app.task(name="celery_tasks.add")
def add(first: int, second: int) -> int:
    return first + second


@app.task(bind=True, name="celery_tasks.third_time", max_retries=5)
def third_time(self: Any, tries: int) -> int:
    """Fails until it is tried for the third time."""
    if self.request.retries + 1 < tries:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)
