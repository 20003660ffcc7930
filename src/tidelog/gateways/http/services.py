"""The services that gateways of the HTTP port may use.  Built once in `app.lifecycle`, passed to each gateway's `routes`."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.gateways.http.clients import GatewayClients

if TYPE_CHECKING:
    from tidelog.broker.metrics.metric_sources import MetricSources
    from tidelog.broker.services import Services
    from tidelog.clock import Clock
    from tidelog.config import BrokerConfig
    from tidelog.gateways.amqp.server import AmqpServer
    from tidelog.metadata.image.image import Image
    from tidelog.replication.partitions import Partitions
    from tidelog.types import NodeId


@dataclass(frozen=True, slots=True)
class GatewayServices:
    services: Services
    """All that the handlers of Kafka's requests have: groups, transactions, log directories, the controller."""
    unready: Callable[[], str | None]
    """Why the broker should get no traffic now, or None."""
    bootstrap: str
    """host:port of this broker's own Kafka listener."""
    figures: MetricSources
    """What the broker counts, besides what `services.counters` has."""
    clients: GatewayClients
    """`tidelog.aio` clients of this broker, opened at first use and shared by all gateways."""
    names: frozenset[str]
    """Host names of this broker, in small letters, besides those in `tidelog.http.hosts`."""
    amqp: AmqpServer | None = None
    """The listeners of AMQP; None: there are none."""
    peer_tls: Callable[[], ssl.SSLContext | None] = lambda: None
    """How the HTTP ports of other brokers are reached; None: in plain text."""
    connection_throttle_ms: Callable[[str], int] = lambda host: 0
    """0 if a new connection of this address may stay, or after how many milliseconds it is closed."""
    statuses: Counter[int] = field(default_factory=Counter)
    """How often each HTTP status was answered."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the HTTP port begins to stop: answers that would go on for long end then."""
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What a gateway opened and has to close when the broker stops, the last one first."""

    @property
    def node_id(self) -> NodeId:
        return self.services.node_id

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def image(self) -> Image:
        """The cluster's metadata as this broker knows it now."""
        return self.services.image()

    @property
    def config(self) -> BrokerConfig:
        """As it is now: some settings change while the broker runs."""
        return self.services.config()

    @property
    def clock(self) -> Clock:
        return self.services.clock

    @property
    def partitions(self) -> Partitions:
        return self.services.partitions

    def http_of(self, node: NodeId) -> str | None:
        """host:port of the HTTP port of a live broker, to forward a request to; None when there is none."""
        broker = self.image.brokers.get(node)
        return None if broker is None or broker.fenced else broker.http
