"""One transaction: its partitions, and the form that fences its producer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.console import Console, query_name
from tidelog.gateways.console.pages.transactions.transactions import LEVELS, open_ms_of
from tidelog.gateways.console.parts.amounts import count, duration, moment
from tidelog.gateways.console.parts.forms import check_confirmed, confirmation, form, sent
from tidelog.gateways.console.parts.layout import page, redirect
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, pairs, table
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.client.admin.transaction_admin import TransactionDescription

PARTITIONS_MAX = 200


async def transaction(console: Console, request: Request) -> Response:
    name = query_name(request)
    admin = await console.admin()
    described = (await admin.describe_transactions([name]))[name]
    open_ms = open_ms_of(described, console.now_ms())
    return page(
        request,
        name or "(no name)",
        card(
            pairs(
                {
                    "State": badge(described.state, LEVELS.get(described.state, "warn")),
                    "Open for": duration(open_ms),
                    "Started (UTC)": moment(described.started_ms),
                    "Timeout": duration(described.timeout_ms),
                    "Producer id": described.producer_id,
                    "Producer epoch": described.producer_epoch,
                }
            )
        ),
        card(await _partitions(admin, described), title="Partitions"),
        card(
            form(
                request,
                path("transactions", "abort"),
                h.input(type="hidden", name="name", value=name),
                confirmation("Fence the producer and abort its open transaction. This cannot be undone."),
                h.button("Fence producer", class_="bad"),
                class_="grid",
            ),
            h.p(
                "The producer that uses this transactional id now can no longer write: it fails with PRODUCER_FENCED.",
                class_="muted small",
            ),
            title="Actions",
        ),
        place="Transactions",
        crumbs={"Transactions": path("transactions")},
    )


async def _partitions(admin: Admin, described: TransactionDescription) -> Markup:
    shown = described.partitions[:PARTITIONS_MAX]
    starts = await asyncio.gather(*(_start(admin, partition, described.producer_id) for partition in shown))
    rows = [
        (h.a(partition.topic, href=path("topics", partition.topic)), partition.partition, count(start))
        for partition, start in zip(shown, starts, strict=True)
    ]
    columns = [Column("Topic"), Column("Partition", True), Column("First offset", True)]
    return table(columns, rows, "No transaction is open.", "Partitions of the transaction")


async def _start(admin: Admin, partition: TopicPartition, producer_id: int) -> int | None:
    try:
        producers = await admin.describe_producers(partition)
    except errors.TidelogError:
        return None
    return next(
        (
            producer.transaction_start
            for producer in producers
            if producer.producer_id == producer_id and producer.transaction_start >= 0
        ),
        None,
    )


async def abort(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name = fields.get("name", "")
    check_confirmed(fields, f"the producer of {name!r} was not fenced")
    await (await console.admin()).fence_producer(name)
    return redirect(
        path("transactions", "show", name=name),
        f"The producer of {name} was fenced, and its open transaction aborted.",
    )
