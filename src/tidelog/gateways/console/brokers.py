"""The brokers: which are there, what they lead, how full their disks are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog.gateways.console.amounts import count, duration, percent, size
from tidelog.gateways.console.chart import bar
from tidelog.gateways.console.condition import condition
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.frame import notice, page, part
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.overview import live, problem_of
from tidelog.gateways.console.process import process_figures
from tidelog.gateways.console.settings import settings
from tidelog.gateways.console.table import Column, badge, card, figure, pairs, table
from tidelog.gateways.http.problem import Problem
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
    return part(_content(console))


def _content(console: Console) -> list[Child]:
    image = console.around.image
    found = condition(image, console.around.config.topic_defaults.min_insync_replicas)
    leads, holds = _shares(console)
    figures = console.lookout.look.processes
    rows: list[list[Child]] = []
    for node in sorted({*image.brokers, *found.missing}):
        broker, disks = image.brokers.get(node), console.lookout.look.disks.get(node, [])
        rows.append(
            [
                h.a(node, href=path("brokers", node), class_="name") if broker else node,
                _state(console, node),
                h.span(f"{broker.host}:{broker.port}" if broker else "–", class_="nowrap"),
                (broker.rack if broker else None) or "–",
                count(leads[node]),
                count(holds[node]),
                _disk(disks),
                *_told(figures.get(node)),
            ]
        )
    columns = [
        Column("Broker", True),
        Column("State"),
        Column("Address"),
        Column("Rack"),
        Column("Leads", True),
        Column("Replicas", True),
        Column("Disk"),
        Column("Memory", True),
        Column("Connections", True),
        Column("Up for", True),
    ]
    return [
        h.div(
            figure(
                "Brokers",
                count(found.brokers),
                f"{len(found.missing)} missing",
                "warn" if found.missing else "",
            ),
            figure(
                "Under-replicated",
                count(len(found.under_replicated)),
                "partitions",
                _level(found.under_replicated),
            ),
            figure(
                "Without a leader", count(len(found.offline)), "partitions", "bad" if found.offline else ""
            ),
            figure(
                "Below min.insync.replicas",
                count(len(found.below_min)),
                "partitions",
                "bad" if found.below_min else "",
            ),
            figure(
                "Damaged",
                count(len(console.lookout.look.damaged)),
                "replicas",
                "bad" if console.lookout.look.damaged else "",
            ),
            class_="figures",
        ),
        table(columns, rows, "No broker is known.", "Brokers"),
        *(notice(f"Damaged: {words}", "bad") for words in console.lookout.look.damaged[:DAMAGED_MAX]),
    ]


def _level(partitions: list[Any]) -> str:
    return "warn" if partitions else ""


def _shares(console: Console) -> tuple[Counter[NodeId], Counter[NodeId]]:
    """How many partitions each broker leads and holds."""
    leads: Counter[NodeId] = Counter()
    holds: Counter[NodeId] = Counter()
    for topic in console.around.image.topics.values():
        for one in topic.partitions:
            holds.update(one.replicas)
            if one.leader is not None:
                leads[one.leader] += 1
    return leads, holds


def _state(console: Console, node: NodeId) -> list[Child]:
    image = console.around.image
    broker = image.brokers.get(node)
    if broker is None:
        return [badge("missing", "bad")]
    told: list[Child] = []
    if broker.fenced:
        told.append(badge("fenced", "bad"))
    elif broker.leaving:
        told.append(badge("leaving", "warn"))
    else:
        told.append(badge("ready", "good"))
    if image.controller == node:
        told.append(badge("controller"))
    if console.around.node_id == node:
        told.append(badge("this one"))
    return told


def _disk(disks: list[LogDir]) -> Child:
    total = sum(one.total_bytes for one in disks if one.total_bytes > 0)
    usable = sum(one.usable_bytes for one in disks if one.usable_bytes >= 0)
    if any(one.problem is not None for one in disks):
        return badge("a folder is offline", "bad")
    if not total:
        return "–"
    used = 1 - usable / total
    level = "bad" if used >= FULL else "warn" if used >= FILLING else ""
    words = f"{percent(used)} of {size(total)}"
    return [h.span(words, class_="small"), bar(used, f"disk: {words}", level)]


def _told(figures: dict[str, Any] | None) -> list[Child]:
    if figures is None:
        return ["–", "–", "–"]
    return [size(figures["memory_bytes"]), count(figures["connections"]), duration(figures["up_ms"])]


async def peer_process(console: Console, request: Request) -> Response:
    return JSONResponse(process_figures(console.around))


async def broker(console: Console, request: Request) -> Response:
    node = NodeId(request.path_params["node"])
    found = console.around.image.brokers.get(node)
    if found is None:
        raise Problem(404, f"there is no broker {node} in the cluster now")
    leads, holds = _shares(console)
    disks = (await (await console.admin()).describe_log_dirs([node])).get(node, [])
    return page(
        request,
        f"Broker {node}",
        card(
            pairs(
                {
                    "State": _state(console, node),
                    "Listeners": ", ".join(
                        f"{one.listener} {one.host}:{one.port}" for one in found.endpoints
                    ),
                    "HTTP": found.http or "not to be reached from other machines",
                    "Rack": found.rack or "–",
                    "Leads": f"{count(leads[node])} partitions",
                    "Holds": f"{count(holds[node])} replicas",
                    "Epoch": found.epoch,
                }
            )
        ),
        card(_folders(disks), title="Log folders"),
        h.h2("Settings"),
        await settings(console, request, "broker", str(node), path("brokers", node)),
        place="Brokers",
        crumbs={"Brokers": path("brokers")},
    )


def _folders(disks: list[LogDir]) -> Markup:
    rows: list[list[Child]] = [
        [
            h.code(one.path),
            badge("offline: " + str(one.problem), "bad") if one.problem else badge("in use", "good"),
            count(len(one.partitions)),
            size(sum(one.partitions.values())),
            size(one.usable_bytes),
            _disk([one]),
        ]
        for one in disks
    ]
    columns = [
        Column("Folder"),
        Column("State"),
        Column("Partitions", True),
        Column("Size", True),
        Column("Free", True),
        Column("Disk"),
    ]
    return table(columns, rows, "No folder is known.", "Log folders")
