"""The other brokers of the cluster, as this one reaches them: by node id, on the listener for brokers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog import errors
from tidelog.metadata.image.image import Image
from tidelog.metadata.records import Endpoint
from tidelog.net.network import Network
from tidelog.net.requester import R, Request, Requester, dial, shown
from tidelog.net.sasl import Login, authenticate
from tidelog.types import NodeId

SOFTWARE_VERSION = "broker"
CONNECT_MS_MAX = 1_000


class PeerSecurity(Protocol):
    """How a broker proves to others who it is, and checks who they are."""

    def tls(self) -> ssl.SSLContext | None:
        """None where brokers talk in plain text."""
        ...

    def login(self) -> Login | None:
        """None where the listener wants no login."""
        ...


class PlainPeers:
    """Neither TLS nor a login."""

    def tls(self) -> ssl.SSLContext | None:
        return None

    def login(self) -> Login | None:
        return None


class Peers:
    def __init__(
        self,
        node: NodeId,
        network: Network,
        image: Callable[[], Image],
        listener: str,
        security: PeerSecurity | None = None,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._security = security or PlainPeers()
        self._node = node
        self._network = network
        self._image = image
        self._listener = listener
        self._connections: dict[NodeId, Requester] = {}
        self._connecting: dict[NodeId, asyncio.Lock] = {}

    async def ask(
        self, node: NodeId, request: Request, response: type[R], *, timeout_ms: int | None = None
    ) -> R:
        """One question on the connection that all who ask this broker share."""
        connection = await self._shared(node)
        try:
            return await connection.ask(request, response, timeout_ms=timeout_ms)
        finally:
            if connection.broken is not None and self._connections.get(node) is connection:
                del self._connections[node]

    async def _shared(self, node: NodeId) -> Requester:
        async with self._connecting.setdefault(node, asyncio.Lock()):
            connection = self._connections.get(node)
            if connection is None or connection.broken is not None or self._moved(node, connection):
                if connection is not None:
                    connection.close()
                connection = self._connections[node] = await self.connect(node)
            return connection

    def _moved(self, node: NodeId, connection: Requester) -> bool:
        endpoint = self._endpoint(node)
        return endpoint is None or connection.peer != shown(endpoint.host, endpoint.port)

    def _endpoint(self, node: NodeId) -> Endpoint | None:
        broker = self._image().brokers.get(node)
        return None if broker is None else broker.endpoint(self._listener) or broker.endpoints[0]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def connect(self, node: NodeId, client_id: str | None = None) -> Requester:
        """A connection of the caller's own; he closes it."""
        endpoint = self._endpoint(node)
        if endpoint is None:
            raise errors.BrokerNotAvailable(f"broker {node} is not registered")
        login = self._security.login()
        return await dial(
            self._network,
            endpoint.host,
            endpoint.port,
            client_id or f"broker-{self._node}",
            SOFTWARE_VERSION,
            connect_timeout_ms=CONNECT_MS_MAX,
            request_timeout_ms=self._request_timeout_ms,
            tls=self._security.tls(),
            authenticate=None if login is None else partial(authenticate, login=login),
        )
