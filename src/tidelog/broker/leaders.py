"""Where the leaders are that an answer names, so that a client that asked the wrong broker need not ask for them first."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog._speed.wire.produce_frames import Endpoint
from tidelog.broker.services import Services
from tidelog.types import NodeId


def endpoints_of(nodes: Iterable[int], services: Services, listener: str) -> list[Endpoint]:
    """As the client sees them that has asked on this listener."""
    brokers = services.image().brokers
    endpoints: list[Endpoint] = []
    for node in nodes:
        broker = brokers.get(NodeId(node))
        endpoint = None if broker is None else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            endpoints.append((node, endpoint.host, endpoint.port, broker.rack))
    return endpoints
