"""The class exchange: declare, delete, bind, unbind."""

from __future__ import annotations

from typing import Any

from tidelog.gateways.amqp.channel import Channel
from tidelog.gateways.amqp.replies import access_refused
from tidelog.gateways.amqp.rights import CONFIGURE, DELETE, READ, WRITE
from tidelog.gateways.amqp.topology.checks import DEFAULT_EXCHANGE
from tidelog.gateways.amqp.topology.model import EXCHANGE, AmqpExchange, Binding
from tidelog.gateways.amqp.topology.vhost import ALTERNATE

Fields = dict[str, Any]


async def declare(channel: Channel, fields: Fields) -> None:
    name = fields["exchange"]
    if fields["passive"]:
        channel.services.declarations.exchange(channel.declarer, name)
    else:
        if not name:
            raise access_refused(DEFAULT_EXCHANGE)
        channel.rights.check_exchange(CONFIGURE, name)
        alternate = fields["arguments"].get(ALTERNATE)
        if isinstance(alternate, str):
            channel.rights.check_exchange(READ, name)
            channel.rights.check_exchange(WRITE, alternate)
        exchange = AmqpExchange(
            name,
            fields["type"],
            fields["durable"],
            fields["auto_delete"],
            fields["internal"],
            fields["arguments"],
        )
        await channel.services.declarations.declare_exchange(channel.declarer, exchange)
    if not fields["no_wait"]:
        channel.send("exchange.declare-ok")


async def delete(channel: Channel, fields: Fields) -> None:
    channel.rights.check_exchange(DELETE, fields["exchange"])
    await channel.services.declarations.delete_exchange(
        channel.declarer, fields["exchange"], fields["if_unused"]
    )
    if not fields["no_wait"]:
        channel.send("exchange.delete-ok")


def _binding(channel: Channel, fields: Fields) -> Binding:
    source, destination = fields["source"], fields["destination"]
    channel.rights.check_exchange(WRITE, destination)
    channel.rights.check_exchange(READ, source)
    return Binding(source, EXCHANGE, destination, fields["routing_key"], fields["arguments"])


async def bind(channel: Channel, fields: Fields) -> None:
    await channel.services.declarations.bind(channel.declarer, _binding(channel, fields))
    if not fields["no_wait"]:
        channel.send("exchange.bind-ok")


async def unbind(channel: Channel, fields: Fields) -> None:
    await channel.services.declarations.unbind(channel.declarer, _binding(channel, fields))
    if not fields["no_wait"]:
        channel.send("exchange.unbind-ok")
