"""The counters of a broker: errors, traffic by client, replication, throttles.  Plain integers, read for the metrics.

Requests are counted natively (`_speed.request_metrics`), records by their partition; the rest is
counted here.  `Services` has the one object of a broker."""

from __future__ import annotations

from typing import Protocol

from tidelog._speed.log.request_metrics import RequestMetrics

TENANTS_MAX = 100_000
OTHERS = "(others)"  # clients beyond the bound, together


class Traffic:
    """The traffic of one client, by its client id."""

    __slots__ = ("bytes_in", "bytes_out", "connections", "errors", "requests")

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors = 0

    def add(self, connection: CountedConnection) -> None:
        self.requests += connection.frames
        self.bytes_in += connection.bytes_in
        self.bytes_out += connection.bytes_out


class CountedConnection(Protocol):
    @property
    def client_id(self) -> str | None: ...

    frames: int
    bytes_in: int
    bytes_out: int


class ClientTraffic:
    """Connections that have ended, and errors.  Ids are whatever clients say: only so many are told apart."""

    def __init__(self, clients_max: int = 1000) -> None:
        self._clients_max = clients_max
        self._known: dict[str, Traffic] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, client_id: str | None) -> Traffic:
        name = client_id or ""
        traffic = self._known.get(name)
        if traffic is None:
            if len(self._known) >= self._clients_max:
                name = OTHERS
            traffic = self._known.setdefault(name, Traffic())
        return traffic

    def failed(self, client_id: str | None, times: int = 1) -> None:
        self.of(client_id).errors += times

    def ended(self, connection: CountedConnection) -> None:
        self.of(connection.client_id).add(connection)

    def snapshot(self) -> dict[str, Traffic]:
        """A copy, to which those of live connections can be added."""
        copied = {}
        for name, traffic in self._known.items():
            copied[name] = copy = Traffic()
            copy.requests, copy.errors = traffic.requests, traffic.errors
            copy.bytes_in, copy.bytes_out = traffic.bytes_in, traffic.bytes_out
        return copied

    def name_of(self, client_id: str | None) -> str:
        """Under which name a client is told."""
        name = client_id or ""
        return name if name in self._known or len(self._known) < self._clients_max else OTHERS


class BrokerCounters:
    def __init__(self, clients_max: int = 1000) -> None:
        self.requests = RequestMetrics()
        self.clients = ClientTraffic(clients_max)
        self.tenants = ClientTraffic(TENANTS_MAX)
        """Connections of tenants that have ended, by the name of the tenant."""
        self.replicated_out = 0
        """Bytes of records that followers got."""
        self.put_off = 0
        """Fetches of followers that had to wait for a throttle."""

    def failed(self, api_key: int, code: int, client_id: str | None, times: int = 1) -> None:
        """An answer has this error code in it."""
        self.requests.failed(api_key, code, times)
        self.clients.failed(client_id, times)
