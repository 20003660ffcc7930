"""The arguments of queues: which are served, which values they may have, and what they set of the topic and its group.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.gateways.amqp.replies import precondition_failed
from tidelog.gateways.amqp.topology.model import AmqpQueue

TYPE = "x-queue-type"
EXPIRES = "x-expires"
TTL = "x-message-ttl"
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
DEAD_LETTER_KEY = "x-dead-letter-routing-key"
MAX_LENGTH = "x-max-length"
MAX_BYTES = "x-max-length-bytes"
OVERFLOW = "x-overflow"
DELIVERY_LIMIT = "x-delivery-limit"
MAX_PRIORITY = "x-max-priority"
SINGLE_ACTIVE = "x-single-active-consumer"
PRIORITIES_MAX = 32
PRIORITY = "x-priority"
"""The argument of a consumer for its priority."""
QUORUM = "quorum"
REJECT_TO_DEAD_LETTERS = "reject-publish-dlx"
_OVERFLOWS = ("drop-head", "reject-publish", REJECT_TO_DEAD_LETTERS)
_TYPES = ("classic", QUORUM)
_MS_MAX = (1 << 32) - 1

GROUPS = "queue.groups"


def _number(least: int = 0, most: int = (1 << 62)) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return "{unacceptable_type," + _kind(value) + "}"
        if value < 0:
            return f"{{value_negative,{value}}}"
        if value < least:
            return "{value_zero,0}"
        return None if value <= most else f"{{value_too_large,{value}}}"

    return check


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "{unacceptable_type," + _kind(value) + "}"


def _one_of(values: tuple[str, ...]) -> Callable[[Any], str | None]:
    return lambda value: None if value in values else f"it must be one of {', '.join(values)}"


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "{unacceptable_type," + _kind(value) + "}"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "longstr" if isinstance(value, str | bytes) else "signedint" if isinstance(value, int) else "table"


ARGUMENTS: Mapping[str, Callable[[Any], str | None]] = {
    TYPE: _one_of(_TYPES),
    EXPIRES: _number(1, _MS_MAX),
    TTL: _number(0, _MS_MAX),
    DEAD_LETTER_EXCHANGE: _text,
    DEAD_LETTER_KEY: _text,
    MAX_LENGTH: _number(),
    MAX_BYTES: _number(),
    OVERFLOW: _one_of(_OVERFLOWS),
    DELIVERY_LIMIT: _number(),
    MAX_PRIORITY: _number(0, PRIORITIES_MAX),
    SINGLE_ACTIVE: _boolean,
}
"""The arguments that change a queue's behaviour; the broker keeps any other argument, as RabbitMQ does."""


def check_queue_arguments(queue: AmqpQueue, vhost: str) -> None:
    for name, check in ARGUMENTS.items():
        if name in queue.arguments and (problem := check(queue.arguments[name])) is not None:
            raise precondition_failed(
                f"invalid arg '{name}' for queue '{queue.name}' in vhost '{vhost}': {problem}"
            )
    if DEAD_LETTER_KEY in queue.arguments and DEAD_LETTER_EXCHANGE not in queue.arguments:
        raise precondition_failed(
            f"invalid arg '{DEAD_LETTER_KEY}' for queue '{queue.name}' in vhost '{vhost}': "
            "routing_key_but_no_dlx_defined"
        )
    if queue.arguments.get(TYPE) == QUORUM:
        for named, has in (
            ("non-durable", not queue.durable),
            ("exclusive", bool(queue.exclusive)),
            ("auto-delete", queue.auto_delete),
        ):
            if has:
                raise precondition_failed(
                    f"invalid property '{named}' for queue '{queue.name}' in vhost '{vhost}'"
                )


def check_consumer_arguments(queue: AmqpQueue, vhost: str, arguments: Mapping[str, Any]) -> None:
    priority = arguments.get(PRIORITY, 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise precondition_failed(
            f"invalid arg '{PRIORITY}' for queue '{queue.name}' in vhost '{vhost}': {{unacceptable_type,{_kind(priority)}}}"
        )


def topic_settings(queue: AmqpQueue) -> dict[str, str | None]:
    """A queue keeps what nobody has taken, for as long as that takes, unless it says otherwise."""
    arguments = queue.arguments
    settings: dict[str, str | None] = {"retention.ms": "-1", "retention.bytes": "-1", GROUPS: queue.topic}
    for name, setting in (
        (TTL, "queue.ttl.ms"),
        (MAX_LENGTH, "queue.max.records"),
        (MAX_BYTES, "queue.max.bytes"),
    ):
        if name in arguments:
            settings[setting] = str(arguments[name])
    if partitions_of(queue) > 1:
        settings["queue.priorities"] = "true"
    if arguments.get(OVERFLOW, _OVERFLOWS[0]) != _OVERFLOWS[0]:
        settings["queue.overflow"] = "reject-publish"
    return settings


def group_settings(queue: AmqpQueue) -> dict[str, str]:
    """Without a limit a message comes back as often as it is requeued."""
    limit = queue.arguments.get(DELIVERY_LIMIT) if queue.arguments.get(TYPE) == QUORUM else None
    return {"share.delivery.count.limit": "-1" if limit is None else str(limit + 1)}


def partitions_of(queue: AmqpQueue) -> int:
    """One for each priority: records of a higher partition are acquired first."""
    return int(queue.arguments.get(MAX_PRIORITY, 0)) + 1


def partition_of(queue: AmqpQueue, priority: int) -> int:
    """Where a message of this priority goes."""
    return min(priority, int(queue.arguments.get(MAX_PRIORITY, 0)))
