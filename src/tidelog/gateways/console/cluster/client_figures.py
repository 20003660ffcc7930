"""Figures of the clients of one broker, by client id: connections, traffic, errors, and what the clients pushed (KIP-714).

`client_figures` reads the counters of this broker; other brokers ask for the result over HTTP.  `merged` adds up the
answers of all brokers.  Bounded as the counters are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.broker.metrics.counters import Traffic

if TYPE_CHECKING:
    from tidelog.broker.telemetry.client_metrics import TelemetryClient
    from tidelog.gateways.http.services import GatewayServices

LATENCY_AVG = ".node.request.latency.avg"
LATENCY_MAX = ".node.request.latency.max"
FAILED_RECORDS = ".record.error.total"
INSTANCES_MAX = 20
"""Instances of one client whose metrics a page shows."""
HOSTS_MAX = 20
COUNTERS = ("connections", "requests", "bytes_in", "bytes_out", "errors")


def client_figures(around: GatewayServices, wanted: str | None = None) -> list[dict[str, Any]]:
    """The figures of all clients, or of the client `wanted` with every metric that it pushed."""
    clients = around.services.counters.clients
    traffic_by_name = clients.snapshot()
    software: dict[str, set[str]] = {}
    hosts: dict[str, set[str]] = {}
    for connection in list(around.figures.server.connections):
        name = clients.name_of(connection.client_id)
        traffic = traffic_by_name.setdefault(name, Traffic())
        traffic.connections += 1
        traffic.add(connection)
        session = connection.session
        if session.software_name:
            software.setdefault(name, set()).add(
                f"{session.software_name} {session.software_version}".strip()
            )
        places = hosts.setdefault(name, set())
        if len(places) < HOSTS_MAX:
            places.add(session.host.strip("[]"))
    instances: dict[str, list[dict[str, Any]]] = {}
    now_ms = around.clock.monotonic_ms()
    for client in reversed(around.services.client_metrics.clients):
        name = client.identity.client_id
        if wanted is None or name == wanted:
            instances.setdefault(name, []).append(_instance(client, now_ms, with_series=wanted is not None))
    names = {*traffic_by_name, *instances} if wanted is None else {wanted}
    return [
        {
            "client_id": name,
            "software": sorted(software.get(name, ())),
            "hosts": sorted(hosts.get(name, ())),
            **{counter: getattr(traffic_by_name.get(name, Traffic()), counter) for counter in COUNTERS},
            "instances": instances.get(name, [])[:INSTANCES_MAX],
        }
        for name in sorted(names)
        if name in traffic_by_name or name in instances
    ]


def _instance(client: TelemetryClient, now_ms: int, with_series: bool) -> dict[str, Any]:
    identity = client.identity
    # Averages over nothing are NaN, which JSON does not have.
    series = [(key, value) for key, value in list(client.series.items()) if math.isfinite(value)]
    shown: dict[str, Any] = {
        "id": str(identity.client_instance_id),
        "software": f"{identity.client_software_name} {identity.client_software_version}".strip(),
        "host": identity.client_source_address,
        "heard_ms_ago": max(0, now_ms - client.heard_ms),
        "ended": client.terminating,
        "latency_avg_ms": _largest(series, LATENCY_AVG),
        "latency_max_ms": _largest(series, LATENCY_MAX),
        "failed_records": sum(value for (metric, _), value in series if metric.endswith(FAILED_RECORDS)),
        "problem": client.problem,
    }
    if with_series:
        shown["series"] = [
            [metric, dict(attributes), value] for (metric, attributes), value in sorted(series)
        ]
    return shown


def _largest(series: Iterable[tuple[tuple[str, object], float]], ending: str) -> float | None:
    return max((value for (metric, _), value in series if metric.endswith(ending)), default=None)


def merged(answers: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The clients of all brokers, by client id: counters are added up, and of an instance the newest push counts."""
    by_name: dict[str, dict[str, Any]] = {}
    for client in (client for answer in answers for client in answer):
        whole = by_name.get(client["client_id"])
        if whole is None:
            by_name[client["client_id"]] = dict(client)
            continue
        for counter in COUNTERS:
            whole[counter] += client[counter]
        for names in ("software", "hosts"):
            whole[names] = sorted({*whole[names], *client[names]})
        newest: dict[str, dict[str, Any]] = {}
        for instance in (*whole["instances"], *client["instances"]):
            before = newest.get(instance["id"])
            if before is None or instance["heard_ms_ago"] < before["heard_ms_ago"]:
                newest[instance["id"]] = instance
        whole["instances"] = sorted(newest.values(), key=lambda instance: instance["heard_ms_ago"])
    return [by_name[name] for name in sorted(by_name)]
