"""The connectors of a group of workers, as the records of the configuration topic say.  Pure.

The records have Kafka Connect's keys: `connector-NAME` (settings), `target-state-NAME`; the tasks of a connector are one
record, `tasks-NAME`, so that they change together, and `restart-NAME` numbers the restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"


class TaskId(NamedTuple):
    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


@dataclass(slots=True)
class PlannedTask:
    slot: int
    """The partition of the offsets topic: the task's offsets are there, and the worker that owns the partition runs the
    task."""
    settings: dict[str, str] = field(default_factory=dict)
    restarts: int = 0


@dataclass(slots=True)
class ConnectorEntry:
    name: str
    settings: dict[str, str]
    slot: int
    version: int
    """The offset of the record with the settings."""
    target: str = STARTED
    tasks: list[PlannedTask] = field(default_factory=list)
    planned: int = -1
    """The version that the tasks were planned for."""
    restarts: int = 0


class ConnectorsState:
    def __init__(self) -> None:
        self.connectors: dict[str, ConnectorEntry] = {}

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """The next record.  What cannot be read is left out: another version may have written it."""
        kind, _, name = (key or b"").decode("utf-8", "replace").partition("-")
        if kind == "target":
            kind, name = "target-state", name.removeprefix("state-")
        try:
            given = None if value is None else json.loads(value)
            self._apply(kind, name, given, offset)
        except (ValueError, KeyError, TypeError):
            return

    def _apply(self, kind: str, name: str, given: Any, offset: int) -> None:
        if kind == "connector":
            if given is None:
                self.connectors.pop(name, None)
                return
            before = self.connectors.get(name)
            made = ConnectorEntry(
                name, dict(given["properties"]), int(given["slot"]), offset, given.get("initial", STARTED)
            )
            if before is not None:
                made.target, made.tasks, made.planned = before.target, before.tasks, before.planned
                made.restarts = before.restarts
            self.connectors[name] = made
        elif (entry := self.connectors.get(name)) is None or given is None:
            return
        elif kind == "target-state":
            entry.target = str(given["state"])
        elif kind == "tasks":
            entry.planned = int(given["planned"])
            entry.restarts = int(given.get("restarts", 0))
            entry.tasks = [
                PlannedTask(int(task["slot"]), dict(task["settings"]), int(task.get("restarts", 0)))
                for task in given["tasks"]
            ]

    def tasks_in(self, slots: Iterable[int]) -> dict[TaskId, tuple[int, ...]]:
        """The tasks to run for these slots, each with a version that changes when the task has to start anew."""
        owned = set(slots)
        return {
            TaskId(entry.name, number): (entry.version, entry.planned, entry.restarts, task.restarts)
            for entry in self.connectors.values()
            if entry.target == STARTED and entry.planned == entry.version
            for number, task in enumerate(entry.tasks)
            if task.slot in owned
        }

    def to_plan(self, slots: Iterable[int]) -> list[ConnectorEntry]:
        """Connectors of these slots whose tasks are those of older settings."""
        owned = set(slots)
        return [
            entry
            for entry in self.connectors.values()
            if entry.slot in owned and entry.planned != entry.version and entry.target == STARTED
        ]

    def free_slots(self, count: int, slots: int, owners: Mapping[int, str]) -> list[int]:
        """Slots for `count` tasks: those with the fewest tasks, of the workers with the fewest tasks."""
        in_slot = dict.fromkeys(range(slots), 0)
        for entry in self.connectors.values():
            for slot in [task.slot for task in entry.tasks] or [entry.slot]:
                in_slot[slot] = in_slot.get(slot, 0) + 1
        of_worker: dict[str, int] = {}
        for slot, number in in_slot.items():
            worker = owners.get(slot, "")
            of_worker[worker] = of_worker.get(worker, 0) + number
        chosen = []
        for _ in range(count):
            slot = min(range(slots), key=lambda slot: (of_worker[owners.get(slot, "")], in_slot[slot], slot))
            chosen.append(slot)
            in_slot[slot] += 1
            of_worker[owners.get(slot, "")] += 1
        return chosen


def connector_record(settings: Mapping[str, str], slot: int, initial: str) -> bytes:
    return _text({"properties": dict(settings), "slot": slot, "initial": initial})


def tasks_record(entry: ConnectorEntry) -> bytes:
    tasks = [
        {"slot": task.slot, "settings": task.settings, "restarts": task.restarts} for task in entry.tasks
    ]
    return _text({"planned": entry.planned, "restarts": entry.restarts, "tasks": tasks})


def target_record(state: str) -> bytes:
    return _text({"state": state})


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
