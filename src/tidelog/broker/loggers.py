"""The levels of this broker's loggers, as Kafka's tools describe and change them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from tidelog.config.describe import DescribedSetting, SettingSource
from tidelog.config.setting import SettingKind
from tidelog.errors import InvalidConfig

ROOT = "root"
# Kafka's names of levels, from the most talkative on.
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {level: name for name, level in _LEVELS.items()}


def _known() -> dict[str, logging.Logger]:
    named = {
        name: logging.getLogger(name)
        for name, logger in sorted(logging.Logger.manager.loggerDict.items())
        if name.partition(".")[0] == "tidelog" and isinstance(logger, logging.Logger)
    }
    return {ROOT: logging.getLogger(), **named}


def described(names: Collection[str] | None) -> Iterator[DescribedSetting]:
    for name, logger in _known().items():
        if not names or name in names:
            level = _NAMES.get(logger.getEffectiveLevel(), "INFO")
            yield DescribedSetting(
                name, level, SettingSource.BROKER_LOGGER, False, False, SettingKind.UNKNOWN, "", ()
            )


def alter(wanted: Sequence[tuple[str, str | None]], validate_only: bool) -> None:
    """(logger, level), or None to take the level of the logger above it again.  All or nothing."""
    loggers = _known()
    for name, level in wanted:
        if name not in loggers:
            raise InvalidConfig(f"there is no logger {name!r}")
        if level is None and name == ROOT:
            raise InvalidConfig("the root logger needs a level")
        if level is not None and level not in _LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
    if not validate_only:
        for name, level in wanted:
            loggers[name].setLevel(logging.NOTSET if level is None else _LEVELS[level])
