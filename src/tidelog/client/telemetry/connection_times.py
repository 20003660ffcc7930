"""What the connections of one client have done: how many were made, and how long brokers took to answer."""

from __future__ import annotations

from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.topology import Topology
from tidelog.client.telemetry.recent_times import WINDOW_S, RecentTimes
from tidelog.client.telemetry.standard_metrics import ConnectionMetrics, NodeLatency

ADDRESSES_MAX = 1_000


class ConnectionTimes:
    """All connections of a client share it: those of the cluster, of fetches, of its group."""

    def __init__(self) -> None:
        self._created = RecentTimes()
        self._by_address: dict[Address, RecentTimes] = {}

    def created(self, address: Address, now_s: float) -> RecentTimes | None:
        """Where the times of the new connection's answers go."""
        self._created.add(now_s, 0)
        if address not in self._by_address and len(self._by_address) >= ADDRESSES_MAX:
            return None
        return self._by_address.setdefault(address, RecentTimes())

    def metrics(self, topology: Topology, now_s: float) -> ConnectionMetrics:
        nodes = {Address(node.host, node.port): str(node.id) for node in topology.nodes.values()}
        latencies = {
            nodes[address]: NodeLatency(times.average_ms(now_s), times.max_ms(now_s))
            for address, times in list(self._by_address.items())
            if address in nodes and times.recent(now_s)
        }
        rate = self._created.recent(now_s) / WINDOW_S
        return ConnectionMetrics(self._created.count, rate, latencies)
