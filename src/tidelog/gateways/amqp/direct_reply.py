"""Direct reply-to: answers that go straight to the channel of the client that asked, through no queue.

A client consumes from `amq.rabbitmq.reply-to` and publishes with that in `reply_to`, which the broker replaces by a name of
the channel's own.  Whoever publishes to this name on the default exchange reaches the channel while it is open, on this
broker.  A client that does not read its answers loses them: nothing is kept for it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tidelog.gateways.amqp.replies import precondition_failed

if TYPE_CHECKING:
    from tidelog.gateways.amqp.channel import Channel
    from tidelog.gateways.amqp.message import AmqpMessage

REPLY_TO = "amq.rabbitmq.reply-to"


class DirectReplies:
    def __init__(self) -> None:
        self._channels: dict[str, tuple[Channel, str]] = {}

    def open(self, channel: Channel, tag: str, no_ack: bool) -> str:
        """The channel's own name."""
        if not no_ack:
            raise precondition_failed("reply consumer cannot acknowledge")
        if channel.reply_name:
            raise precondition_failed("reply consumer already set")
        name = f"{REPLY_TO}.{secrets.token_urlsafe(24)}"
        self._channels[name] = channel, tag
        return name

    def close(self, name: str) -> None:
        self._channels.pop(name, None)

    def is_open(self, name: str) -> bool:
        return name in self._channels

    def deliver(self, message: AmqpMessage) -> bool:
        """False when there is nobody of this name any more."""
        addressee = self._channels.get(message.routing_key)
        if addressee is None:
            return False
        channel, tag = addressee
        if channel.connection.writable:
            channel.deliver_reply(message, tag)
        return True
