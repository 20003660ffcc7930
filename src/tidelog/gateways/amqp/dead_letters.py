"""Dead letters of AMQP: from a queue with `x-dead-letter-exchange` through that exchange, with the history in `x-death`.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.gateways.amqp.message import AmqpMessage
from tidelog.gateways.amqp.topology.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY
from tidelog.gateways.amqp.topology.model import AmqpQueue
from tidelog.gateways.amqp.topology.vhost import AmqpVhost
from tidelog.gateways.amqp.wire.properties import decode_properties, encode_properties
from tidelog.gateways.amqp.wire.tables import Timestamp

REJECTED, EXPIRED, TOO_LONG, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
DEATH = "x-death"
DEATHS_MAX = 100


def dead_letter(message: AmqpMessage, queue: AmqpQueue, reason: str, now_ms: int) -> AmqpMessage | None:
    """The message as it goes to the dead letter exchange; None if the queue has none."""
    exchange = queue.arguments.get(DEAD_LETTER_EXCHANGE)
    if exchange is None:
        return None
    properties = decode_properties(message.properties)
    headers = dict(properties.get("headers", {}))
    death: dict[str, Any] = {
        "count": 1,
        "reason": reason,
        "queue": queue.name,
        "time": Timestamp(now_ms // 1000),
        "exchange": message.exchange,
        "routing-keys": [message.routing_key],
    }
    expiration = properties.pop("expiration", None)
    if expiration is not None:
        death["original-expiration"] = expiration
    others = []
    for before in _deaths(headers):
        if before.get("queue") == queue.name and before.get("reason") == reason:
            count = before.get("count")
            death["count"] = count + 1 if isinstance(count, int) else 1
        else:
            others.append(before)
    headers[DEATH] = [death, *others][:DEATHS_MAX]
    for name, value in (("reason", reason), ("queue", queue.name), ("exchange", message.exchange)):
        headers.setdefault(f"x-first-death-{name}", value)
    properties["headers"] = headers
    routing_key = queue.arguments.get(DEAD_LETTER_KEY, message.routing_key)
    return AmqpMessage(exchange, routing_key, encode_properties(properties), message.body)


def routed(vhost: AmqpVhost, letter: AmqpMessage, reason: str) -> list[AmqpQueue]:
    """Where it goes; not to a queue from which it has come round without being rejected by anybody."""
    headers = decode_properties(letter.properties)["headers"]
    queues = vhost.route(letter.exchange, letter.routing_key, lambda: headers)
    if reason == REJECTED:
        return queues
    return [queue for queue in queues if not _has_come_round(queue.name, _deaths(headers))]


def _has_come_round(queue: str, deaths: Iterable[Mapping[str, Any]]) -> bool:
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False


def _deaths(headers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Clients may write anything into the header."""
    deaths = headers.get(DEATH)
    return [death for death in deaths if isinstance(death, dict)] if isinstance(deaths, list) else []
