"""What each tenant uses of its limits, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.parts.amounts import NOTHING, count, duration, size
from tidelog.gateways.console.parts.forms import search
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, Pages, badge, table
from tidelog.metadata.tenants import (
    CONNECTIONS_MAX,
    PARTITIONS_MAX,
    RETENTION_MS_MAX,
    STORED_BYTES_MAX,
    TOPICS_MAX,
    limits_of,
    topics_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NEARLY = 0.9


async def tenants(console: Console, request: Request) -> Response:
    around, wanted = console.around, query_text(request, "q")
    names = sorted(tenant.name for tenant in around.services.gate.tenants)
    names = [name for name in names if wanted.lower() in name.lower()]
    query = {"q": wanted} if wanted else {}
    pages = Pages("tenants", query_number(request, "page", 1, 1, 1_000_000), len(names), query)
    stored = around.figures.tenant_storage.stored_bytes()
    columns = [
        Column("Tenant"),
        Column("Topics", True),
        Column("Partitions", True),
        Column("Stored, all replicas", True),
        Column("Connections to this broker", True),
        Column("Retention", True),
        Column("Members"),
    ]
    return page(
        request,
        "Tenants",
        h.div(search(path("tenants"), wanted, hint="Name contains"), class_="bar-row"),
        table(
            columns,
            [_row(console, name, stored.get(name, 0)) for name in pages.cut(names)],
            "There are no tenants: `tidelog tenants create` makes one.",
            "Tenants",
        ),
        pages.links(),
        place="Tenants",
    )


def _row(console: Console, name: str, stored: int) -> list[Child]:
    image, gate = console.around.image, console.around.services.gate
    limits = limits_of(image, name) or {}
    topics = topics_of(image, name)
    tenant = gate.tenants.named(name)
    retention = limits.get(RETENTION_MS_MAX)
    return [
        h.a(name, href=path("topics", q=f"{name}."), class_="name"),
        _used(len(topics), limits, TOPICS_MAX, count),
        _used(sum(len(image.topics[topic].partitions) for topic in topics), limits, PARTITIONS_MAX, count),
        _used(stored, limits, STORED_BYTES_MAX, size),
        _used(gate.tenant_connections.count(name), limits, CONNECTIONS_MAX, count),
        NOTHING if retention is None else duration(retention),
        ", ".join(sorted(tenant.members)) if tenant is not None and tenant.members else NOTHING,
    ]


def _used(number: int, limits: Mapping[str, float], key: str, shown: Callable[[int], str]) -> Child:
    """`7 of 10`, marked when little is left."""
    limit = limits.get(key)
    if limit is None:
        return shown(number)
    text = f"{shown(number)} of {shown(int(limit))}"
    if number >= limit:
        return badge(text, "bad")
    return badge(text, "warn") if number >= NEARLY * limit else text
