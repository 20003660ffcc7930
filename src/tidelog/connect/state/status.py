"""Where tasks run and how they are, as the records of the status topic say.  Pure.

Keys are Kafka Connect's, `status-connector-NAME` and `status-task-NAME-N`, and `worker-ID` for the slots of a worker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

RUNNING, FAILED, RESTARTING, UNASSIGNED = "RUNNING", "FAILED", "RESTARTING", "UNASSIGNED"
TRACE_CHARS_MAX = 8_000


@dataclass(frozen=True, slots=True)
class TaskStatus:
    state: str
    worker: str
    trace: str = ""

    def to_bytes(self) -> bytes:
        value = {"state": self.state, "worker_id": self.worker, "trace": self.trace[-TRACE_CHARS_MAX:]}
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def of(cls, value: Any) -> TaskStatus:
        return cls(str(value["state"]), str(value["worker_id"]), str(value.get("trace") or ""))


class StatusState:
    def __init__(self) -> None:
        self.statuses: dict[str, TaskStatus] = {}
        """By the key of the record."""
        self._slots: dict[str, tuple[int, frozenset[int]]] = {}

    def apply(self, key: bytes | None, value: bytes | None, at: int) -> None:
        """The next record.  `at` orders the records of workers, which are all in one partition."""
        name = (key or b"").decode("utf-8", "replace")
        try:
            if name.startswith("worker-"):
                self._slots.pop(name[7:], None)
                if value is not None:
                    self._slots[name[7:]] = (at, frozenset(json.loads(value)["slots"]))
            elif value is None:
                self.statuses.pop(name, None)
            else:
                self.statuses[name] = TaskStatus.of(json.loads(value))
        except (ValueError, KeyError, TypeError):
            return

    def connector(self, name: str) -> TaskStatus | None:
        return self.statuses.get(connector_key(name))

    def task(self, name: str, number: int) -> TaskStatus | None:
        return self.statuses.get(task_key(name, number))

    def owners(self) -> dict[int, str]:
        """The worker of each slot: the one that said so last."""
        owners = {}
        for worker, (_, slots) in sorted(self._slots.items(), key=lambda entry: entry[1][0]):
            owners.update(dict.fromkeys(slots, worker))
        return owners

    def workers(self) -> list[str]:
        return sorted(self._slots)


def connector_key(name: str) -> str:
    return f"status-connector-{name}"


def task_key(name: str, number: int) -> str:
    return f"status-task-{name}-{number}"


def slots_record(slots: frozenset[int]) -> bytes:
    return json.dumps({"slots": sorted(slots)}).encode()
