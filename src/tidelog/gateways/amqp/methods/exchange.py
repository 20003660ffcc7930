"""The class exchange: declare, delete, bind, unbind."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tidelog.gateways.amqp.changes import binding_changing, changing
from tidelog.gateways.amqp.channel import Channel
from tidelog.gateways.amqp.replies import access_refused, not_found
from tidelog.gateways.amqp.rights import CONFIGURE, DELETE, READ, WRITE
from tidelog.gateways.amqp.topology.checks import DEFAULT_EXCHANGE, PREDECLARED_NAMES
from tidelog.gateways.amqp.topology.model import EXCHANGE, AmqpExchange, Binding
from tidelog.gateways.amqp.topology.vhost import ALTERNATE

Fields = dict[str, Any]


async def declare(channel: Channel, fields: Fields) -> None:
    name = fields["exchange"]
    if fields["passive"]:
        if name and name not in PREDECLARED_NAMES and not channel.rights.sees_exchange(name):
            raise not_found("exchange", name, channel.declarer.vhost)
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
        is_new = name not in channel.services.declarations.vhost(channel.declarer).exchanges
        change = changing(channel, "DECLARE_EXCHANGE", "EXCHANGE", name, type=fields["type"])
        async with change if is_new else nullcontext():
            await channel.services.declarations.declare_exchange(channel.declarer, exchange)
    if not fields["no_wait"]:
        channel.send("exchange.declare-ok")


async def delete(channel: Channel, fields: Fields) -> None:
    channel.rights.check_exchange(DELETE, fields["exchange"])
    name, declarations = fields["exchange"], channel.services.declarations
    is_there = name in declarations.vhost(channel.declarer).exchanges
    async with changing(channel, "DELETE_EXCHANGE", "EXCHANGE", name) if is_there else nullcontext():
        await declarations.delete_exchange(channel.declarer, name, fields["if_unused"])
    if not fields["no_wait"]:
        channel.send("exchange.delete-ok")


def _binding(channel: Channel, fields: Fields) -> Binding:
    source, destination = fields["source"], fields["destination"]
    channel.rights.check_exchange(WRITE, destination)
    channel.rights.check_exchange(READ, source)
    return Binding(source, EXCHANGE, destination, fields["routing_key"], fields["arguments"])


async def bind(channel: Channel, fields: Fields) -> None:
    binding = _binding(channel, fields)
    async with binding_changing(channel, "BIND", binding):
        await channel.services.declarations.bind(channel.declarer, binding)
    if not fields["no_wait"]:
        channel.send("exchange.bind-ok")


async def unbind(channel: Channel, fields: Fields) -> None:
    binding = _binding(channel, fields)
    async with binding_changing(channel, "UNBIND", binding):
        await channel.services.declarations.unbind(channel.declarer, binding)
    if not fields["no_wait"]:
        channel.send("exchange.unbind-ok")
