"""The parsed settings of one group, which the group coordinators read.

A group's own settings take precedence over the broker's settings of the same name with the prefix `group.`.  The broker's
`min` and `max` settings bound what a group can set; a value stored before the bounds were narrowed is limited to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig
from tidelog.config.setting import Value, find
from tidelog.config.tables.groups import GROUP_BROKER_PREFIX, GROUP_SETTINGS
from tidelog.errors import InvalidConfig

BY_DURATION = "by_duration:"
UNLIMITED = -1
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    consumer_assignment_interval_ms: int = 1000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_session_timeout_ms: int = 45_000
    share_assignment_interval_ms: int = 1000
    share_auto_offset_reset: str = "latest"
    share_dead_letter_topic: str = ""
    share_delivery_count_limit: int = 5
    share_heartbeat_interval_ms: int = 5000
    share_isolation_level: str = "read_uncommitted"
    share_order: str = "offset"
    share_partition_max_record_locks: int = 2000
    share_record_lock_duration_ms: int = 30_000
    share_renew_acknowledge_enable: bool = True
    share_retry_backoff_max_ms: int = 60_000
    share_retry_backoff_ms: int = 0
    share_session_timeout_ms: int = 45_000
    share_single_active_consumer: bool = False
    streams_assignment_interval_ms: int = 1000
    streams_heartbeat_interval_ms: int = 5000
    streams_initial_rebalance_delay_ms: int = 3000
    streams_num_standby_replicas: int = 0
    streams_session_timeout_ms: int = 45_000

    @staticmethod
    def of(overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """The group's own settings (`overrides`) on top of the broker's defaults for groups."""
        values: dict[str, Any] = {}
        for name in _NAMES:
            own = overrides.get(name)
            value = inherited(name, broker) if own is None else GROUP_SETTINGS[name].parse(own)
            if own is not None and isinstance(value, int) and value != UNLIMITED:
                least, most = _bounds(name, broker)
                value = max(value, least) if least is not None else value
                value = min(value, most) if most is not None else value
            values[name.replace(".", "_")] = value
        return GroupConfig(**values)


_NAMES = tuple(field.name.replace("_", ".") for field in fields(GroupConfig))


def check_group(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises InvalidConfig for the first setting that does not exist, is wrong, or is outside of the broker's bounds."""
    for name, text in overrides.items():
        value = find(GROUP_SETTINGS, name, "group setting").parse(text)
        if name == "share.auto.offset.reset":
            check_offset_reset(text)
        if isinstance(value, int) and not isinstance(value, bool) and value != UNLIMITED:
            least, most = _bounds(name, broker)
            if least is not None and value < least:
                raise InvalidConfig(f"{name} must be greater than or equal to {_bound_name(name, 'min')}")
            if most is not None and value > most:
                raise InvalidConfig(f"{name} must be less than or equal to {_bound_name(name, 'max')}")


def inherited(name: str, broker: BrokerConfig) -> Value:
    """The value of a setting that the group itself has not set."""
    broker_name = GROUP_BROKER_PREFIX + name
    if broker_name not in BROKER_SETTINGS:
        return GROUP_SETTINGS[name].default
    return _broker_value(broker_name, broker)


def check_offset_reset(text: str) -> None:
    if text not in ("earliest", "latest") and not text.startswith(BY_DURATION):
        raise InvalidConfig(
            f"share.auto.offset.reset cannot be {text!r}: it must be earliest, latest or {BY_DURATION}PnDTnHnMn.nS"
        )
    if text.startswith(BY_DURATION):
        try:
            duration_ms(text[len(BY_DURATION) :])
        except InvalidConfig as problem:
            raise InvalidConfig(f"share.auto.offset.reset: {problem}") from None


def duration_ms(text: str) -> int:
    """Parses an ISO 8601 duration of days and less, such as PT1H30M; InvalidConfig for other texts and negative
    durations."""
    parts = _DURATION.fullmatch(text)
    if parts is None or parts[3] in ("T", "t") or not any(parts.group(2, 4, 5, 6)):
        raise InvalidConfig(f"{text!r} is not a duration: write it as PnDTnHnMn.nS, for example PT1H30M")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.group(2, 4, 5, 6))
    fraction = int((parts[7] or "").ljust(9, "0")) // 1_000_000
    if (parts[6] or "").startswith("-"):
        fraction = -fraction
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction
    if parts[1] == "-":
        total = -total
    if total < 0:
        raise InvalidConfig(f"{text!r} is negative: the duration back from now must not be negative")
    return total


def _bounds(name: str, broker: BrokerConfig) -> tuple[int | None, int | None]:
    bounds = [
        _broker_value(bound, broker) if (bound := _bound_name(name, which)) in BROKER_SETTINGS else None
        for which in ("min", "max")
    ]
    least, most = (bound if isinstance(bound, int) else None for bound in bounds)
    return least, most


def _bound_name(name: str, which: str) -> str:
    kind, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")  # group.streams.max.standby.replicas bounds streams.num.standby.replicas
    return f"{GROUP_BROKER_PREFIX}{kind}.{which}.{rest}"


def _broker_value(name: str, broker: BrokerConfig) -> Value:
    setting = BROKER_SETTINGS[name]
    value: Value = getattr(broker, setting.attribute, setting.default)
    return value
