"""Incremental changes of settings: set, delete, append to a list, subtract from a list.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog import errors
from tidelog.config import Setting, SettingKind
from tidelog.config.setting import find
from tidelog.metadata.image import Image
from tidelog.metadata.tenants import prefix_of, tenant_of_name
from tidelog.metadata.topics.names import check_topic_name


class Action(IntEnum):
    """The numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    action: Action
    value: str | None


def altered(
    current: Mapping[str, str],
    wanted: Iterable[Alteration],
    settings: Mapping[str, Setting],
    effective: Mapping[str, str | None],
    what: str,
) -> dict[str, str]:
    """`current` with all alterations in `wanted` applied.  A list that is not set starts with its effective value."""
    after = dict(current)
    for name, action, value in wanted:
        if action is Action.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise errors.InvalidRequest(f"Null value not supported for : {name}")
        if action is Action.SET:
            after[name] = value
            continue
        if find(settings, name, what).kind is not SettingKind.LIST:
            raise errors.InvalidConfig(f"Can't {action.name} to key {name} because its type is not LIST.")
        held = _entries(after.get(name, effective.get(name) or ""))
        given = _entries(value)
        if action is Action.APPEND:
            after[name] = ",".join(held + [entry for entry in given if entry not in held])
        else:
            after[name] = ",".join(entry for entry in held if entry not in given)
    return after


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def check_dead_letter_topic(image: Image, group: str, topic: str) -> None:
    """The broker itself writes dead letters: those of a tenant's group stay within the tenant."""
    try:
        if topic:
            check_topic_name(topic)
            tenant = tenant_of_name(image, group)
            if tenant is not None and tenant_of_name(image, topic) != tenant:
                raise errors.InvalidConfig(
                    f"share.dead.letter.topic: the topic of a group of tenant {tenant!r} begins with {prefix_of(tenant)!r}"
                )
    except errors.InvalidTopicException as problem:
        raise errors.InvalidConfig(f"share.dead.letter.topic: {problem}") from None
