"""What may be declared, and whether a declaration fits what is there, in RabbitMQ's words.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.gateways.amqp.replies import (
    ConnectionFault,
    access_refused,
    precondition_failed,
    resource_locked,
)
from tidelog.gateways.amqp.topology.arguments import ARGUMENTS
from tidelog.gateways.amqp.topology.model import (
    DELAYED,
    DELAYED_TYPE,
    KINDS,
    PREDECLARED,
    ROUTING_KINDS,
    AmqpExchange,
    AmqpQueue,
    plain_text,
)

RESERVED = "amq."
ARGUMENTS_BYTES_MAX = 16_384
COUNTS_MAX = {"exchange": 10_000, "binding": 100_000}
"""The most exchanges and bindings of one virtual host: entries of the metadata store.  Queues are bounded as topics are."""
DEFAULT_EXCHANGE = "operation not permitted on the default exchange"
PREDECLARED_NAMES = frozenset(exchange.name for exchange in PREDECLARED)


def check_arguments(kind: str, name: str, arguments: Mapping[str, Any]) -> None:
    if len(plain_text(arguments)) > ARGUMENTS_BYTES_MAX:
        raise precondition_failed(
            f"the arguments of {kind} '{name}' take more than {ARGUMENTS_BYTES_MAX} bytes"
        )


def check_count(kind: str, count: int, vhost: str) -> None:
    """How many there are, and one more is wanted."""
    if count >= COUNTS_MAX[kind]:
        raise precondition_failed(f"vhost '{vhost}' has {count} {kind}s, and may not have more")


def check_exchange_name(name: str) -> None:
    """Raises for a name that a client may not create or delete."""
    if not name:
        raise access_refused(DEFAULT_EXCHANGE)
    if name.startswith(RESERVED):
        raise access_refused(f"exchange name '{name}' contains reserved prefix 'amq.*'")


def check_deletable(name: str, vhost: str) -> None:
    if name and name in PREDECLARED_NAMES:
        raise access_refused(f"deletion of system exchange '{name}' in vhost '{vhost}' not allowed")
    check_exchange_name(name)


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ConnectionFault(503, f"unknown exchange type '{kind}'")


def check_delayed(exchange: AmqpExchange) -> None:
    if exchange.kind == DELAYED and exchange.arguments.get(DELAYED_TYPE) not in ROUTING_KINDS:
        raise precondition_failed(
            f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type: {', '.join(ROUTING_KINDS)}"
        )


def check_same_exchange(current: AmqpExchange, wanted: AmqpExchange, vhost: str) -> None:
    where = f"for exchange '{current.name}' in vhost '{vhost}'"
    for argument, new, old in (
        ("type", wanted.kind, current.kind),
        ("durable", wanted.durable, current.durable),
        ("auto_delete", wanted.auto_delete, current.auto_delete),
        ("internal", wanted.internal, current.internal),
    ):
        _check_same(argument, where, new, old)
    for argument in ("alternate-exchange", DELAYED_TYPE):
        _check_same_argument(argument, where, wanted.arguments, current.arguments)


def check_queue_name(name: str) -> None:
    if name.startswith(RESERVED):
        raise access_refused(f"queue name '{name}' contains reserved prefix 'amq.*'")


def check_access(queue: AmqpQueue, connection: str, vhost: str) -> None:
    """An exclusive queue is for its own connection."""
    if queue.exclusive and queue.exclusive != connection:
        raise resource_locked(
            f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{vhost}'. It could be originally "
            "declared on another connection or the exclusive property value does not match that of the original "
            "declaration."
        )


def check_same_queue(current: AmqpQueue, wanted: AmqpQueue, vhost: str) -> None:
    where = f"for queue '{current.name}' in vhost '{vhost}'"
    check_access(current, wanted.exclusive, vhost)
    for argument, new, old in (
        ("durable", wanted.durable, current.durable),
        ("auto_delete", wanted.auto_delete, current.auto_delete),
        ("exclusive", bool(wanted.exclusive), bool(current.exclusive)),
    ):
        _check_same(argument, where, new, old)
    for argument in ARGUMENTS:
        _check_same_argument(argument, where, wanted.arguments, current.arguments)


def _check_same(argument: str, where: str, new: Any, old: Any) -> None:
    if new != old:
        raise precondition_failed(
            f"inequivalent arg '{argument}' {where}: received '{_shown(new)}' but current is '{_shown(old)}'"
        )


def _check_same_argument(
    argument: str, where: str, wanted: Mapping[str, Any], current: Mapping[str, Any]
) -> None:
    new, old = wanted.get(argument), current.get(argument)
    if new == old:
        return
    raise precondition_failed(
        f"inequivalent arg '{argument}' {where}: received {_typed(new)} but current is {_typed(old)}"
    )


def _shown(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _typed(value: Any) -> str:
    if value is None:
        return "none"
    kind = "longstr" if isinstance(value, str) else "bool" if isinstance(value, bool) else "signedint"
    return f"the value '{_shown(value)}' of type '{kind}'"
