"""The producer's options, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client import checks
from tidelog.client.checks import INT32_MAX
from tidelog.client.producer.partitioner import Partitioner
from tidelog.record import codec_named

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
