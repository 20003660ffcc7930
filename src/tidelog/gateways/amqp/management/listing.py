"""What the management API lists, in RabbitMQ's words.  Connections, channels and consumers are those of this broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tidelog
from tidelog import errors
from tidelog.gateways.amqp.connection import AmqpConnection
from tidelog.gateways.amqp.server import AmqpServer
from tidelog.gateways.amqp.topology.arguments import TYPE
from tidelog.gateways.amqp.topology.model import DEFAULT_VHOST, QUEUE, Binding
from tidelog.gateways.amqp.topology.vhost import AmqpVhost

Entries = list[dict[str, Any]]


def hosts(server: AmqpServer, only: str | None) -> Iterator[AmqpVhost]:
    """Virtual hosts that something was declared in, and `/`."""
    topology = server.services.topology
    topology.vhost(DEFAULT_VHOST)
    return (vhost for name, vhost in sorted(topology.vhosts.items()) if only in (None, name))


async def overview(server: AmqpServer) -> dict[str, Any]:
    listed = await queues(server, None)
    return {
        "product_name": "Tidelog",
        "product_version": tidelog.__version__,
        "management_version": tidelog.__version__,
        "rabbitmq_version": "3.10.8",  # what the protocol is compatible with: tools look at it
        "cluster_name": server.services.cluster_name,
        "node": f"tidelog@{server.services.broker.node_id}",
        "object_totals": {
            "queues": len(listed),
            "exchanges": sum(len(vhost.exchanges) for vhost in hosts(server, None)),
            "connections": len(server.connections),
            "channels": sum(len(connection.channels) for connection in server.connections),
            "consumers": sum(entry["consumers"] for entry in listed),
        },
        "queue_totals": {
            name: sum(entry[name] for entry in listed)
            for name in ("messages", "messages_ready", "messages_unacknowledged")
        },
    }


async def vhosts(server: AmqpServer, only: str | None) -> Entries:
    return [{"name": vhost.name} for vhost in hosts(server, only)]


async def queues(server: AmqpServer, only: str | None) -> Entries:
    entries = []
    broker = server.services.broker
    for vhost in hosts(server, only):
        for queue in list(vhost.queues.values()):
            try:
                depth = await broker.queues.depth(queue.topic, queue.topic)
            except errors.TidelogError:
                continue  # it is being deleted, or has no leader now
            here = server.services.consumers.of(vhost.name, queue.name)
            partition = broker.image().partition(queue.topic, 0)
            entries.append(
                {
                    "name": queue.name,
                    "vhost": vhost.name,
                    "type": queue.arguments.get(TYPE, "classic"),
                    "durable": queue.durable,
                    "exclusive": bool(queue.exclusive),
                    "auto_delete": queue.auto_delete,
                    "arguments": dict(queue.arguments),
                    "node": f"tidelog@{None if partition is None else partition.leader}",
                    "state": "running",
                    "messages": depth.ready + depth.acquired,
                    "messages_ready": depth.ready,
                    "messages_unacknowledged": depth.acquired,
                    "consumers": len(here) + len(server.uses_elsewhere(vhost.name, queue)),
                    "topic": queue.topic,
                }
            )
    return entries


async def exchanges(server: AmqpServer, only: str | None) -> Entries:
    return [
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.kind,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": dict(exchange.arguments),
        }
        for vhost in hosts(server, only)
        for exchange in vhost.exchanges.values()
    ]


async def bindings(server: AmqpServer, only: str | None) -> Entries:
    """With those of the default exchange, which every queue has."""
    entries = []
    for vhost in hosts(server, only):
        implied = [Binding("", QUEUE, queue, queue) for queue in vhost.queues]
        for binding in (*implied, *vhost.bindings.values()):
            entries.append(
                {
                    "source": binding.source,
                    "vhost": vhost.name,
                    "destination": binding.destination,
                    "destination_type": "queue" if binding.kind == QUEUE else "exchange",
                    "routing_key": binding.routing_key,
                    "arguments": dict(binding.arguments),
                    "properties_key": binding.properties_key,
                }
            )
    return entries


def _connections(server: AmqpServer, only: str | None) -> Iterator[AmqpConnection]:
    opened = (connection for connection in server.connections if connection.opened)
    return (connection for connection in opened if only in (None, connection.declarer.vhost))


async def connections(server: AmqpServer, only: str | None) -> Entries:
    return [
        {
            "name": connection.session.peer,
            "vhost": connection.declarer.vhost,
            "user": connection.user,
            "protocol": "AMQP 0-9-1",
            "ssl": connection.session.protocol == "AMQPS",
            "peer_host": connection.host,
            "channels": len(connection.channels),
            "channel_max": connection.channels_max,
            "frame_max": connection.frame_bytes_max,
            "timeout": connection.heartbeat_s,
            "client_properties": {
                name: value for name, value in connection.client_properties.items() if isinstance(value, str)
            },
            "state": connection.pacing.state,
        }
        for connection in _connections(server, only)
    ]


async def channels(server: AmqpServer, only: str | None) -> Entries:
    return [
        {
            "name": f"{connection.session.peer} ({channel.number})",
            "number": channel.number,
            "vhost": connection.declarer.vhost,
            "user": connection.user,
            "consumer_count": len(channel.consumers),
            "messages_unacknowledged": len(channel.unacknowledged),
            "messages_unconfirmed": 0 if channel.confirms is None else channel.confirms.outstanding,
            "prefetch_count": channel.prefetch,
            "global_prefetch_count": channel.channel_prefetch,
            "confirm": channel.confirms is not None,
            "transactional": channel.transaction is not None,
        }
        for connection in _connections(server, only)
        for channel in connection.channels.values()
    ]


async def consumers(server: AmqpServer, only: str | None) -> Entries:
    return [
        {
            "consumer_tag": consumer.tag,
            "queue": {"name": consumer.queue.name, "vhost": connection.declarer.vhost},
            "channel_details": {"name": f"{connection.session.peer} ({channel.number})"},
            "ack_required": not consumer.no_ack,
            "exclusive": consumer.exclusive,
            "arguments": dict(consumer.arguments),
            "prefetch_count": consumer.prefetch,
            "active": server.active.allows(connection.declarer.vhost, consumer),
        }
        for connection in _connections(server, only)
        for channel in connection.channels.values()
        for consumer in channel.consumers.values()
    ]
