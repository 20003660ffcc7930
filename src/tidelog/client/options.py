"""Options that every client takes for its connections, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tidelog.client.partitioner import Partitioner
from tidelog.client.security import Security


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    client_id: str = "tidelog"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    security: Security | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in ("client_id", "security") and value <= 0:
                raise ValueError(f"{one.name} must be above 0, not {value}")


ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`acks` is the number on the wire: -1 for all."""

    acks: int
    batch_size: int
    linger_ms: int
    compression_type: str
    retries: int
    max_in_flight_requests: int
    enable_idempotence: bool
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    partitioner: str | Partitioner = "murmur2"
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for name in ("linger_ms", "retries", "batch_size", "max_block_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} cannot be {getattr(self, name)}: it must be at least 0")
        for name in ("max_in_flight_requests", "buffer_memory", "max_request_size", "delivery_timeout_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} cannot be {getattr(self, name)}: it must be at least 1")
        if self.transaction_timeout_ms < 1:
            raise ValueError(
                f"transaction_timeout_ms cannot be {self.transaction_timeout_ms}: it must be above 0"
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ValueError("transactional_id needs enable_idempotence, and so acks='all' and retries")
        if self.transactional_id == "":
            raise ValueError("transactional_id cannot be empty: leave it out, or name the producer")
        if self.enable_idempotence:
            if self.acks != -1:
                raise ValueError("enable_idempotence needs acks='all': set both, or neither")
            if self.retries == 0:
                raise ValueError("enable_idempotence needs retries above 0: set both, or neither")
            if self.max_in_flight_requests > 5:
                raise ValueError("enable_idempotence allows max_in_flight_requests up to 5")


def acks_of(acks: int | str) -> int:
    try:
        return ACKS[str(acks)]
    except KeyError:
        raise ValueError(f"acks cannot be {acks!r}: use 0, 1 or 'all'") from None


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
        if self.fetch_max_wait_ms < 0:
            raise ValueError(f"fetch_max_wait_ms cannot be {self.fetch_max_wait_ms}: it must be at least 0")
        for name in ("fetch_min_bytes", "fetch_max_bytes", "max_partition_fetch_bytes", "max_poll_records"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} cannot be {getattr(self, name)}: it must be at least 1")


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
    if isinstance(reset, int) and reset >= 0:
        return reset
    if isinstance(reset, str) and reset in RESETS:
        return RESETS[reset]
    raise ValueError(
        f"auto_offset_reset cannot be {reset!r}: use 'earliest', 'latest', 'none' or a time in milliseconds"
    )
