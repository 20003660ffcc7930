"""Checks that a broker's defaults for groups lie within the bounds that it sets for groups.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.errors import InvalidConfig


def check_groups(value: Callable[[str], Any]) -> None:
    """Checks the broker's settings for groups.  `value`: returns a setting's value by its name."""
    if not value("group.consumer.assignors"):
        raise InvalidConfig("group.consumer.assignors is empty: consumer groups need an assignor")
    if "classic" not in value("group.coordinator.rebalance.protocols"):
        raise InvalidConfig(
            "group.coordinator.rebalance.protocols has no classic: the classic protocol cannot be switched off"
        )
    if value("group.share.assignors") != ("simple",):
        raise InvalidConfig("group.share.assignors must be simple: share groups have one assignor")
    for kind in ("consumer", "streams"):
        _check_bounds(kind, value)
    name, bound = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if value(name) > value(bound):
        raise InvalidConfig(f"{name} ({value(name)}) must not be larger than {bound} ({value(bound)})")


def _check_bounds(kind: str, value: Callable[[str], int]) -> None:
    prefix = f"group.{kind}."
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        least, default, most = (
            value(f"{prefix}min.{name}"),
            value(prefix + name),
            value(f"{prefix}max.{name}"),
        )
        if least > most:
            raise InvalidConfig(
                f"{prefix}min.{name} ({least}) must not be larger than {prefix}max.{name} ({most})"
            )
        if not least <= default <= most:
            raise InvalidConfig(
                f"{prefix}{name} cannot be {default}: {prefix}min.{name} is {least} and {prefix}max.{name} is {most}"
            )
    heartbeat, session = value(prefix + "heartbeat.interval.ms"), value(prefix + "session.timeout.ms")
    if heartbeat >= session:
        raise InvalidConfig(
            f"{prefix}heartbeat.interval.ms ({heartbeat}) must be less than {prefix}session.timeout.ms ({session})"
        )
