"""Publishing: basic.publish with its content, confirms and transactions of a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

from tidelog import errors
from tidelog.gateways.amqp.channel import Channel, ChannelTransaction, sparing
from tidelog.gateways.amqp.confirms import Confirms
from tidelog.gateways.amqp.dead_letters import TOO_LONG
from tidelog.gateways.amqp.direct_reply import REPLY_TO
from tidelog.gateways.amqp.message import AmqpMessage, headers_of_record, partition_of_message, with_headers
from tidelog.gateways.amqp.replies import ConnectionFault, access_refused, precondition_failed
from tidelog.gateways.amqp.rights import WRITE
from tidelog.gateways.amqp.services import BODY_BYTES_MAX
from tidelog.gateways.amqp.topology.arguments import OVERFLOW, REJECT_TO_DEAD_LETTERS
from tidelog.gateways.amqp.topology.model import DELAYED, AmqpQueue
from tidelog.gateways.amqp.topology.vhost import AmqpVhost
from tidelog.gateways.amqp.wire.properties import decode_properties, encode_properties
from tidelog.queues.message import Published, QueueMessage

TRANSACTION_BYTES_MAX = 64 << 20
MESSAGE_OVERHEAD = 500
"""What an empty message of a transaction takes."""
NO_ROUTE = 312
DELAY = "x-delay"
DELAY_MS_MAX = (1 << 32) - 1

Fields = dict[str, Any]


class Content:
    """What follows a basic.publish: a header, then the body in pieces."""

    __slots__ = ("_left", "_pieces", "fields", "properties", "size")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.properties: bytes | None = None
        self._pieces: list[bytes] = []
        self._left = 0
        self.size = 0
        """The bytes of the body that have arrived."""

    def header(self, class_id: int, size: int, properties: bytes) -> bool:
        """True when the message is whole."""
        if class_id != 60:
            raise ConnectionFault(
                505, f"expected content header for class 60, got one for class {class_id} instead"
            )
        if size > BODY_BYTES_MAX:
            raise precondition_failed(
                f"message size {size} is larger than configured max size {BODY_BYTES_MAX}"
            )
        self.properties = properties
        self._left = size
        return not size

    def body(self, piece: bytes) -> bool:
        self._left -= len(piece)
        self.size += len(piece)
        if self._left < 0:
            raise ConnectionFault(501, "the body of a message is longer than its header says")
        self._pieces.append(piece)
        return not self._left

    def message(self) -> AmqpMessage:
        assert self.properties is not None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return AmqpMessage(self.fields["exchange"], self.fields["routing_key"], self.properties, body)


def begin(channel: Channel, fields: Fields) -> Content:
    """Checks what can be checked before the content arrives, as RabbitMQ does."""
    if fields["immediate"]:
        raise ConnectionFault(540, "immediate=true")
    name = fields["exchange"]
    if name:
        channel.rights.check_exchange(WRITE, name)
        exchange = channel.services.declarations.exchange(channel.declarer, name)
        if exchange.internal:
            raise access_refused(
                f"cannot publish to internal exchange '{name}' in vhost '{channel.declarer.vhost}'"
            )
    else:
        key = fields["routing_key"]
        if channel.services.replies.is_open(key):
            return Content(fields)  # whoever knows this name was asked for an answer
        channel.rights.check_queue(
            WRITE, key, channel.services.declarations.vhost(channel.declarer).queues.get(key)
        )
    return Content(fields)


def published(channel: Channel, content: Content) -> None:
    """The message is whole."""
    message = _checked(channel, content.message())
    mandatory = content.fields["mandatory"]
    transaction = channel.transaction
    if transaction is not None:
        size = len(message.body) + len(message.properties) + MESSAGE_OVERHEAD
        transaction.bytes += size
        channel.connection.server.unfinished.hold(channel.connection, size)
        if transaction.bytes > TRANSACTION_BYTES_MAX:
            raise ConnectionFault(506, f"a transaction has more than {TRANSACTION_BYTES_MAX} bytes")
        transaction.messages.append((message, mandatory))
        return
    stored = _store(channel, message, mandatory)
    if channel.confirms is not None:
        tag = channel.confirms.published(len(stored))
        for future in stored:
            future.add_done_callback(partial(_confirmed, channel, tag))
        if not stored:
            channel.confirm_soon()
    else:
        for future in stored:
            future.add_done_callback(partial(_unconfirmed, channel))


def _checked(channel: Channel, message: AmqpMessage) -> AmqpMessage:
    properties = decode_properties(message.properties)
    user = properties.get("user_id")
    if user and user != channel.connection.user:
        raise precondition_failed(
            f"user_id property set to '{user}' but authenticated user was '{channel.connection.user}'"
        )
    expiration = properties.get("expiration")
    if expiration is not None and not (expiration.isdecimal() and int(expiration) < 1 << 32):
        raise precondition_failed(f"invalid expiration '{expiration}'")
    if properties.get("reply_to") != REPLY_TO:
        return message
    if not channel.reply_name:
        raise precondition_failed("fast reply consumer does not exist")
    properties["reply_to"] = channel.reply_name
    return message._replace(properties=encode_properties(properties))


def _store(channel: Channel, message: AmqpMessage, mandatory: bool) -> list[asyncio.Future[Published]]:
    """One future for each queue."""
    replies = channel.services.replies
    if not message.exchange and message.routing_key.startswith(REPLY_TO) and replies.deliver(message):
        return []
    vhost = channel.services.declarations.vhost(channel.declarer)
    queues = vhost.route(
        message.exchange,
        message.routing_key,
        lambda: decode_properties(message.properties).get("headers", {}),
    )
    if not queues and mandatory:
        channel.send_content(message, "basic.return", reply_code=NO_ROUTE, reply_text="NO_ROUTE")
    if queues and (delay_ms := _delay_ms(vhost, message)):
        later = message._replace(properties=with_headers(message.properties, {DELAY: -delay_ms}))
        return [_append(channel, later, queue, delay_ms) for queue in queues]
    return [_append(channel, message, queue) for queue in queues]


def _delay_ms(vhost: AmqpVhost, message: AmqpMessage) -> int:
    """How long a delayed exchange keeps it.  Queues get it with the negative delay, as from RabbitMQ's plugin."""
    exchange = vhost.exchanges.get(message.exchange)
    if exchange is None or exchange.kind != DELAYED:
        return 0
    delay_ms = decode_properties(message.properties).get("headers", {}).get(DELAY, 0)
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int):
        return 0
    return min(max(delay_ms, 0), DELAY_MS_MAX)


