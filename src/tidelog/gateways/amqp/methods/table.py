"""Which function serves which method of an open channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tidelog.gateways.amqp.channel import Channel
from tidelog.gateways.amqp.methods import basic, exchange, publish, queue

Handler = Callable[[Channel, dict[str, Any]], Awaitable[None] | None]

HANDLERS: dict[str, Handler] = {
    "channel.flow": basic.flow,
    "exchange.declare": exchange.declare,
    "exchange.delete": exchange.delete,
    "exchange.bind": exchange.bind,
    "exchange.unbind": exchange.unbind,
    "queue.declare": queue.declare,
    "queue.bind": queue.bind,
    "queue.unbind": queue.unbind,
    "queue.purge": queue.purge,
    "queue.delete": queue.delete,
    "basic.qos": basic.qos,
    "basic.consume": basic.consume,
    "basic.cancel": basic.cancel,
    "basic.get": basic.get,
    "basic.ack": basic.ack,
    "basic.nack": basic.nack,
    "basic.reject": basic.reject,
    "basic.recover": basic.recover,
    "basic.recover-async": basic.recover_async,
    "confirm.select": publish.confirm_select,
    "tx.select": publish.tx_select,
    "tx.commit": publish.tx_commit,
    "tx.rollback": publish.tx_rollback,
}
