"""The list of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.pages.cluster.overview import state_badge
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.chart import sparkline
from tidelog.gateways.console.parts.forms import search
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, Pages, table

if TYPE_CHECKING:
    pass


async def shares(console: Console, request: Request) -> Response:
    wanted = query_text(request, "q")
    admin = await console.admin()
    listed = [
        group
        for group in await admin.list_groups(types=["share"])
        if wanted.lower() in group.group_id.lower()
    ]
    pages = Pages(
        "shares", query_number(request, "page", 1, 1, 1_000_000), len(listed), {"q": wanted} if wanted else {}
    )
    shown = pages.cut(listed)
    offsets = await admin.list_share_groups_offsets(group.group_id for group in shown)
    history = console.poller.history
    rows: list[list[Child]] = [
        [
            h.a(
                group.group_id or "(no name)", href=path("shares", "show", name=group.group_id), class_="name"
            ),
            state_badge(group.state),
            ", ".join(sorted({partition.topic for partition in offsets[group.group_id]})) or "–",
            count(sum(start.lag or 0 for start in offsets[group.group_id].values())),
            sparkline(history.lags.of(group.group_id), f"Lag of {group.group_id} over the last minutes"),
        ]
        for group in shown
    ]
    columns = [
        Column("Group"),
        Column("State"),
        Column("Topics"),
        Column("Lag", True, hint="Messages not yet acknowledged"),
        Column("Trend", hint="Lag over the last minutes"),
    ]
    return page(
        request,
        "Share groups",
        h.div(search(path("shares"), wanted), class_="bar-row"),
        table(columns, rows, "There are no share groups yet.", "Share groups"),
        pages.links(),
        place="Share groups",
    )