def _append(
    channel: Channel, message: AmqpMessage, queue: AmqpQueue, delay_ms: int = 0
) -> asyncio.Future[Published]:
    record = QueueMessage(message.body, headers=headers_of_record(message, queue.name))
    if not channel.rights.may_store(queue):
        refused: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        refused.set_exception(
            errors.PolicyViolation(f"the tenant of queue '{queue.name}' stores as much as it may")
        )
        return refused
    channel.connection.pacing.publishing(len(message.body))
    queues, partition = channel.services.broker.queues, partition_of_message(queue, message)
    stored: asyncio.Future[Published]
    if delay_ms:
        due_ms = channel.services.broker.clock.now_ms() + delay_ms
        stored = asyncio.ensure_future(_kept(queues.publish_later(queue.topic, record, due_ms, partition)))
    else:
        stored = queues.publish(queue.topic, record, partition)
    if queue.arguments.get(OVERFLOW) == REJECT_TO_DEAD_LETTERS:
        stored.add_done_callback(partial(_refused, channel, message, queue))
    stored.add_done_callback(lambda _: channel.connection.pacing.publishing(-len(message.body)))
    return stored


async def _kept(keeping: Awaitable[tuple[int, int]]) -> Published:
    return Published(*await keeping)


def _refused(
    channel: Channel, message: AmqpMessage, queue: AmqpQueue, stored: asyncio.Future[Published]
) -> None:
    """A queue that is full gives what it refuses to its dead letter exchange; the publisher is told that it was refused."""
    if not stored.cancelled() and isinstance(stored.exception(), errors.PolicyViolation):
        server, vhost = channel.connection.server, channel.declarer.vhost
        server.spawn(server.dead_letters.send(vhost, queue, message, TOO_LONG))


def _confirmed(channel: Channel, tag: int, stored: asyncio.Future[Published]) -> None:
    problem = None if stored.cancelled() else stored.exception()
    if problem is not None:
        _tell(channel, problem)
    channel.confirm(tag, not stored.cancelled() and problem is None)


def _unconfirmed(channel: Channel, stored: asyncio.Future[Published]) -> None:
    if not stored.cancelled() and (problem := stored.exception()) is not None:
        _tell(channel, problem)


def _tell(channel: Channel, problem: BaseException) -> None:
    if isinstance(problem, errors.PolicyViolation):
        return  # the queue is full, as its owner wants it
    sparing.warning(
        channel.connection.host, "a message of %s is not stored: %s", channel.connection.shown, problem
    )


# Confirms and transactions


def confirm_select(channel: Channel, fields: Fields) -> None:
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not fields["no_wait"]:
        channel.send("confirm.select-ok")


def tx_select(channel: Channel, fields: Fields) -> None:
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = ChannelTransaction()
    channel.send("tx.select-ok")


async def tx_commit(channel: Channel, fields: Fields) -> None:
    transaction = channel.end_transaction()
    stored = [
        future
        for message, mandatory in transaction.messages
        for future in _store(channel, message, mandatory)
    ]
    outcomes = await asyncio.gather(*stored, return_exceptions=True)
    problems = [problem for problem in outcomes if isinstance(problem, BaseException)]
    if problems:
        for taken, _ in transaction.settlements:
            channel.settle(taken, "release")
        raise ConnectionFault(541, f"a message of the transaction is not stored: {problems[0]}")
    for taken, how in transaction.settlements:
        channel.settle(taken, how)
    await channel.settled()
    channel.send("tx.commit-ok")


def tx_rollback(channel: Channel, fields: Fields) -> None:
    transaction = channel.end_transaction()
    for taken, _ in transaction.settlements:
        channel.unacknowledged |= taken
    channel.unacknowledged = dict(sorted(channel.unacknowledged.items()))
    channel.send("tx.rollback-ok")
