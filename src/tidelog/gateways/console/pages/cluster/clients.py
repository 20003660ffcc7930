"""The clients of the cluster: versions, latency and errors; the page of one client with the metrics that it pushed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog import errors
from tidelog.gateways.console.cluster import peers
from tidelog.gateways.console.cluster.client_figures import client_figures, merged
from tidelog.gateways.console.console import Console, query_name, query_number, query_text
from tidelog.gateways.console.parts.amounts import NOTHING, count, duration, size
from tidelog.gateways.console.parts.forms import search
from tidelog.gateways.console.parts.layout import notice, page
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, Pages, Sort, badge, card, figure, pairs, table
from tidelog.gateways.http.problem import Problem

UNNAMED = "(no client id)"
NO_METRICS = "This client pushed no metrics: a subscription asks for them (kafka-client-metrics.sh --alter)."


async def clients(console: Console, request: Request) -> Response:
    wanted, by = query_text(request, "q"), query_text(request, "sort", "name")
    answers, silent = await _ask_all(console, path("peer", "clients"), client_figures(console.around))
    listed = [client for client in merged(answers) if wanted.lower() in _searched(client)]
    key = ORDERS.get(by, ORDERS["name"])
    down = query_text(request, "order") == "down"
    listed.sort(key=key, reverse=down)
    query = {"q": wanted} if wanted else {}
    pages = Pages(
        "clients",
        query_number(request, "page", 1, 1, 1_000_000),
        len(listed),
        query | {"sort": by, "order": "down" if down else "up"},
    )
    columns = [
        Column("Client", key="name"),
        Column("Software"),
        Column("Connections", True, "connections"),
        Column("Requests", True, "requests"),
        Column("In", True, "in", "Bytes that brokers received since their start"),
        Column("Out", True, "out", "Bytes that brokers sent since their start"),
        Column("Errors", True, "errors", "Errors in answers since the start of the brokers"),
        Column(
            "Latency", True, "latency", "Average of a request, as the client measured it: the slowest broker"
        ),
        Column("Metrics", hint="Whether the client pushes its own metrics (KIP-714)"),
    ]
    return page(
        request,
        "Clients",
        silent,
        h.div(search(path("clients"), wanted, hint="Id, software or address contains"), class_="bar-row"),
        table(
            columns,
            [_row(client) for client in pages.cut(listed)],
            "No client has connected since the brokers started.",
            "Clients",
            Sort("clients", by, down, query),
        ),
        pages.links(),
        place="Clients",
    )


async def client(console: Console, request: Request) -> Response:
    name = query_name(request)
    address = path("peer", "clients", name=name)
    answers, silent = await _ask_all(console, address, client_figures(console.around, name))
    matching = merged(answers)
    if not matching:
        raise Problem(404, f"no broker knows a client {name!r}: it has not connected since they started")
    figures = matching[0]
    instances = figures["instances"]
    return page(
        request,
        name or UNNAMED,
        silent,
        h.div(
            figure("Connections", count(figures["connections"]), "now"),
            figure("Requests", count(figures["requests"]), "since the brokers started"),
            figure("Errors", count(figures["errors"]), "in answers", "warn" if figures["errors"] else ""),
            figure("Latency", _latency(figures, "latency_avg_ms"), "average, slowest broker"),
            figure("Longest request", _latency(figures, "latency_max_ms"), "as the client measured it"),
            class_="figures",
        ),
        card(
            pairs(
                {
                    "Software": _software(figures),
                    "Addresses": ", ".join(figures["hosts"]) or NOTHING,
                    "Received": f"{size(figures['bytes_in'])} by the brokers",
                    "Sent": f"{size(figures['bytes_out'])} by the brokers",
                }
            )
        ),
        [card(_instance(instance), title=f"Instance {instance['id']}") for instance in instances]
        or notice(NO_METRICS),
        place="Clients",
        crumbs={"Clients": path("clients")},
    )


async def peer_clients(console: Console, request: Request) -> Response:
    wanted = request.query_params.get("name")
    return JSONResponse(client_figures(console.around, wanted))


async def _ask_all(
    console: Console, address: str, own: list[dict[str, Any]]
) -> tuple[list[list[dict[str, Any]]], Markup | None]:
    """The answers of all brokers, and a notice that names the brokers which did not answer."""
    around = console.around
    others = [node for node in sorted(around.image.brokers) if node != around.node_id]
    answers = await asyncio.gather(*(peers.ask(around, node, address) for node in others))
    missing = [str(node) for node, answer in zip(others, answers, strict=True) if answer is None]
    silent = notice(f"Not counted: clients of broker {', '.join(missing)}.", "warn") if missing else None
    return [own, *(answer for answer in answers if answer is not None)], silent


def _row(figures: dict[str, Any]) -> list[Child]:
    name, pushing = figures["client_id"], any(not instance["ended"] for instance in figures["instances"])
    return [
        h.a(name or UNNAMED, href=path("clients", "show", name=name), class_="name"),
        _software(figures),
        count(figures["connections"]),
        count(figures["requests"]),
        size(figures["bytes_in"]),
        size(figures["bytes_out"]),
        badge(count(figures["errors"]), "warn") if figures["errors"] else "0",
        _latency(figures, "latency_avg_ms"),
        badge("pushed", "good") if pushing else NOTHING,
    ]


def _software(figures: dict[str, Any]) -> str:
    names = {*figures["software"], *(instance["software"] for instance in figures["instances"])}
    return ", ".join(sorted(names - {""})) or NOTHING


def _searched(figures: dict[str, Any]) -> str:
    return "\n".join([figures["client_id"], _software(figures), *figures["hosts"]]).lower()


def _slowest(figures: dict[str, Any], name: str) -> float | None:
    """The largest value among the instances that still run."""
    times = (instance[name] for instance in figures["instances"] if not instance["ended"])
    return max((time_ms for time_ms in times if time_ms is not None), default=None)


def _latency(figures: dict[str, Any], name: str) -> str:
    return duration(_slowest(figures, name))


ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda figures: figures["client_id"],
    "connections": lambda figures: figures["connections"],
    "requests": lambda figures: figures["requests"],
    "in": lambda figures: figures["bytes_in"],
    "out": lambda figures: figures["bytes_out"],
    "errors": lambda figures: figures["errors"],
    "latency": lambda figures: _slowest(figures, "latency_avg_ms") or -1.0,
}


def _instance(instance: dict[str, Any]) -> list[Child]:
    state = "ended" if instance["ended"] else f"last request {duration(instance['heard_ms_ago'])} ago"
    if instance["problem"]:
        state += f", which was refused: {errors.name_of(instance['problem'])}"
    rows: list[list[Child]] = [
        [
            h.code(metric),
            ", ".join(f"{key}={text}" for key, text in attributes.items()) or NOTHING,
            f"{value:,.3f}".rstrip("0").rstrip("."),
        ]
        for metric, attributes, value in instance.get("series", ())
    ]
    columns = [Column("Metric"), Column("Attributes"), Column("Value", True)]
    return [
        h.p(f"{instance['software']} at {instance['host']}, {state}."),
        table(columns, rows, "No metrics yet.", f"Metrics of {instance['id']}"),
    ]
