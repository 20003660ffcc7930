"""The list of brokers: their states, what they lead, how full their disks are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog.gateways.console.cluster.health import cluster_health
from tidelog.gateways.console.cluster.process_figures import process_figures
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.cluster.overview import live, problem_of
from tidelog.gateways.console.parts.amounts import count, duration, percent, size
from tidelog.gateways.console.parts.chart import bar
from tidelog.gateways.console.parts.layout import fragment, notice, page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, badge, figure, table
from tidelog.types import NodeId

if TYPE_CHECKING:
    from tidelog.client.admin.log_dirs import LogDir

FULL, FILLING = 0.95, 0.8


DAMAGED_MAX = 20


async def brokers(console: Console, request: Request) -> Response:
    return page(
        request,
        "Brokers",
        problem_of(console),
        live(path("brokers", "live"), _content(console)),
        place="Brokers",
    )


async def brokers_live(console: Console, request: Request) -> Response:
    return fragment(_content(console))


def _content(console: Console) -> list[Child]:
    image = console.around.image
    health = cluster_health(image, console.around.config.topic_defaults.min_insync_replicas)
    leads, holds = partitions_by_broker(console)
    figures = console.poller.snapshot.processes
    rows: list[list[Child]] = []
    for node in sorted({*image.brokers, *health.missing}):
        broker, disks = image.brokers.get(node), console.poller.snapshot.disks.get(node, [])
        rows.append(
            [
                h.a(node, href=path("brokers", node), class_="name") if broker else node,
                broker_state(console, node),
                h.span(f"{broker.host}:{broker.port}" if broker else "–", class_="nowrap"),
                (broker.rack if broker else None) or "–",
                count(leads[node]),
                count(holds[node]),
                disk_usage(disks),
                *_process(figures.get(node)),
            ]
        )
    columns = [
        Column("Broker", True),
        Column("State"),
        Column("Address"),
        Column("Rack"),
        Column("Leads", True, hint="Partitions that the broker leads"),
        Column("Replicas", True),
        Column("Disk"),
        Column("Memory", True),
        Column("Connections", True),
        Column("Uptime", True),
    ]
    return [
        h.div(
            figure(
                "Brokers",
                count(health.brokers),
                f"{len(health.missing)} missing",
                "warn" if health.missing else "",
            ),
            figure(
                "Under-replicated",
                count(len(health.under_replicated)),
                "partitions",
                _level(health.under_replicated),
            ),
            figure(
                "Without a leader", count(len(health.offline)), "partitions", "bad" if health.offline else ""
            ),
            figure(
                "Below min ISR",
                count(len(health.below_min)),
                "partitions",
                "bad" if health.below_min else "",
            ),
            figure(
                "Damaged",
                count(len(console.poller.snapshot.damaged)),
                "replicas",
                "bad" if console.poller.snapshot.damaged else "",
            ),
            class_="figures",
        ),
        table(columns, rows, "There are no brokers.", "Brokers"),
        *(notice(f"Damaged: {text}", "bad") for text in console.poller.snapshot.damaged[:DAMAGED_MAX]),
    ]


def _level(partitions: list[Any]) -> str:
    return "warn" if partitions else ""


def partitions_by_broker(console: Console) -> tuple[Counter[NodeId], Counter[NodeId]]:
    """How many partitions each broker leads and holds."""
    leads: Counter[NodeId] = Counter()
    holds: Counter[NodeId] = Counter()
    for topic in console.around.image.topics.values():
        for partition in topic.partitions:
            holds.update(partition.replicas)
            if partition.leader is not None:
                leads[partition.leader] += 1
    return leads, holds


def broker_state(console: Console, node: NodeId) -> list[Child]:
    image = console.around.image
    broker = image.brokers.get(node)
    if broker is None:
        return [badge("missing", "bad")]
    badges: list[Child] = []
    if broker.fenced:
        badges.append(badge("fenced", "bad"))
    elif broker.leaving:
        badges.append(badge("leaving", "warn"))
    else:
        badges.append(badge("ready", "good"))
    if image.controller == node:
        badges.append(badge("controller"))
    if console.around.node_id == node:
        badges.append(badge("this broker"))
    return badges


def disk_usage(disks: list[LogDir]) -> Child:
    total = sum(log_dir.total_bytes for log_dir in disks if log_dir.total_bytes > 0)
    usable = sum(log_dir.usable_bytes for log_dir in disks if log_dir.usable_bytes >= 0)
    if any(log_dir.problem is not None for log_dir in disks):
        return badge("log directory offline", "bad")
    if not total:
        return "–"
    used = 1 - usable / total
    severity = "bad" if used >= FULL else "warn" if used >= FILLING else ""
    text = f"{percent(used)} of {size(total)}"
    return [h.span(text, class_="small"), bar(used, f"Disk: {text}", severity)]


def _process(figures: dict[str, Any] | None) -> list[Child]:
    if figures is None:
        return ["–", "–", "–"]
    return [size(figures["memory_bytes"]), count(figures["connections"]), duration(figures["up_ms"])]


async def peer_process(console: Console, request: Request) -> Response:
    return JSONResponse(process_figures(console.around))
