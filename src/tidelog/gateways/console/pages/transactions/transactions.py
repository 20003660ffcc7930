"""The list of transactions: their states, and how long they have been open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.parts.amounts import count, duration
from tidelog.gateways.console.parts.forms import search, state_choice
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, Pages, badge, table

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.client.admin.transaction_admin import TransactionDescription

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
LEVELS = {"Ongoing": "warn", "CompleteCommit": "good", "CompleteAbort": ""}


async def transactions(console: Console, request: Request) -> Response:
    state, wanted = query_text(request, "state"), query_text(request, "q")
    admin = await console.admin()
    listed = await admin.list_transactions(states=[state] if state in STATES else ())
    listed = [listing for listing in listed if wanted.lower() in listing.transactional_id.lower()]
    query = {key: value for key, value in (("state", state), ("q", wanted)) if value}
    pages = Pages("transactions", query_number(request, "page", 1, 1, 1_000_000), len(listed), query)
    shown = pages.cut(listed)
    descriptions = await asyncio.gather(*(_describe(admin, listing.transactional_id) for listing in shown))
    now_ms = console.now_ms()
    rows: list[list[Child]] = []
    for listing, described in zip(shown, descriptions, strict=True):
        open_ms = None if described is None else open_ms_of(described, now_ms)
        late = described is not None and open_ms is not None and open_ms > described.timeout_ms
        rows.append(
            [
                h.a(
                    listing.transactional_id or "(no name)",
                    href=path("transactions", "show", name=listing.transactional_id),
                    class_="name",
                ),
                badge(listing.state, LEVELS.get(listing.state, "warn")),
                badge(duration(open_ms), "bad") if late else duration(open_ms),
                count(len(described.partitions)) if described else "–",
                listing.producer_id,
            ]
        )
    columns = [
        Column("Transactional id"),
        Column("State"),
        Column("Open for", True),
        Column("Partitions", True),
        Column("Producer id", True),
    ]
    return page(
        request,
        "Transactions",
        h.div(
            search(path("transactions"), wanted, state_choice(STATES, state), hint="Id contains"),
            class_="bar-row",
        ),
        table(columns, rows, "There are no transactional producers yet.", "Transactions"),
        pages.links(),
        place="Transactions",
    )


async def _describe(admin: Admin, name: str) -> TransactionDescription | None:
    try:
        return (await admin.describe_transactions([name]))[name]
    except errors.TidelogError:
        return None  # it expired after it was listed


def open_ms_of(described: TransactionDescription, now_ms: int) -> int | None:
    if described.state not in ("Ongoing", "PrepareCommit", "PrepareAbort") or described.started_ms < 0:
        return None
    return max(0, now_ms - described.started_ms)
