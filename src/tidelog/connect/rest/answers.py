"""The bodies of answers, in Kafka Connect's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidelog.config.setting import Setting, SettingKind
from tidelog.connect.plugins import ConnectorClass, is_source, required_of, settings_of
from tidelog.connect.rest.changes import entry_of
from tidelog.connect.settings import Problems
from tidelog.connect.state.connectors import STARTED, ConnectorEntry
from tidelog.connect.state.status import FAILED, UNASSIGNED, TaskStatus, connector_key, task_key
from tidelog.connect.worker import ConnectWorker
from tidelog.errors import InvalidConfig

KINDS = {SettingKind.BOOLEAN: "BOOLEAN", SettingKind.SHORT: "SHORT", SettingKind.DOUBLE: "DOUBLE"}


def text_of(value: Any) -> str:
    """A setting as text: clients also send numbers and booleans."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def kind_of(worker: ConnectWorker, entry: ConnectorEntry) -> str:
    try:
        return "source" if is_source(worker.plugins.of(entry.settings)) else "sink"
    except InvalidConfig:
        return "unknown"


def info(worker: ConnectWorker, name: str) -> dict[str, Any]:
    entry = entry_of(worker.store.connectors, name)
    return {
        "name": name,
        "config": entry.settings,
        "tasks": [{"connector": name, "task": number} for number in range(len(entry.tasks))],
        "type": kind_of(worker, entry),
    }


def status(worker: ConnectWorker, name: str) -> dict[str, Any]:
    entry = entry_of(worker.store.connectors, name)
    statuses = worker.store.status
    connector = statuses.connector(name)
    shown = _shown(connector, entry)
    planned = entry.tasks if entry.planned == entry.version or entry.target != STARTED else []
    tasks = [{"id": number, **_shown(statuses.task(name, number), entry)} for number in range(len(planned))]
    return {"name": name, "connector": shown, "tasks": tasks, "type": kind_of(worker, entry)}


def _shown(status: TaskStatus | None, entry: ConnectorEntry) -> dict[str, Any]:
    if entry.target != STARTED:
        return {"state": entry.target, "worker_id": status.worker if status else ""}
    if status is None:
        return {"state": UNASSIGNED, "worker_id": ""}
    shown = {"state": status.state, "worker_id": status.worker}
    return {**shown, "trace": status.trace} if status.trace else shown


def status_keys(name: str, tasks: int) -> list[str]:
    return [connector_key(name), *(task_key(name, number) for number in range(tasks))]


def failed_tasks(worker: ConnectWorker, entry: ConnectorEntry) -> set[int]:
    statuses = [worker.store.status.task(entry.name, number) for number in range(len(entry.tasks))]
    return {number for number, status in enumerate(statuses) if status is not None and status.state == FAILED}


def definitions(plugin: ConnectorClass) -> list[dict[str, Any]]:
    required = required_of(plugin)
    return [
        _definition(setting, name in required, order)
        for order, (name, setting) in enumerate(settings_of(plugin).items())
    ]


def _definition(setting: Setting, required: bool, order: int) -> dict[str, Any]:
    return {
        "name": setting.name,
        "type": KINDS.get(setting.kind, setting.kind.name),
        "required": required,
        "default_value": None if required else setting.text(setting.default),
        "importance": "HIGH" if required else "MEDIUM",
        "documentation": setting.doc,
        "group": "Common" if setting.name.split(".")[0] in _COMMON else "Connector",
        "width": "MEDIUM",
        "display_name": setting.name,
        "dependents": [],
        "order": order,
    }


_COMMON = {
    "name",
    "connector",
    "tasks",
    "key",
    "value",
    "transforms",
    "predicates",
    "errors",
    "topic",
    "topics",
    "offset",
}


def validation(
    name: str, plugin: ConnectorClass, settings: Mapping[str, str], problems: Problems
) -> dict[str, Any]:
    definitions = settings_of(plugin)
    required = required_of(plugin)
    configs = []
    for order, (key, setting) in enumerate(definitions.items()):
        value = settings.get(key, setting.text(setting.default))
        shown = {
            "name": key,
            "value": value,
            "recommended_values": [option for option in setting.allowed if isinstance(option, str)],
            "errors": problems.get(key, []),
            "visible": True,
        }
        configs.append({"definition": _definition(setting, key in required, order), "value": shown})
    for key in problems.keys() - definitions.keys():
        shown = {
            "name": key,
            "value": settings.get(key),
            "recommended_values": [],
            "errors": problems[key],
            "visible": True,
        }
        configs.append({"definition": {"name": key, "type": "STRING"}, "value": shown})
    return {
        "name": name,
        "error_count": sum(map(len, problems.values())),
        "groups": ["Common", "Connector"],
        "configs": configs,
    }
