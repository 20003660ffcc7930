"""The list of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.pages.cluster.overview import problem_of, state_badge
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.chart import sparkline
from tidelog.gateways.console.parts.forms import search, state_choice
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, Pages, Sort, table

if TYPE_CHECKING:
    pass

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
COLUMNS = (
    Column("Group", key="name"),
    Column("Type"),
    Column("State", key="state"),
    Column("Lag", True, "lag", "In offsets; the page of the group counts messages"),
    Column("Trend", hint="Lag over the last minutes"),
)


async def groups(console: Console, request: Request) -> Response:
    wanted, state = query_text(request, "q"), query_text(request, "state")
    admin = await console.admin()
    listed = await admin.list_groups(states=[state] if state else ())
    snapshot, history = console.poller.snapshot, console.poller.history
    shown = [group for group in listed if group.type != "share" and wanted.lower() in group.group_id.lower()]
    query = {key: value for key, value in (("q", wanted), ("state", state)) if value}
    by = query_text(request, "sort", "name")
    sort = Sort(
        "groups",
        by if by in ("name", "state", "lag") else "name",
        query_text(request, "order") == "down",
        query,
    )
    if sort.by == "lag":
        shown.sort(key=lambda group: snapshot.lags.get(group.group_id, -1), reverse=sort.down)
    else:
        shown.sort(key=lambda group: group.state if sort.by == "state" else group.group_id, reverse=sort.down)
    order = {**query, "sort": sort.by, "order": "down" if sort.down else "up"}
    pages = Pages("groups", query_number(request, "page", 1, 1, 1_000_000), len(shown), order)
    rows: list[list[Child]] = [
        [
            h.a(
                group.group_id or "(no name)", href=path("groups", "show", name=group.group_id), class_="name"
            ),
            group.type or "classic",
            state_badge(group.state),
            count(snapshot.lags.get(group.group_id)),
            sparkline(history.lags.of(group.group_id), f"Lag of {group.group_id} over the last minutes"),
        ]
        for group in pages.cut(shown)
    ]
    empty = "No group matches." if wanted or state else "There are no consumer groups yet."
    return page(
        request,
        "Groups",
        problem_of(console),
        h.div(search(path("groups"), wanted, state_choice(STATES, state)), class_="bar-row"),
        table(COLUMNS, rows, empty, "Groups", sort),
        pages.links(),
        place="Groups",
    )
