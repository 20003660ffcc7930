"""The other brokers of the cluster, as this one reaches them: by node id, on the listener for brokers."""

from __future__ import annotations

from collections.abc import Callable

from tidelog import errors
from tidelog.metadata.image import Image
from tidelog.net.network import Network
from tidelog.net.requester import Requester, dial
from tidelog.types import NodeId

SOFTWARE_VERSION = "broker"
CONNECT_MS_MAX = 1_000
REQUEST_MS_MAX = 30_000


class Peers:
    def __init__(self, node: NodeId, network: Network, image: Callable[[], Image], listener: str) -> None:
        self._node = node
        self._network = network
        self._image = image
        self._listener = listener

    async def connect(self, node: NodeId) -> Requester:
        """A connection of the caller's own; he closes it."""
        broker = self._image().brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(self._listener) or broker.endpoints[0]
        if endpoint is None:
            raise errors.BrokerNotAvailable(f"broker {node} is not registered")
        return await dial(
            self._network,
            endpoint.host,
            endpoint.port,
            f"broker-{self._node}",
            SOFTWARE_VERSION,
            connect_timeout_ms=CONNECT_MS_MAX,
            request_timeout_ms=REQUEST_MS_MAX,
        )
