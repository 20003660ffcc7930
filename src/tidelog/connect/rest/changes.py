"""What a request changes: each function returns the records to write for the present state, or raises what the client is
told.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelog.connect.state.connectors import (
    STARTED,
    ConnectorEntry,
    ConnectorsState,
    connector_record,
    target_record,
    tasks_record,
)
from tidelog.connect.state.store import Records


class RequestRefused(Exception):
    """The answer to a request: a status and a message, in Kafka Connect's words."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def entry_of(state: ConnectorsState, name: str) -> ConnectorEntry:
    entry = state.connectors.get(name)
    if entry is None:
        raise RequestRefused(404, f"Connector {name} not found")
    return entry


def create(
    state: ConnectorsState,
    name: str,
    settings: Mapping[str, str],
    initial: str,
    slots: int,
    owners: Mapping[int, str],
) -> Records:
    if name in state.connectors:
        raise RequestRefused(409, f"Connector {name} already exists")
    return {f"connector-{name}": connector_record(settings, state.free_slots(1, slots, owners)[0], initial)}


def put(
    state: ConnectorsState, name: str, settings: Mapping[str, str], slots: int, owners: Mapping[int, str]
) -> Records:
    entry = state.connectors.get(name)
    if entry is None:
        return create(state, name, settings, STARTED, slots, owners)
    return {f"connector-{name}": connector_record(settings, entry.slot, STARTED)}


def delete(state: ConnectorsState, name: str) -> Records:
    entry_of(state, name)
    return {f"{kind}-{name}": None for kind in ("connector", "target-state", "tasks")}


def target(state: ConnectorsState, name: str, wanted: str) -> Records:
    if entry_of(state, name).target == wanted:
        return {}
    return {f"target-state-{name}": target_record(wanted)}


def restart(state: ConnectorsState, name: str, numbers: set[int] | None) -> Records:
    """`numbers`: of the tasks to restart; None: all, and their plan is made anew."""
    entry = entry_of(state, name)
    if numbers is None:
        return {f"tasks-{name}": tasks_record(replace(entry, planned=-1, restarts=entry.restarts + 1))}
    unknown = numbers - set(range(len(entry.tasks)))
    if unknown:
        raise RequestRefused(404, f"Unknown task: {name}-{min(unknown)}")
    tasks = [
        replace(task, restarts=task.restarts + (number in numbers)) for number, task in enumerate(entry.tasks)
    ]
    return {f"tasks-{name}": tasks_record(replace(entry, tasks=tasks))}
