"""Averages and maxima of the last half minute."""

from __future__ import annotations

from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.topology import Node, Topology
from tidelog.client.telemetry import connection_times
from tidelog.client.telemetry.connection_times import ConnectionTimes
from tidelog.client.telemetry.recent_times import RecentTimes
from tidelog.client.telemetry.standard_metrics import NodeLatency


def test_times_are_of_the_last_half_minute_and_totals_of_all() -> None:
    times = RecentTimes()
    for second in range(60):
        times.add(second + 0.5, float(second))
    assert (times.average_ms(59.9), times.max_ms(59.9), times.recent(59.9)) == (44.5, 59, 30)
    assert (times.count, times.sum_ms) == (60, sum(range(60)))
    assert (times.average_ms(200), times.max_ms(200)) == (0, 0)


def test_times_of_answers_are_by_broker() -> None:
    times, address = ConnectionTimes(), Address("a", 1)
    first = times.created(address, 1.0)
    assert first is not None and times.created(address, 2.0) is first
    first.add(2.0, 30)
    times.created(Address("bootstrap", 1), 2.0)  # it is no broker of the cluster
    topology = Topology(nodes={7: Node(7, "a", 1, None), 8: Node(8, "b", 1, None)})
    metrics = times.metrics(topology, 3.0)
    assert metrics.latencies == {"7": NodeLatency(30, 30)}
    assert (metrics.created, metrics.created_rate) == (3, 0.1)


def test_addresses_are_bounded() -> None:
    times = ConnectionTimes()
    for port in range(connection_times.ADDRESSES_MAX):
        assert times.created(Address("a", port + 1), 0.0) is not None
    assert times.created(Address("b", 1), 0.0) is None
