"""Parses `tidelog.processes`: how many brokers `tidelog serve` runs as one unit."""

from __future__ import annotations

from tidelog.errors import InvalidConfig

AUTO = "auto"
PROCESSES_MAX = 256
CORES_A_SPARE = 8
"""`auto` leaves one core in this many to the system, and to compaction and fsync threads."""


def process_count(text: str, setting: str, cores: int) -> int:
    if text == AUTO:
        return min(max(1, cores - cores // CORES_A_SPARE), PROCESSES_MAX)
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= PROCESSES_MAX:
        raise InvalidConfig(
            f"{setting} cannot be {text!r}: write {AUTO}, or a number from 1 to {PROCESSES_MAX}"
        )
    return int(text)
