"""The bounds of a queue: how many records, or bytes, may wait in one partition, and what goes when there are more.

Counted are records that can be acquired; those that a member holds do not count."""

from __future__ import annotations

from tidelog import errors
from tidelog._speed.log.batch import Header
from tidelog.groups.share.in_flight import LetterReason
from tidelog.groups.share.led_partition import LedSharePartition

UNLIMITED = -1
REJECT = "reject-publish"


def ready(led: LedSharePartition, end: int) -> int:
    """Records below `end` that can be acquired."""
    return max(end - led.state.end, 0) + led.state.runs.counts().available


def trim(led: LedSharePartition) -> None:
    """Drops the oldest records that are too many."""
    config = led.partition.log.config
    records_max, bytes_max = config.queue_max_records, config.queue_max_bytes
    if records_max == bytes_max == UNLIMITED:
        return
    end = led.partition.readable_end(False)
    count = ready(led, end)
    excess = count - records_max if records_max != UNLIMITED else 0
    if bytes_max != UNLIMITED and count:
        size = led.partition.log.bytes_from(led.state.next_offset())
        if size > bytes_max:
            # The records are taken to be of one size.
            excess = max(excess, min(-(-count * (size - bytes_max) // size), count))
    if excess > 0:
        change = led.state.drop(excess, end, LetterReason.TOO_MANY, led.terms())
        if change.batches:
            led.apply(change)


def admit(led: LedSharePartition, header: Header, size: int) -> None:
    """Refuses a batch that makes the queue too long, if the queue refuses at all."""
    config = led.partition.log.config
    if config.queue_overflow != REJECT or not led.current:
        return
    log, name = led.partition.log, led.partition.topic
    if (
        config.queue_max_records != UNLIMITED
        and ready(led, log.next) + header.last_offset_delta + 1 > config.queue_max_records
    ):
        raise errors.PolicyViolation(
            f"queue '{name}' has as many records as queue.max.records allows ({config.queue_max_records})"
        )
    if (
        config.queue_max_bytes != UNLIMITED
        and log.bytes_from(led.state.next_offset()) + size > config.queue_max_bytes
    ):
        raise errors.PolicyViolation(
            f"queue '{name}' has as many bytes as queue.max.bytes allows ({config.queue_max_bytes})"
        )
