"""Share groups: what is delivered to whom, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog.gateways.console import peers
from tidelog.gateways.console.amounts import count, duration
from tidelog.gateways.console.chart import sparkline
from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.forms import search
from tidelog.gateways.console.frame import page, part
from tidelog.gateways.console.groups import asked_name, lag_chart, partitions_text
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.overview import live, state_badge
from tidelog.gateways.console.reset import reset_form
from tidelog.gateways.console.table import Column, Pages, badge, card, figure, table
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.groups import GroupDescription
    from tidelog.client.admin.share_group_offsets import ShareOffset

RUNS_MAX = 200
LEVELS = {"ACQUIRED": "good", "ARCHIVED": "bad", "ARCHIVING": "bad"}
WORDS = {
    "AVAILABLE": "to be delivered",
    "ACQUIRED": "with a member",
    "ACKNOWLEDGED": "done",
    "ARCHIVING": "being set aside",
    "ARCHIVED": "given up",
}


async def shares(console: Console, request: Request) -> Response:
    wanted = asked(request, "q")
    admin = await console.admin()
    listed = [
        one for one in await admin.list_groups(types=["share"]) if wanted.lower() in one.group_id.lower()
    ]
    pages = Pages(
        "shares", number(request, "page", 1, 1, 1_000_000), len(listed), {"q": wanted} if wanted else {}
    )
    shown = pages.cut(listed)
    offsets = await admin.list_share_groups_offsets(one.group_id for one in shown)
    history = console.lookout.history
    rows: list[list[Child]] = [
        [
            h.a(one.group_id or "(no name)", href=path("shares", "show", name=one.group_id), class_="name"),
            state_badge(one.state),
            ", ".join(sorted({partition.topic for partition in offsets[one.group_id]})) or "–",
            count(sum(it.lag or 0 for it in offsets[one.group_id].values())),
            sparkline(history.lags.of(one.group_id), f"lag of {one.group_id} in the last minutes"),
        ]
        for one in shown
    ]
    columns = [
        Column("Group"),
        Column("State"),
        Column("Topics"),
        Column("Lag", True, hint="Messages not done"),
        Column("Last minutes"),
    ]
    return page(
        request,
        "Share groups",
        h.div(search(path("shares"), wanted), class_="bar-row"),
        table(columns, rows, "No share group is known yet.", "Share groups"),
        pages.links(),
        place="Share groups",
    )


async def share(console: Console, request: Request) -> Response:
    name = asked_name(request)
    admin = await console.admin()
    found = (await admin.describe_groups([name]))[name]
    offsets = await admin.list_share_group_offsets(name)
    return page(
        request,
        name,
        h.div(
            figure("State", found.state, level="good" if found.state == "Stable" else ""),
            figure("Lag", count(sum(one.lag or 0 for one in offsets.values())), "messages not done"),
            figure("Members", count(len(found.members))),
            figure("Coordinator", found.coordinator),
            class_="figures",
        ),
        live(path("shares", "live", name=name), await _deliveries(console, name, offsets)),
        card(_members(found), title="Members"),
        card(
            reset_form(name, {}),
            h.p("Only a group without members can be reset.", class_="muted small"),
            h.p(h.a("Settings of the group", href=path("groups", "settings", name=name))),
            title="Reset offsets",
        ),
        place="Share groups",
        crumbs={"Share groups": path("shares")},
    )


async def share_live(console: Console, request: Request) -> Response:
    name = asked_name(request)
    offsets = await (await console.admin()).list_share_group_offsets(name)
    return part(await _deliveries(console, name, offsets))


def _members(found: GroupDescription) -> Markup:
    rows = [
        (
            h.span(one.member_id, class_="mono"),
            one.client_id,
            one.host,
            partitions_text(one.assignment) or "nothing",
        )
        for one in found.members
    ]
    columns = [Column(one) for one in ("Member", "Client", "Host", "Reads")]
    return table(columns, rows, "Nobody is in the group now.", "Members")


async def _deliveries(console: Console, name: str, offsets: dict[TopicPartition, ShareOffset]) -> list[Child]:
    known = await _runs(console, name, offsets)
    rows: list[list[Child]] = []
    runs: list[list[Child]] = []
    for partition, one in sorted(offsets.items()):
        here = known.get(f"{partition.topic}-{partition.partition}")
        rows.append(
            [
                h.a(partition.topic, href=path("topics", partition.topic)),
                partition.partition,
                count(one.offset),
                count(one.lag),
                count(_sum(here, "ACQUIRED")) if here is not None else "–",
                count(_again(here)) if here is not None else "–",
                count(_sum(here, "ARCHIVED", "ARCHIVING")) if here is not None else "–",
            ]
        )
        for run in (here or ())[:RUNS_MAX]:
            runs.append(_run(partition, run))
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Starts at", True, hint="All before is done"),
        Column("Lag", True),
        Column("With members", True),
        Column("Delivered before", True, hint="To be delivered again"),
        Column("Given up", True),
    ]
    flight = [
        Column("Topic"),
        Column("Partition", True),
        Column("Offsets", True),
        Column("Messages", True),
        Column("State"),
        Column("Deliveries", True),
        Column("Member"),
        Column("Lock ends"),
    ]
    return [
        lag_chart(console, name),
        card(table(columns, rows, "It has read nothing yet.", "Partitions"), title="Partitions"),
        card(
            table(flight, runs[:RUNS_MAX], "Nothing is in flight.", "Messages in flight"),
            title="In flight, with delivery counts",
        ),
    ]


def _run(partition: TopicPartition, run: dict[str, Any]) -> list[Child]:
    first, last = run["first"], run["last"]
    there = path("topics", partition.topic, "messages", partition.partition, first)
    held = run["state"] == "ACQUIRED"
    return [
        partition.topic,
        partition.partition,
        h.a(count(first) if first == last else f"{first:,}–{last:,}", href=there),
        count(last - first + 1),
        badge(WORDS.get(run["state"], run["state"]), LEVELS.get(run["state"], "")),
        count(run["deliveries"]),
        h.span(run["member"] or "–", class_="mono"),
        f"in {duration(run['left_ms'])}" if held else "–",
    ]


def _sum(runs: Iterable[dict[str, Any]], *states: str) -> int:
    return sum(one["last"] - one["first"] + 1 for one in runs if one["state"] in states)


def _again(runs: Iterable[dict[str, Any]]) -> int:
    waiting = (one for one in runs if one["state"] == "AVAILABLE" and one["deliveries"] > 0)
    return sum(one["last"] - one["first"] + 1 for one in waiting)


# What the leader of each partition knows


async def _runs(
    console: Console, name: str, offsets: Iterable[TopicPartition]
) -> dict[str, list[dict[str, Any]]]:
    """By partition; without those whose leader cannot be asked.  Nothing is in flight where nobody has read yet."""
    around = console.around
    led: dict[NodeId, list[str]] = {}
    for one in offsets:
        known = around.image.partition(one.topic, one.partition)
        if known is not None and known.leader is not None:
            led.setdefault(known.leader, []).append(f"{one.topic}-{one.partition}")
    address = path("peer", "shares", name=name)
    others = [node for node in led if node != around.node_id]
    answers = await asyncio.gather(*(peers.ask(around, node, address) for node in others))
    told = dict(zip(others, answers, strict=True)) | {around.node_id: local_runs(console, name)}
    return {
        one: answer.get(one, [])
        for node, partitions in led.items()
        if (answer := told[node]) is not None
        for one in partitions
    }


def local_runs(console: Console, name: str) -> dict[str, list[dict[str, Any]]]:
    """Of the partitions that this broker leads and has loaded."""
    found: dict[str, list[dict[str, Any]]] = {}
    names, now_ms = console.around.image.names, console.around.clock.monotonic_ms()
    for led in console.around.services.shares.of_group(name):
        topic = names.get(led.key.topic_id)
        if topic is None:
            continue
        found[f"{topic}-{led.key.partition}"] = [
            {
                "first": run.first,
                "last": run.last,
                "state": run.state.name,
                "deliveries": run.deliveries,
                "member": run.member,
                "left_ms": max(0, run.deadline_ms - now_ms),
            }
            for _, run in zip(range(RUNS_MAX), led.state.runs, strict=False)
        ]
    return found


async def peer_shares(console: Console, request: Request) -> Response:
    return JSONResponse(local_runs(console, asked_name(request)))
