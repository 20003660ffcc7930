"""The damaged logs of a broker: opened at its start, listed on request."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidelog.errors import TidelogError
from tidelog.storage.dirs.log_dir import Configs, LogDirectory
from tidelog.storage.integrity.damage import BadRange
from tidelog.types import TopicPartition

logger = logging.getLogger("tidelog.storage")


def open_damaged(homes: Iterable[LogDirectory], configs: Configs) -> None:
    """Opens the logs in which the last run or recovery found damage; from then on `damaged_logs` lists them."""
    for home in homes:
        for name in sorted(home.to_open & home.names):
            try:
                home.open(name, configs(name.topic))
            except TidelogError as problem:
                logger.error("%s cannot be opened: %s", name, problem)


def damaged_logs(homes: Iterable[LogDirectory]) -> dict[TopicPartition, tuple[BadRange, ...]]:
    """Every log in directories that work which has bytes that rotted."""
    return {
        name: log.damaged
        for home in homes
        if home.problem is None
        for name in home.volume.damaged
        if (log := home.logs.get(name)) is not None and log.damaged
    }
