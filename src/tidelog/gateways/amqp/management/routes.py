"""The part of RabbitMQ's management API that tools read, and definitions, which they also write: paths below /api.

Rights are those of the cluster: DESCRIBE to read, ALTER to import definitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tidelog.gateways.amqp.management import definitions, listing
from tidelog.gateways.amqp.server import AmqpServer
from tidelog.gateways.http import rights
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices

READ, IMPORT = "/api/{rest:path}", "/api/definitions"

Listing = Callable[[AmqpServer, str | None], Awaitable[list[dict[str, Any]]]]

LISTINGS: dict[str, Listing] = {
    "queues": listing.queues,
    "exchanges": listing.exchanges,
    "bindings": listing.bindings,
    "connections": listing.connections,
    "channels": listing.channels,
    "consumers": listing.consumers,
    "vhosts": listing.vhosts,
}
NAMED = ("queues", "exchanges")


def routes(around: GatewayServices) -> list[BaseRoute]:
    def server() -> AmqpServer:
        if around.amqp is None:
            raise Problem(404, "this broker has no AMQP listener: add AMQP://host:5672 to listeners")
        return around.amqp

    async def read(request: Request) -> Response:
        rights.check(around, request, READ)
        path = request.scope.get("raw_path") or request.url.path.encode()
        segments = [unquote(part) for part in path.decode().partition("?")[0].strip("/").split("/")[1:]]
        return JsonAnswer(await _answer(server(), segments))

    async def write(request: Request) -> Response:
        rights.check(around, request, IMPORT)
        return JsonAnswer(await definitions.take(server(), await request.body()))

    return [Route(IMPORT, write, methods=["POST"]), Route(READ, read, methods=["GET"])]


async def _answer(server: AmqpServer, segments: list[str]) -> Any:
    match segments:
        case ["overview"]:
            return await listing.overview(server)
        case ["definitions"]:
            return definitions.export(server, None)
        case ["definitions", vhost]:
            return definitions.export(server, vhost)
        case ["health", "checks", "alarms" | "local-alarms"] if server.alarms.active:
            raise Problem(503, f"resource alarms are in effect: {server.alarms.reason}")
        case ["health", "checks", "alarms" | "local-alarms" | "virtual-hosts"]:
            return {"status": "ok"}
        case [kind] if kind in LISTINGS:
            return await LISTINGS[kind](server, None)
        case [kind, vhost] if kind in LISTINGS:
            return await LISTINGS[kind](server, vhost)
        case [kind, vhost, name] if kind in NAMED:
            for entry in await LISTINGS[kind](server, vhost):
                if entry["name"] == name:
                    return entry
        case [kind, vhost, name, "bindings"] if kind == "queues":
            return [
                binding
                for binding in await listing.bindings(server, vhost)
                if (binding["destination_type"], binding["destination"]) == ("queue", name)
            ]
    raise Problem(404, f"there is nothing at /api/{'/'.join(segments)}")
