"""A channel: the state of its client's dialogue.  The methods are served in `methods/`, by class."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.gateways.amqp.confirms import Confirms
from tidelog.gateways.amqp.consumer import ACQUIRED_AT_ONCE, QueueConsumer
from tidelog.gateways.amqp.message import AmqpMessage, message_of_record, with_headers
from tidelog.gateways.amqp.replies import precondition_failed
from tidelog.gateways.amqp.topology.arguments import QUORUM, TYPE
from tidelog.gateways.amqp.topology.declarations import Declarer
from tidelog.gateways.amqp.topology.model import AmqpQueue
from tidelog.gateways.amqp.wire.frames import content_frames, method_frame
from tidelog.gateways.amqp.wire.methods import encode_method
from tidelog.logs import SparingLog

if TYPE_CHECKING:
    from tidelog.gateways.amqp.connection import AmqpConnection
    from tidelog.queues.message import Delivery
    from tidelog.queues.session import QueueSession

log = logging.getLogger("tidelog.amqp")
sparing = SparingLog(log)

GETTERS_MAX = 64


def message_of_delivery(queue: AmqpQueue, delivery: Delivery) -> AmqpMessage:
    """A quorum queue tells the number of earlier deliveries."""
    message = message_of_record(queue.name, delivery.key, delivery.value, delivery.headers)
    if queue.arguments.get(TYPE) == QUORUM:
        counted = with_headers(message.properties, {"x-delivery-count": delivery.deliveries - 1})
        message = message._replace(properties=counted)
    return message


class Unacknowledged(NamedTuple):
    queue: AmqpQueue
    session: QueueSession
    position: tuple[int, int]
    consumer: QueueConsumer | None
    """None: the message was taken with basic.get."""


class ChannelTransaction:
    """What tx.commit will do: messages to publish and tags to settle, in order."""

    def __init__(self) -> None:
        self.messages: list[tuple[AmqpMessage, bool]] = []
        self.bytes = 0
        self.settlements: list[tuple[dict[int, Unacknowledged], str]] = []


class Channel:
    def __init__(self, number: int, connection: AmqpConnection) -> None:
        self.number = number
        self.connection = connection
        self.services = connection.services
        self.declarer: Declarer = connection.declarer
        self.rights = connection.rights
        self.last_queue = ""
        self.prefetch = 0
        self.channel_prefetch = 0
        self.active = True
        self.closing = False
        self.consumers: dict[str, QueueConsumer] = {}
        self.unacknowledged: dict[int, Unacknowledged] = {}
        self.confirms: Confirms | None = None
        self.transaction: ChannelTransaction | None = None
        self._tag = 0
        self.reply_name = ""
        """What `amq.rabbitmq.reply-to` stands for on this channel."""
        self.reply_tag = ""
        self._cancelled: list[QueueConsumer] = []
        self._getters: dict[str, QueueSession] = {}
        self._settling: set[asyncio.Future[None]] = set()
        self._confirming = False

    # What is sent

    def send(self, name: str, **fields: Any) -> None:
        self.connection.write(method_frame(self.number, encode_method(name, **fields)))

    def send_content(self, message: AmqpMessage, name: str, **fields: Any) -> None:
        method = encode_method(name, exchange=message.exchange, routing_key=message.routing_key, **fields)
        content = content_frames(
            self.number, message.properties, message.body, self.connection.frame_bytes_max
        )
        self.connection.write(method_frame(self.number, method) + content)

    # Deliveries

    def credit(self, consumer: QueueConsumer) -> int:
        credit = self._own_credit(consumer)
        if credit > 0:
            for other in self.services.consumers.above(self.declarer.vhost, consumer):
                if other.can_take():
                    return 0
        return credit

    def _own_credit(self, consumer: QueueConsumer) -> int:
        """Whatever consumers of higher priority there are."""
        if not self.active or self.closing or not self.connection.writable:
            return 0
        if not self.connection.server.active.allows(self.declarer.vhost, consumer):
            return 0
        credit = ACQUIRED_AT_ONCE
        if consumer.no_ack:
            return credit
        if consumer.prefetch:
            credit = min(credit, consumer.prefetch - consumer.unacknowledged)
        if self.channel_prefetch:
            # One at a time: the consumers of the channel share this bound.
            credit = min(credit, self.channel_prefetch - len(self.unacknowledged), 1)
        return credit

    def can_take(self, consumer: QueueConsumer) -> bool:
        return self._own_credit(consumer) > 0

    def blocked(self, consumer: QueueConsumer) -> None:
        for other in self.services.consumers.below(self.declarer.vhost, consumer):
            other.changed.set()

    def ready(self, consumer: QueueConsumer) -> None:
        for other in self.services.consumers.below(self.declarer.vhost, consumer):
            other.give_way()

    def consumers_blocked(self) -> None:
        for consumer in self.consumers.values():
            self.blocked(consumer)

    def deliver(self, consumer: QueueConsumer, delivery: Delivery) -> None:
        message = message_of_delivery(consumer.queue, delivery)
        tag = self._delivered(
            consumer.queue, consumer.session, delivery, None if consumer.no_ack else consumer
        )
        if not consumer.no_ack:
            consumer.unacknowledged += 1
        else:
            self.unacknowledged.pop(tag)
        self.send_content(
            message,
            "basic.deliver",
            consumer_tag=consumer.tag,
            delivery_tag=tag,
            redelivered=delivery.redelivered,
        )

    def deliver_reply(self, message: AmqpMessage, tag: str) -> None:
        self._tag += 1
        self.send_content(
            message, "basic.deliver", consumer_tag=tag, delivery_tag=self._tag, redelivered=False
        )

    def end_replies(self) -> None:
        self.services.replies.close(self.reply_name)
        self.reply_name = self.reply_tag = ""

    def _delivered(
        self, queue: AmqpQueue, session: QueueSession, delivery: Delivery, consumer: QueueConsumer | None
    ) -> int:
        self._tag += 1
        self.unacknowledged[self._tag] = Unacknowledged(queue, session, delivery.position, consumer)
        return self._tag

    async def delivered(self, size: int) -> None:
        await self.connection.sent(size)

    def consumer_ended(self, consumer: QueueConsumer) -> None:
        """The queue was deleted."""
        if self.consumers.pop(consumer.tag, None) is None:
            return
        self.services.consumers.remove(self.declarer.vhost, consumer.queue.name, consumer)
        consumer.cancelled = True
        if self.connection.has_capability("consumer_cancel_notify"):
            self.send("basic.cancel", consumer_tag=consumer.tag, no_wait=True)

    async def get(self, queue: AmqpQueue, no_ack: bool) -> tuple[int, Delivery] | None:
        await self.settled()
        session = self._getters.get(queue.topic)
        if session is None:
            if len(self._getters) >= GETTERS_MAX:
                await self._close_idle_getters()
            session = self.services.broker.queues.session(queue.topic, queue.topic)
            self._getters[queue.topic] = session
        taken = await session.acquire(1)
        if not taken:
            return None
        tag = self._delivered(queue, session, taken[0], None)
        if no_ack:
            del self.unacknowledged[tag]
            self.keep(session.acknowledge([taken[0].position]))
        return tag, taken[0]

    async def _close_idle_getters(self) -> None:
        busy = {id(unacknowledged.session) for unacknowledged in self.unacknowledged.values()}
        for topic, session in list(self._getters.items()):
            if id(session) not in busy:
                del self._getters[topic]
                await session.close()

    # Settling

    def take_unacknowledged(self, tag: int, multiple: bool) -> dict[int, Unacknowledged]:
        """Raises PRECONDITION_FAILED for a tag that is not outstanding."""
        if multiple:
            if tag and tag not in self.unacknowledged:
                raise precondition_failed(f"unknown delivery tag {tag}")
            tags = list(takewhile(lambda number: not tag or number <= tag, self.unacknowledged))
        elif tag in self.unacknowledged:
            tags = [tag]
        else:
            raise precondition_failed(f"unknown delivery tag {tag}")
        return {number: self.unacknowledged.pop(number) for number in tags}

    def settle(self, taken: dict[int, Unacknowledged], how: str) -> None:
        """`how`: acknowledge, release or reject."""
        by_session: dict[int, tuple[QueueSession, list[tuple[int, int]]]] = {}
        for unacknowledged in taken.values():
            session = unacknowledged.session
            by_session.setdefault(id(session), (session, []))[1].append(unacknowledged.position)
            if unacknowledged.consumer is not None:
                unacknowledged.consumer.unacknowledged -= 1
        for session, positions in by_session.values():
            self.keep(getattr(session, how)(positions))
        self.wake()

    def keep(self, settling: asyncio.Future[None]) -> None:
        """`settled` waits for it."""
        if not settling.done():
            self._settling.add(settling)
        settling.add_done_callback(self._kept)

    def _kept(self, settling: asyncio.Future[None]) -> None:
        self._settling.discard(settling)
        if not settling.cancelled() and (problem := settling.exception()) is not None:
            sparing.warning(
                self.connection.host,
                "an acknowledgement is lost, the message is delivered again: %s",
                problem,
            )

    async def settled(self) -> None:
        while self._settling:
            await asyncio.wait(self._settling)

    def wake(self) -> None:
        """Consumers look at their credit again."""
        for consumer in self.consumers.values():
            consumer.changed.set()

    # Publishing

    def confirm(self, tag: int, ok: bool) -> None:
        assert self.confirms is not None
        self.confirms.stored(tag, ok)
        self.confirm_soon()

    def confirm_soon(self) -> None:
        """What is settled in one turn of the loop is told together."""
        if not self._confirming:
            self._confirming = True
            asyncio.get_running_loop().call_soon(self._confirm)

    def _confirm(self) -> None:
        self._confirming = False
        assert self.confirms is not None
        if self.closing:
            return
        for tag, multiple, ok in self.confirms.take():
            self.send("basic.ack" if ok else "basic.nack", delivery_tag=tag, multiple=multiple)

    def end_transaction(self) -> ChannelTransaction:
        """The transaction under way; another one begins."""
        transaction = self.transaction
        if transaction is None:
            raise precondition_failed("channel is not transactional")
        self.connection.server.unfinished.hold(self.connection, -transaction.bytes)
        self.transaction = ChannelTransaction()
        return transaction

    # The end

    async def cancel(self, consumers: Iterable[QueueConsumer]) -> None:
        for consumer in list(consumers):
            self.consumers.pop(consumer.tag, None)
            self.services.consumers.remove(self.declarer.vhost, consumer.queue.name, consumer)
            await consumer.stop()
            if not consumer.unacknowledged:
                await self.settled()
                await consumer.session.close()
            else:
                self._cancelled.append(consumer)
            await self.connection.server.consumer_left(self.declarer.vhost, consumer.queue)

    async def close_cancelled(self) -> None:
        """The sessions of cancelled consumers whose messages are all settled."""
        for consumer in [consumer for consumer in self._cancelled if not consumer.unacknowledged]:
            self._cancelled.remove(consumer)
            await consumer.session.close()

    async def close(self) -> None:
        """What is not acknowledged goes back to its queues, in its place."""
        self.closing = True
        self.end_replies()
        if self.transaction is not None:
            self.end_transaction()
        sessions = {id(consumer.session): consumer.session for consumer in self.consumers.values()}
        sessions |= {id(consumer.session): consumer.session for consumer in self._cancelled}
        sessions |= {id(session): session for session in self._getters.values()}
        for consumer in self.consumers.values():
            await consumer.stop()
        left = self.unacknowledged
        self.unacknowledged = {}
        self.settle(left, "release")
        await self.settled()
        for session in sessions.values():
            await session.close()
        await self.cancel(self.consumers.values())
