"""The last lines that each connector has logged, kept in memory, beside the log of the worker."""

from __future__ import annotations

import logging
import time
from collections import deque

from tidelog.connect.state.connectors import TaskId

LINES_MAX = 500
CONNECTORS_MAX = 1_000


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, deque[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        connector = getattr(record, "connector", "")
        lines = self.lines.get(connector)
        if lines is None:
            if len(self.lines) >= CONNECTORS_MAX:
                self.lines.pop(next(iter(self.lines)))
            lines = self.lines[connector] = deque(maxlen=LINES_MAX)
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        task = getattr(record, "task", "")
        lines.append(f"{when}.{int(record.msecs):03d}Z {record.levelname} [{task}] {record.getMessage()}")


class _OfTask(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: object, kwargs: object) -> tuple[str, dict[str, object]]:
        assert isinstance(kwargs, dict) and self.extra is not None
        return f"{self.extra['task']}: {msg}", {**kwargs, "extra": dict(self.extra)}


TaskLog = logging.LoggerAdapter[logging.Logger]


class TaskLogs:
    def __init__(self) -> None:
        self._keep = _Keep()
        self._logger = logging.getLogger("tidelog.connect.task")
        self._logger.addHandler(self._keep)

    def of(self, task: TaskId) -> TaskLog:
        return _OfTask(self._logger, {"connector": task.connector, "task": str(task)})

    def lines(self, connector: str) -> list[str]:
        return list(self._keep.lines.get(connector, ()))

    def close(self) -> None:
        self._logger.removeHandler(self._keep)
