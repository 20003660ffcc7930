"""The class queue: declare, bind, unbind, purge, delete."""

from __future__ import annotations

from typing import Any

from tidelog.gateways.amqp.changes import binding_changing, changing
from tidelog.gateways.amqp.channel import Channel
from tidelog.gateways.amqp.replies import not_found, precondition_failed
from tidelog.gateways.amqp.rights import CONFIGURE, DELETE, READ, WRITE
from tidelog.gateways.amqp.topology.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY
from tidelog.gateways.amqp.topology.checks import check_access
from tidelog.gateways.amqp.topology.model import QUEUE, AmqpQueue, Arguments, Binding

Fields = dict[str, Any]


def named(channel: Channel, name: str) -> str:
    """An empty name stands for the queue that was last declared on the channel."""
    if name:
        return name
    if not channel.last_queue:
        raise not_found("queue", "", channel.declarer.vhost)
    return channel.last_queue


def readable(channel: Channel, name: str) -> AmqpQueue:
    """The right comes first: a queue that a client may not read is refused as one that is not there."""
    name = named(channel, name)
    channel.rights.check_queue(READ, name, _declared(channel, name))
    return channel.services.declarations.queue(channel.declarer, name)


def _declared(channel: Channel, name: str) -> AmqpQueue | None:
    return channel.services.declarations.vhost(channel.declarer).queues.get(name)


async def declare(channel: Channel, fields: Fields) -> None:
    declarations, declarer = channel.services.declarations, channel.declarer
    if fields["passive"] and channel.services.replies.is_open(fields["queue"]):
        channel.send("queue.declare-ok", queue=fields["queue"], consumer_count=1)
        return
    if fields["passive"]:
        name = named(channel, fields["queue"])
        if not channel.rights.sees_queue(name, _declared(channel, name)):
            raise not_found("queue", name, declarer.vhost)
        queue = declarations.queue(declarer, name)
    else:
        queue = await _declare(channel, fields)
    channel.last_queue = queue.name
    server = channel.connection.server
    server.used(declarer.vhost, queue)
    if not fields["no_wait"]:
        await channel.settled()
        depth = await channel.services.broker.queues.depth(queue.topic, queue.topic)
        here = channel.services.consumers.of(declarer.vhost, queue.name)
        consumers = len(here) + len(server.uses_elsewhere(declarer.vhost, queue))
        channel.send(
            "queue.declare-ok", queue=queue.name, message_count=depth.ready, consumer_count=consumers
        )


async def _declare(channel: Channel, fields: Fields) -> AmqpQueue:
    declarations, declarer = channel.services.declarations, channel.declarer
    given, arguments = fields["queue"], fields["arguments"]
    name = given or declarations.new_queue_name()
    channel.rights.check_queue(CONFIGURE, name)
    wanted = AmqpQueue(
        name,
        "",
        fields["durable"],
        declarer.connection if fields["exclusive"] else "",
        fields["auto_delete"],
        arguments,
    )
    if _declared(channel, name) is not None:
        return await declarations.declare_queue(declarer, wanted, named_here=not given)
    _check_dead_letters(channel, name, arguments)
    channel.rights.check_topic_of(name)
    async with changing(channel, "DECLARE_QUEUE", "QUEUE", name, arguments=dict(arguments)):
        return await declarations.declare_queue(declarer, wanted, named_here=not given)


def _check_dead_letters(channel: Channel, name: str, arguments: Arguments) -> None:
    """As in RabbitMQ: what nobody takes from the queue must not get where its owner may not write."""
    exchange, key = arguments.get(DEAD_LETTER_EXCHANGE), arguments.get(DEAD_LETTER_KEY)
    if not isinstance(exchange, str):
        return
    channel.rights.check_queue(READ, name)
    if exchange == "" and isinstance(key, str):
        channel.rights.check_queue(WRITE, key)
    else:
        channel.rights.check_exchange(WRITE, exchange)


def _binding(channel: Channel, fields: Fields) -> Binding:
    name = named(channel, fields["queue"])
    routing_key = fields["routing_key"]
    if not routing_key and not fields["queue"]:
        routing_key = name
    channel.rights.check_queue(WRITE, name, _declared(channel, name))
    channel.rights.check_exchange(READ, fields["exchange"])
    return Binding(fields["exchange"], QUEUE, name, routing_key, fields["arguments"])


async def bind(channel: Channel, fields: Fields) -> None:
    binding = _binding(channel, fields)
    async with binding_changing(channel, "BIND", binding):
        await channel.services.declarations.bind(channel.declarer, binding)
    if not fields["no_wait"]:
        channel.send("queue.bind-ok")


async def unbind(channel: Channel, fields: Fields) -> None:
    binding = _binding(channel, fields)
    queue = _declared(channel, binding.destination)
    if queue is not None:
        check_access(queue, channel.declarer.connection, channel.declarer.vhost)
    async with binding_changing(channel, "UNBIND", binding):
        await channel.services.declarations.unbind(channel.declarer, binding)
    channel.send("queue.unbind-ok")


async def purge(channel: Channel, fields: Fields) -> None:
    queue = readable(channel, fields["queue"])
    await channel.settled()
    async with changing(channel, "PURGE_QUEUE", "QUEUE", queue.name):
        count = await channel.services.broker.queues.purge(queue.topic, queue.topic)
    if not fields["no_wait"]:
        channel.send("queue.purge-ok", message_count=count)


async def delete(channel: Channel, fields: Fields) -> None:
    declarer = channel.declarer
    name = named(channel, fields["queue"])
    queue = _declared(channel, name)
    channel.rights.check_queue(DELETE, name, queue)
    count = 0
    if queue is not None:
        check_access(queue, declarer.connection, declarer.vhost)
        await channel.settled()
        count = (await channel.services.broker.queues.depth(queue.topic, queue.topic)).ready
        here = channel.services.consumers.of(declarer.vhost, name)
        elsewhere = channel.connection.server.uses_elsewhere(declarer.vhost, queue)
        if fields["if_unused"] and (here or elsewhere):
            raise precondition_failed(f"queue '{name}' in vhost '{declarer.vhost}' in use")
        if fields["if_empty"] and count:
            raise precondition_failed(f"queue '{name}' in vhost '{declarer.vhost}' not empty")
        async with changing(channel, "DELETE_QUEUE", "QUEUE", name):
            await channel.connection.server.delete_queue(declarer.vhost, queue)
    if not fields["no_wait"]:
        channel.send("queue.delete-ok", message_count=count)
