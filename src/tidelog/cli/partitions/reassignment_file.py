"""Reassignment plans, read from files: those that `partitions reassign --json` prints, and those of Kafka's own tool.

Pure.  A mistake in the file may cost hours of copying, so everything in it is checked first."""

from __future__ import annotations

import json
from typing import Any

Target = dict[tuple[str, int], tuple[int, ...]]

NUMBER_MAX = 2**31 - 1  # of partitions and brokers, on the wire


class BadPlan(ValueError):
    """The text says what is wrong, and where."""


def read_plan(text: str) -> Target:
    """By partition: the brokers of its replicas, the preferred leader first."""
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadPlan(f"it is not JSON ({problem})") from None
    if not isinstance(plan, dict) or ("moves" in plan) == ("partitions" in plan):
        raise BadPlan(
            'it has neither "moves", as --json prints them, nor "partitions", as Kafka\'s tool does'
        )
    ours = "moves" in plan
    rows = plan["moves" if ours else "partitions"]
    if not ours and plan.get("version", 1) != 1:
        raise BadPlan(f"its version is {json.dumps(plan['version'])}, and only 1 is known")
    if not isinstance(rows, list):
        raise BadPlan(f'"{"moves" if ours else "partitions"}" is not a list')
    targets: Target = {}
    for number, row in enumerate(rows, 1):
        try:
            name, target = _row(row, "to" if ours else "replicas")
        except BadPlan as problem:
            raise BadPlan(f"move {number}: {problem}") from None
        if name in targets:
            raise BadPlan(f"move {number}: {name[0]}-{name[1]} occurs twice")
        targets[name] = target
    return targets


def _row(row: Any, target: str) -> tuple[tuple[str, int], tuple[int, ...]]:
    if not isinstance(row, dict):
        raise BadPlan("it is not an object")
    for key in ("topic", "partition", target):
        if key not in row:
            raise BadPlan(f'it has no "{key}"')
    topic, partition, nodes = row["topic"], row["partition"], row[target]
    if not isinstance(topic, str) or not topic:
        raise BadPlan(f'"topic" is {json.dumps(topic)}, which is not a name')
    if not _is_number(partition):
        raise BadPlan(f'"partition" is {json.dumps(partition)}, which is not a partition number')
    if not isinstance(nodes, list) or not nodes or not all(map(_is_number, nodes)):
        raise BadPlan(
            f'"{target}" is {json.dumps(nodes)}, which is not a list of broker ids such as [1, 2, 3]'
        )
    if len(set(nodes)) < len(nodes):
        raise BadPlan(f'"{target}" is {json.dumps(nodes)}, with one broker twice')
    if any(folder != "any" for folder in row.get("log_dirs") or ()):
        raise BadPlan('"log_dirs" names folders: replicas are moved between brokers only, leave it out')
    return (topic, partition), tuple(nodes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX
