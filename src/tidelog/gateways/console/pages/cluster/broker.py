"""One broker: its addresses, log directories and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.cluster.brokers import broker_state, disk_usage, partitions_by_broker
from tidelog.gateways.console.pages.settings import settings
from tidelog.gateways.console.parts.amounts import count, size
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, pairs, table
from tidelog.gateways.http.problem import Problem
from tidelog.types import NodeId

if TYPE_CHECKING:
    from tidelog.client.admin.log_dirs import LogDir


async def broker(console: Console, request: Request) -> Response:
    node = NodeId(request.path_params["node"])
    registered = console.around.image.brokers.get(node)
    if registered is None:
        raise Problem(404, f"broker {node} is not registered in the cluster")
    leads, holds = partitions_by_broker(console)
    disks = (await (await console.admin()).describe_log_dirs([node])).get(node, [])
    return page(
        request,
        f"Broker {node}",
        card(
            pairs(
                {
                    "State": broker_state(console, node),
                    "Listeners": ", ".join(
                        f"{endpoint.listener} {endpoint.host}:{endpoint.port}"
                        for endpoint in registered.endpoints
                    ),
                    "HTTP": registered.http or "not reachable from other machines",
                    "Rack": registered.rack or "–",
                    "Leads": f"{count(leads[node])} partitions",
                    "Holds": f"{count(holds[node])} replicas",
                    "Epoch": registered.epoch,
                }
            )
        ),
        card(_log_dirs(disks), title="Log directories"),
        h.h2("Settings"),
        await settings(console, request, "broker", str(node), path("brokers", node)),
        place="Brokers",
        crumbs={"Brokers": path("brokers")},
    )


def _log_dirs(disks: list[LogDir]) -> Markup:
    rows: list[list[Child]] = [
        [
            h.code(log_dir.path),
            badge("offline: " + str(log_dir.problem), "bad") if log_dir.problem else badge("online", "good"),
            count(len(log_dir.partitions)),
            size(sum(log_dir.partitions.values())),
            size(log_dir.usable_bytes),
            disk_usage([log_dir]),
        ]
        for log_dir in disks
    ]
    columns = [
        Column("Directory"),
        Column("State"),
        Column("Partitions", True),
        Column("Size", True),
        Column("Free", True),
        Column("Disk"),
    ]
    return table(columns, rows, "The broker reported no log directories.", "Log directories")
