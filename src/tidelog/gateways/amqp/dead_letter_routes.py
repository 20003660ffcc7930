"""Sends dead letters of the queues that this broker leads where their queues say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog import errors
from tidelog.broker.services import Services
from tidelog.gateways.amqp.dead_letters import (
    DELIVERY_LIMIT,
    EXPIRED,
    REJECTED,
    TOO_LONG,
    dead_letter,
    routed,
)
from tidelog.gateways.amqp.message import (
    AmqpMessage,
    headers_of_record,
    message_of_record,
    partition_of_message,
)
from tidelog.gateways.amqp.topology.model import AmqpQueue
from tidelog.gateways.amqp.topology.store import TopologyStore
from tidelog.groups.share.dead_letters import DeadLetter, DeadLetterRoute
from tidelog.groups.share.in_flight import LetterReason
from tidelog.queues.message import QueueMessage

REASONS = {
    LetterReason.REJECTED: REJECTED,
    LetterReason.EXPIRED: EXPIRED,
    LetterReason.TOO_MANY: TOO_LONG,
    LetterReason.USED_UP: DELIVERY_LIMIT,
}


class DeadLetterRoutes:
    def __init__(self, topology: TopologyStore, broker: Services) -> None:
        self._topology = topology
        self._broker = broker

    def of(self, topic: str, group: str) -> DeadLetterRoute | None:
        """For the queue core: None for what is no queue of AMQP, or is not read as one."""
        if topic != group or self._topology.of_topic(topic) is None:
            return None
        return self._route

    async def _route(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            named = self._topology.of_topic(letter.topic)
            if named is None:
                continue
            vhost, queue = named
            record = letter.record
            message = message_of_record(queue.name, record.key, record.value, record.headers)
            await self.send(vhost, queue, message, REASONS[letter.reason])

    async def send(self, vhost: str, queue: AmqpQueue, message: AmqpMessage, reason: str) -> None:
        """Returns when every queue that the letter goes to has it, or has refused it because it is full."""
        letter = dead_letter(message, queue, reason, self._broker.clock.now_ms())
        if letter is None:
            return
        stored = [
            self._broker.queues.publish(
                target.topic,
                QueueMessage(letter.body, headers=headers_of_record(letter, target.name)),
                partition_of_message(target, letter),
            )
            for target in routed(self._topology.vhost(vhost), letter, reason)
        ]
        for outcome in await asyncio.gather(*stored, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, errors.PolicyViolation):
                raise outcome
