"""One broker's metadata, asked through the wire: requests and answers pass through their bytes."""

from __future__ import annotations

import inspect
from dataclasses import fields
from importlib import import_module
from random import Random
from typing import Any

from tests.unit.metadata.cluster import NODE, Node
from tidelog.broker.access import Access
from tidelog.broker.gate import Gate
from tidelog.broker.routes import ROUTES
from tidelog.broker.services import ANONYMOUS, Context, Services
from tidelog.config import BrokerConfig
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.testing import VirtualClock


class Admin:
    def __init__(self, node: Node, services: Services) -> None:
        self.node = node
        self.session = services.gate.open("PLAINTEXT", "127.0.0.1:1")
        self.session.client_id = "test"
        self._services = services

    @staticmethod
    async def start(random: Random, given: dict[str, str] | None = None) -> Admin:
        node = await Node.start(random, BrokerConfig.of(given or {}))
        controller = node.controller
        access = Access(lambda: controller.image, controller.config, random)
        here: dict[str, Any] = {
            "node_id": NODE,
            "clock": VirtualClock(),
            "random": random,
            "config": controller.config,
            "image": lambda: controller.image,
            "controller": controller,
            "access": access,
            "producer_ids": ProducerIdAllocator(node.store),
            "gate": Gate(lambda: access.authorizer),
        }
        # What no admin request may need: data, connections, coordinators.
        nobody: dict[str, Any] = {one.name: None for one in fields(Services) if one.name not in here}
        services = Services(**here, **nobody)
        return Admin(node, services)

    async def ask(self, request: Any, version: int | None = None, principal: str = ANONYMOUS) -> Any:
        """The answer in the newest version, or in the one asked for."""
        route = ROUTES[request.API_KEY]
        version = route.max_version if version is None else version
        message = import_module(f"tidelog.wire.messages.{route.message}")
        handlers = import_module(f"tidelog.broker.handlers.{route.module}")
        arrived = type(request).decode(request.encode(version), version)
        self.session.principal = principal
        context = Context(self._services, version, self.session)
        answer = getattr(handlers, route.function)(arrived, context)
        if inspect.isawaitable(answer):
            answer = await answer
        return getattr(message, f"{route.name}Response").decode(answer.encode(version), version)


def versions(api_key: int) -> range:
    return range(ROUTES[api_key].min_version, ROUTES[api_key].max_version + 1)
