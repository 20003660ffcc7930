"""The class basic without publish: qos, consume, cancel, get, ack, nack, reject, recover; and channel.flow."""

from __future__ import annotations

import secrets
from typing import Any

from tidelog import errors
from tidelog.gateways.amqp.channel import Channel, message_of_delivery
from tidelog.gateways.amqp.consumer import QueueConsumer
from tidelog.gateways.amqp.direct_reply import REPLY_TO
from tidelog.gateways.amqp.methods.queue import readable
from tidelog.gateways.amqp.replies import ConnectionFault, access_refused, not_allowed, not_found
from tidelog.gateways.amqp.topology.arguments import check_consumer_arguments

CONSUMERS_MAX = 1000
Fields = dict[str, Any]


def qos(channel: Channel, fields: Fields) -> None:
    if fields["prefetch_size"]:
        raise ConnectionFault(540, f"prefetch_size!=0 ({fields['prefetch_size']})")
    if fields["global"]:
        channel.channel_prefetch = fields["prefetch_count"]
        channel.wake()
    else:
        channel.prefetch = fields["prefetch_count"]
    channel.send("basic.qos-ok")


def _consume_replies(channel: Channel, fields: Fields) -> None:
    tag = fields["consumer_tag"] or _new_tag()
    if tag in channel.consumers:
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    channel.reply_name = channel.services.replies.open(channel, tag, fields["no_ack"])
    channel.reply_tag = tag
    if not fields["no_wait"]:
        channel.send("basic.consume-ok", consumer_tag=tag)


def _new_tag() -> str:
    return f"amq.ctag-{secrets.token_urlsafe(16)}"


async def consume(channel: Channel, fields: Fields) -> None:
    declarer, services = channel.declarer, channel.services
    if fields["queue"] == REPLY_TO:
        _consume_replies(channel, fields)
        return
    queue = readable(channel, fields["queue"])
    check_consumer_arguments(queue, declarer.vhost, fields["arguments"])
    if len(channel.consumers) >= CONSUMERS_MAX:
        raise not_allowed(f"reached maximum ({CONSUMERS_MAX}) of consumers per channel")
    tag = fields["consumer_tag"] or _new_tag()
    if tag in channel.consumers or tag == channel.reply_tag:
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    others = services.consumers.of(declarer.vhost, queue.name)
    elsewhere = channel.connection.server.uses_elsewhere(declarer.vhost, queue)
    used = bool(others or elsewhere)
    if (used and fields["exclusive"]) or any(elsewhere) or any(other.exclusive for other in others):
        raise access_refused(f"queue '{queue.name}' in vhost '{declarer.vhost}' in exclusive use")
    try:
        session = services.broker.queues.session(queue.topic, queue.topic)
    except errors.UnknownTopicOrPartition:
        raise not_found("queue", queue.name, declarer.vhost) from None
    consumer = QueueConsumer(
        tag,
        queue,
        session,
        channel,
        no_ack=fields["no_ack"],
        exclusive=fields["exclusive"],
        prefetch=channel.prefetch,
        arguments=fields["arguments"],
        settled=channel.keep,
    )
    channel.consumers[tag] = consumer
    await channel.connection.server.consumer_came(declarer.vhost, queue, consumer)
    if not fields["no_wait"]:
        channel.send("basic.consume-ok", consumer_tag=tag)
    consumer.start()
    if consumer.can_take():
        channel.ready(consumer)


async def cancel(channel: Channel, fields: Fields) -> None:
    consumer = channel.consumers.get(fields["consumer_tag"])
    if consumer is not None:
        await channel.cancel([consumer])
    elif fields["consumer_tag"] == channel.reply_tag:
        channel.end_replies()
    if not fields["no_wait"]:
        channel.send("basic.cancel-ok", consumer_tag=fields["consumer_tag"])


async def get(channel: Channel, fields: Fields) -> None:
    declarer, services = channel.declarer, channel.services
    queue = readable(channel, fields["queue"])
    channel.connection.server.used(declarer.vhost, queue)
    elsewhere = channel.connection.server.uses_elsewhere(declarer.vhost, queue)
    here = services.consumers.of(declarer.vhost, queue.name)
    if any(elsewhere) or any(consumer.exclusive for consumer in here):
        raise access_refused(f"queue '{queue.name}' in vhost '{declarer.vhost}' in exclusive use")
    taken = await channel.get(queue, fields["no_ack"])
    if taken is None:
        channel.send("basic.get-empty")
        return
    tag, delivery = taken
    depth = await services.broker.queues.depth(queue.topic, queue.topic)
    message = message_of_delivery(queue, delivery)
    channel.send_content(
        message, "basic.get-ok", delivery_tag=tag, redelivered=delivery.redelivered, message_count=depth.ready
    )


def ack(channel: Channel, fields: Fields) -> None:
    _settle(channel, fields["delivery_tag"], fields["multiple"], "acknowledge")


def nack(channel: Channel, fields: Fields) -> None:
    how = "release" if fields["requeue"] else "reject"
    _settle(channel, fields["delivery_tag"], fields["multiple"], how)


def reject(channel: Channel, fields: Fields) -> None:
    _settle(channel, fields["delivery_tag"], False, "release" if fields["requeue"] else "reject")


def _settle(channel: Channel, tag: int, multiple: bool, how: str) -> None:
    taken = channel.take_unacknowledged(tag, multiple)
    if channel.transaction is not None and taken:
        channel.transaction.settlements.append((taken, how))
    else:
        channel.settle(taken, how)


def recover(channel: Channel, fields: Fields) -> None:
    recover_async(channel, fields)
    channel.send("basic.recover-ok")


def recover_async(channel: Channel, fields: Fields) -> None:
    if not fields["requeue"]:
        raise ConnectionFault(540, "requeue=false")
    channel.settle(channel.take_unacknowledged(0, True), "release")


def flow(channel: Channel, fields: Fields) -> None:
    if not fields["active"]:
        raise ConnectionFault(540, "active=false")
    channel.send("channel.flow-ok", active=True)
