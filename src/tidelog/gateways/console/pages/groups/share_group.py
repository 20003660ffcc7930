"""One share group: its partitions, and the messages in flight with their delivery counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog.gateways.console.cluster import peers
from tidelog.gateways.console.console import Console, query_name
from tidelog.gateways.console.pages.cluster.overview import live
from tidelog.gateways.console.pages.groups.group import lag_chart, partitions_text
from tidelog.gateways.console.pages.groups.group_reset import reset_form
from tidelog.gateways.console.parts.amounts import count, duration
from tidelog.gateways.console.parts.layout import fragment, page
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, figure, table
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.groups import GroupDescription
    from tidelog.client.admin.share_group_offsets import ShareOffset

RUNS_MAX = 200
LEVELS = {"ACQUIRED": "good", "ARCHIVED": "bad", "ARCHIVING": "bad"}
WORDS = {
    "AVAILABLE": "available",
    "ACQUIRED": "acquired",
    "ACKNOWLEDGED": "acknowledged",
    "ARCHIVING": "going to the dead letter topic",
    "ARCHIVED": "archived",
}


async def share(console: Console, request: Request) -> Response:
    name = query_name(request)
    admin = await console.admin()
    described = (await admin.describe_groups([name]))[name]
    offsets = await admin.list_share_group_offsets(name)
    return page(
        request,
        name,
        h.div(
            figure("State", described.state, severity="good" if described.state == "Stable" else ""),
            figure(
                "Lag", count(sum(start.lag or 0 for start in offsets.values())), "messages not acknowledged"
            ),
            figure("Members", count(len(described.members))),
            figure("Coordinator", described.coordinator),
            class_="figures",
        ),
        live(path("shares", "live", name=name), await _deliveries(console, name, offsets)),
        card(_members(described), title="Members"),
        card(
            reset_form(name, {}),
            h.p("Only a group without members can be reset: stop its consumers first.", class_="muted small"),
            h.p(h.a("Group settings", href=path("groups", "settings", name=name))),
            title="Reset offsets",
        ),
        place="Share groups",
        crumbs={"Share groups": path("shares")},
    )


async def share_live(console: Console, request: Request) -> Response:
    name = query_name(request)
    offsets = await (await console.admin()).list_share_group_offsets(name)
    return fragment(await _deliveries(console, name, offsets))


def _members(described: GroupDescription) -> Markup:
    rows = [
        (
            h.span(member.member_id, class_="mono"),
            member.client_id,
            member.host,
            partitions_text(member.assignment) or "none",
        )
        for member in described.members
    ]
    columns = [Column(title) for title in ("Member id", "Client id", "Host", "Assignment")]
    return table(columns, rows, "The group has no members.", "Members")


async def _deliveries(console: Console, name: str, offsets: dict[TopicPartition, ShareOffset]) -> list[Child]:
    partition_runs = await _runs(console, name, offsets)
    rows: list[list[Child]] = []
    in_flight: list[list[Child]] = []
    for partition, start in sorted(offsets.items()):
        runs = partition_runs.get(f"{partition.topic}-{partition.partition}")
        rows.append(
            [
                h.a(partition.topic, href=path("topics", partition.topic)),
                partition.partition,
                count(start.offset),
                count(start.lag),
                count(_sum(runs, "ACQUIRED")) if runs is not None else "–",
                count(_redelivered(runs)) if runs is not None else "–",
                count(_sum(runs, "ARCHIVED", "ARCHIVING")) if runs is not None else "–",
            ]
        )
        for run in (runs or ())[:RUNS_MAX]:
            in_flight.append(_run(partition, run))
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Start offset", True, hint="All messages before it are acknowledged or archived"),
        Column("Lag", True),
        Column("Acquired", True, hint="Delivered to a member, not yet acknowledged"),
        Column("To redeliver", True, hint="Delivered before, and available again"),
        Column("Archived", True, hint="Rejected, or delivered too often"),
    ]
    run_columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Offsets", True),
        Column("Messages", True),
        Column("State"),
        Column("Deliveries", True),
        Column("Member"),
        Column("Lock expires"),
    ]
    return [
        lag_chart(console, name),
        card(table(columns, rows, "The group has read nothing yet.", "Partitions"), title="Partitions"),
        card(
            table(run_columns, in_flight[:RUNS_MAX], "No messages are in flight.", "Messages in flight"),
            title="Messages in flight",
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
    return sum(run["last"] - run["first"] + 1 for run in runs if run["state"] in states)


def _redelivered(runs: Iterable[dict[str, Any]]) -> int:
    waiting = (run for run in runs if run["state"] == "AVAILABLE" and run["deliveries"] > 0)
    return sum(run["last"] - run["first"] + 1 for run in waiting)


async def _runs(
    console: Console, name: str, offsets: Iterable[TopicPartition]
) -> dict[str, list[dict[str, Any]]]:
    """The runs of messages in flight, by partition, as their leaders know them; without the partitions whose leader cannot
    be asked."""
    around = console.around
    led: dict[NodeId, list[str]] = {}
    for topic_partition in offsets:
        partition = around.image.partition(topic_partition.topic, topic_partition.partition)
        if partition is not None and partition.leader is not None:
            led.setdefault(partition.leader, []).append(str(topic_partition))
    address = path("peer", "shares", name=name)
    others = [node for node in led if node != around.node_id]
    answers = await asyncio.gather(*(peers.ask(around, node, address) for node in others))
    by_node = dict(zip(others, answers, strict=True)) | {around.node_id: local_runs(console, name)}
    return {
        partition: answer.get(partition, [])
        for node, partitions in led.items()
        if (answer := by_node[node]) is not None
        for partition in partitions
    }


def local_runs(console: Console, name: str) -> dict[str, list[dict[str, Any]]]:
    """The runs in flight of the partitions that this broker leads and has loaded."""
    partition_runs: dict[str, list[dict[str, Any]]] = {}
    names, now_ms = console.around.image.names, console.around.clock.monotonic_ms()
    for led in console.around.services.shares.of_group(name):
        topic = names.get(led.key.topic_id)
        if topic is None:
            continue
        partition_runs[f"{topic}-{led.key.partition}"] = [
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
    return partition_runs


async def peer_shares(console: Console, request: Request) -> Response:
    return JSONResponse(local_runs(console, query_name(request)))
