"""Definitions: the durable exchanges, queues and bindings as RabbitMQ's JSON, exported and imported."""

from __future__ import annotations

import json
from typing import Any

import tidelog
from tidelog.gateways.amqp.management.listing import hosts
from tidelog.gateways.amqp.replies import AmqpError
from tidelog.gateways.amqp.server import AmqpServer
from tidelog.gateways.amqp.topology.declarations import Declarer
from tidelog.gateways.amqp.topology.model import (
    DEFAULT_VHOST,
    EXCHANGE,
    PREDECLARED,
    QUEUE,
    AmqpExchange,
    AmqpQueue,
    Binding,
)
from tidelog.gateways.http.problem import Problem

LEFT_OUT = ("users", "permissions", "topic_permissions", "policies", "parameters", "global_parameters")
_PREDECLARED = frozenset(exchange.name for exchange in PREDECLARED)


def export(server: AmqpServer, only: str | None) -> dict[str, Any]:
    queues, exchanges, bindings = [], [], []
    for vhost in hosts(server, only):
        kept = {name for name, queue in vhost.queues.items() if queue.durable and not queue.exclusive}
        for name in sorted(kept):
            queue = vhost.queues[name]
            queues.append(
                {
                    "name": name,
                    "vhost": vhost.name,
                    "durable": True,
                    "auto_delete": queue.auto_delete,
                    "arguments": dict(queue.arguments),
                }
            )
        for exchange in vhost.exchanges.values():
            if exchange.durable and exchange.name not in _PREDECLARED:
                exchanges.append(
                    {
                        "name": exchange.name,
                        "vhost": vhost.name,
                        "type": exchange.kind,
                        "durable": True,
                        "auto_delete": exchange.auto_delete,
                        "internal": exchange.internal,
                        "arguments": dict(exchange.arguments),
                    }
                )
        for binding in vhost.bindings.values():
            if binding.kind == EXCHANGE or binding.destination in kept:
                bindings.append(
                    {
                        "source": binding.source,
                        "vhost": vhost.name,
                        "destination": binding.destination,
                        "destination_type": "queue" if binding.kind == QUEUE else "exchange",
                        "routing_key": binding.routing_key,
                        "arguments": dict(binding.arguments),
                    }
                )
    return {
        "product_name": "Tidelog",
        "product_version": tidelog.__version__,
        "vhosts": [{"name": vhost.name} for vhost in hosts(server, only)],
        "users": [],
        "permissions": [],
        "policies": [],
        "parameters": [],
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }


async def take(server: AmqpServer, body: bytes) -> dict[str, Any]:
    """Declares everything, in this order: exchanges, queues, bindings.  What is there already must be the same.  Answers how
    much was declared, and what of the document is not for this API: users and permissions are Kafka's here."""
    try:
        given = json.loads(body)
        declarations = server.services.declarations
        counts = {}
        for kind, declare in (
            ("exchanges", lambda entry, by: declarations.declare_exchange(by, _exchange(entry))),
            ("queues", lambda entry, by: declarations.declare_queue(by, _queue(entry), named_here=False)),
            ("bindings", lambda entry, by: declarations.bind(by, _binding(entry))),
        ):
            entries = given.get(kind, [])
            for entry in entries:
                await declare(entry, _declarer(server, entry))
            counts[kind] = len(entries)
        left_out = {name: len(given[name]) for name in LEFT_OUT if given.get(name)}
    except AmqpError as problem:
        raise Problem(400, problem.reply_text) from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Problem(400, f"these are no definitions: {type(problem).__name__} {problem}") from None
    return {"imported": counts, "not_imported": left_out}


def _declarer(server: AmqpServer, entry: dict[str, Any]) -> Declarer:
    vhost = entry.get("vhost", DEFAULT_VHOST)
    tenant = None if vhost == DEFAULT_VHOST else vhost
    if tenant is not None and server.services.broker.gate.tenants.named(tenant) is None:
        raise Problem(400, f"virtual host {vhost!r} does not exist: create the tenant first")
    return Declarer("", vhost, tenant)


def _exchange(entry: dict[str, Any]) -> AmqpExchange:
    return AmqpExchange(
        str(entry["name"]),
        str(entry["type"]),
        bool(entry.get("durable", True)),
        bool(entry.get("auto_delete", False)),
        bool(entry.get("internal", False)),
        dict(entry.get("arguments", {})),
    )


def _queue(entry: dict[str, Any]) -> AmqpQueue:
    return AmqpQueue(
        str(entry["name"]),
        "",
        bool(entry.get("durable", True)),
        "",
        bool(entry.get("auto_delete", False)),
        dict(entry.get("arguments", {})),
    )


def _binding(entry: dict[str, Any]) -> Binding:
    kind = QUEUE if entry.get("destination_type", "queue") == "queue" else EXCHANGE
    return Binding(
        str(entry["source"]),
        kind,
        str(entry["destination"]),
        str(entry.get("routing_key", "")),
        dict(entry.get("arguments", {})),
    )
