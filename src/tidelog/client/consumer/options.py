"""What a consumer reads and how it fetches, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client import checks
from tidelog.client.checks import INT32_MAX, INT64_MAX


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """`auto_offset_reset` is a time as ListOffsets takes it, or None for no reset; `max_partition_fetch_bytes` is
    None for what suits the number of partitions."""

    auto_offset_reset: int | None
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int | None
    max_poll_records: int
    check_crcs: bool
    read_committed: bool = False
    client_rack: str = ""

    def __post_init__(self) -> None:
        checks.whole("fetch_max_wait_ms", self.fetch_max_wait_ms, 0, INT32_MAX)
        for name in ("fetch_min_bytes", "fetch_max_bytes", "max_poll_records"):
            checks.whole(name, getattr(self, name), 1, INT32_MAX)
        if self.max_partition_fetch_bytes is not None:
            checks.whole("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1, INT32_MAX)
        checks.truth("check_crcs", self.check_crcs)
        checks.text("client_rack", self.client_rack)

    def records_of_poll(self, wanted: int | None) -> int:
        """0 takes part in the group and brings nothing."""
        if wanted is None:
            return self.max_poll_records
        checks.whole("max_records", wanted, 0)
        return wanted


ISOLATION_LEVELS = {"read_uncommitted": False, "read_committed": True}


def read_committed_of(isolation_level: str) -> bool:
    try:
        return ISOLATION_LEVELS[isolation_level]
    except KeyError:
        raise ValueError(
            f"isolation_level cannot be {isolation_level!r}: use {' or '.join(map(repr, ISOLATION_LEVELS))}"
        ) from None


RESETS = {"earliest": -2, "latest": -1, "none": None}


def reset_of(reset: str | int) -> int | None:
    if isinstance(reset, int) and not isinstance(reset, bool) and 0 <= reset <= INT64_MAX:
        return reset
    if isinstance(reset, str) and reset in RESETS:
        return RESETS[reset]
    raise ValueError(
        f"auto_offset_reset cannot be {reset!r}: use 'earliest', 'latest', 'none' or a time in milliseconds"
    )
