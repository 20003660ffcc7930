"""Transactions: which are open, for how long, and where."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.amounts import count, duration, moment
from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.forms import form, search, sent, state_choice
from tidelog.gateways.console.frame import go, page
from tidelog.gateways.console.groups import asked_name
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.table import Column, Pages, badge, card, pairs, table
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.client.admin.transaction_admin import TransactionDescription

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
LEVELS = {"Ongoing": "warn", "CompleteCommit": "good", "CompleteAbort": ""}
PARTITIONS_MAX = 200


async def transactions(console: Console, request: Request) -> Response:
    state, wanted = asked(request, "state"), asked(request, "q")
    admin = await console.admin()
    listed = await admin.list_transactions(states=[state] if state in STATES else ())
    listed = [one for one in listed if wanted.lower() in one.transactional_id.lower()]
    query = {key: value for key, value in (("state", state), ("q", wanted)) if value}
    pages = Pages("transactions", number(request, "page", 1, 1, 1_000_000), len(listed), query)
    shown = pages.cut(listed)
    found = await asyncio.gather(*(_describe(admin, one.transactional_id) for one in shown))
    now_ms = console.now_ms()
    rows: list[list[Child]] = []
    for one, described in zip(shown, found, strict=True):
        open_ms = None if described is None else _open_ms(described, now_ms)
        late = described is not None and open_ms is not None and open_ms > described.timeout_ms
        rows.append(
            [
                h.a(
                    one.transactional_id or "(no name)",
                    href=path("transactions", "show", name=one.transactional_id),
                    class_="name",
                ),
                badge(one.state, LEVELS.get(one.state, "warn")),
                badge(duration(open_ms), "bad") if late else duration(open_ms),
                count(len(described.partitions)) if described else "–",
                one.producer_id,
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
            search(path("transactions"), wanted, state_choice(STATES, state), hint="Id has"), class_="bar-row"
        ),
        table(columns, rows, "No transactional producer is known.", "Transactions"),
        pages.links(),
        place="Transactions",
    )


async def _describe(admin: Admin, name: str) -> TransactionDescription | None:
    try:
        return (await admin.describe_transactions([name]))[name]
    except errors.TidelogError:
        return None  # gone since it was listed


def _open_ms(one: TransactionDescription, now_ms: int) -> int | None:
    if one.state not in ("Ongoing", "PrepareCommit", "PrepareAbort") or one.started_ms < 0:
        return None
    return max(0, now_ms - one.started_ms)


async def transaction(console: Console, request: Request) -> Response:
    name = asked_name(request)
    admin = await console.admin()
    found = (await admin.describe_transactions([name]))[name]
    open_ms = _open_ms(found, console.now_ms())
    return page(
        request,
        name or "(no name)",
        card(
            pairs(
                {
                    "State": badge(found.state, LEVELS.get(found.state, "warn")),
                    "Open for": duration(open_ms),
                    "Begun (UTC)": moment(found.started_ms),
                    "Timeout": duration(found.timeout_ms),
                    "Producer id": found.producer_id,
                    "Producer epoch": found.producer_epoch,
                }
            )
        ),
        card(await _partitions(admin, found), title="Partitions in it"),
        card(
            form(
                request,
                path("transactions", "abort"),
                h.input(type="hidden", name="name", value=name),
                h.button("Fence its producer and abort", class_="bad"),
                class_="grid",
            ),
            h.p("Whoever writes under this id now cannot go on.", class_="muted small"),
            title="Change it",
        ),
        place="Transactions",
        crumbs={"Transactions": path("transactions")},
    )


async def _partitions(admin: Admin, found: TransactionDescription) -> Markup:
    shown = found.partitions[:PARTITIONS_MAX]
    starts = await asyncio.gather(*(_start(admin, one, found.producer_id) for one in shown))
    rows = [
        (h.a(one.topic, href=path("topics", one.topic)), one.partition, count(start))
        for one, start in zip(shown, starts, strict=True)
    ]
    columns = [Column("Topic"), Column("Partition", True), Column("First offset", True)]
    return table(columns, rows, "None: no transaction is open.", "Partitions of the transaction")


async def _start(admin: Admin, partition: TopicPartition, producer_id: int) -> int | None:
    try:
        producers = await admin.describe_producers(partition)
    except errors.TidelogError:
        return None
    return next(
        (
            one.transaction_start
            for one in producers
            if one.producer_id == producer_id and one.transaction_start >= 0
        ),
        None,
    )


async def abort(console: Console, request: Request) -> Response:
    name = (await sent(request)).get("name", "")
    await (await console.admin()).fence_producer(name)
    return go(
        path("transactions", "show", name=name),
        f"The producer of {name} is fenced; what it had open is aborted.",
    )
