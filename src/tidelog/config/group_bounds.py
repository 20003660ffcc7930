"""What a broker gives its groups lies within what it lets them set.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import InvalidConfig


def check_group_bounds(kind: str, value: Callable[[str], int]) -> None:
    """A broker's settings of groups of one kind fit together; `value` reads one by its name."""
    prefix = f"group.{kind}."
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        least, mine, most = value(f"{prefix}min.{name}"), value(prefix + name), value(f"{prefix}max.{name}")
        if least > most:
            raise InvalidConfig(f"{prefix}min.{name} ({least}) must not be larger than its max ({most})")
        if not least <= mine <= most:
            raise InvalidConfig(f"{prefix}{name} cannot be {mine}: its min is {least} and its max {most}")
    heartbeat, session = value(prefix + "heartbeat.interval.ms"), value(prefix + "session.timeout.ms")
    if heartbeat >= session:
        raise InvalidConfig(
            f"{prefix}heartbeat.interval.ms ({heartbeat}) must be less than {prefix}session.timeout.ms ({session})"
        )
