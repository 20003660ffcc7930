"""Options that every client takes for its connections, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tidelog.client import checks
from tidelog.client.checks import INT32_MAX, INT64_MAX
from tidelog.client.partitioner import Partitioner
from tidelog.client.security import Security
from tidelog.record import codec_named


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
        if self.client_id is not None:
            checks.text("client_id", self.client_id)
        if self.security is not None and not isinstance(self.security, Security):
            raise TypeError(f"security must be a Security(...), not {self.security!r}")
        for one in fields(self):
            if one.name not in ("client_id", "security"):
                # It is on the wire, as the time that the broker may take.
                most = INT32_MAX if one.name == "request_timeout_ms" else INT64_MAX
                checks.whole(one.name, getattr(self, one.name), 1, most)


IDEMPOTENT_IN_FLIGHT_MAX = 5
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
            checks.whole(name, getattr(self, name), 0)
        for name in ("max_in_flight_requests", "buffer_memory", "delivery_timeout_ms"):
            checks.whole(name, getattr(self, name), 1)
        for name in ("max_request_size", "transaction_timeout_ms"):
            checks.whole(name, getattr(self, name), 1, INT32_MAX)
        checks.truth("enable_idempotence", self.enable_idempotence)
        if self.transactional_id is not None:
            checks.text("transactional_id", self.transactional_id)
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ValueError("transactional_id needs enable_idempotence, and so acks='all' and retries")
        if self.transactional_id == "":
            raise ValueError("transactional_id cannot be empty: leave it out, or name the producer")
        if self.enable_idempotence:
            if self.acks != -1:
                raise ValueError("enable_idempotence needs acks='all': set both, or neither")
            if self.retries == 0:
                raise ValueError("enable_idempotence needs retries above 0: set both, or neither")
            if self.max_in_flight_requests > IDEMPOTENT_IN_FLIGHT_MAX:
                raise ValueError(
                    f"enable_idempotence allows max_in_flight_requests up to {IDEMPOTENT_IN_FLIGHT_MAX}"
                )


def acks_of(acks: int | str) -> int:
    try:
        return ACKS[str(acks)]
    except KeyError:
        raise ValueError(f"acks cannot be {acks!r}: use 0, 1 or 'all'") from None


def compression_of(name: str | None) -> str:
    """None is what other clients call none."""
    plain = "none" if name is None else name
    checks.text("compression_type", plain)
    codec_named(plain)
    return plain


def may_be_idempotent(acks: int, retries: int, max_in_flight_requests: int) -> bool:
    checks.whole("retries", retries, 0)
    checks.whole("max_in_flight_requests", max_in_flight_requests, 1)
    return acks == -1 and retries > 0 and max_in_flight_requests <= IDEMPOTENT_IN_FLIGHT_MAX


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
