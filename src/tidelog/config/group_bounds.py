"""Checks that a broker's defaults for groups lie within the bounds that it sets for groups.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import InvalidConfig


def check_group_bounds(kind: str, value: Callable[[str], int]) -> None:
    """Checks the broker's settings for groups of one kind.  `value`: returns a setting's value by its name."""
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
