"""One consumer group: its lag, offsets and members, and forms to reset and delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_name
from tidelog.gateways.console.pages.cluster.overview import live
from tidelog.gateways.console.pages.groups.group_reset import reset_form
from tidelog.gateways.console.pages.settings import settings
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.chart import WIDE, Line, line_chart
from tidelog.gateways.console.parts.forms import (
    check_confirmed,
    confirmation,
    form,
    sent,
)
from tidelog.gateways.console.parts.layout import fragment, page, redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, card, figure, table
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.client.admin.groups import GroupDescription, GroupMember
    from tidelog.client.admin.lag import Lag
    from tidelog.client.groups.metadata import OffsetAndMetadata
    from tidelog.types import TopicPartition

ROWS_MAX = 1_000
COUNTED_MAX = 1_000


async def group(console: Console, request: Request) -> Response:
    name = query_name(request)
    admin = await console.admin()
    described = (await admin.describe_groups([name]))[name]
    if described.type == "share":
        return redirect(path("shares", "show", name=name))
    committed = await admin.list_group_offsets(name)
    assigned = {partition for member in described.members for partition in member.assignment}
    lags = await _lags(console, admin, {partition: offset.offset for partition, offset in committed.items()})
    lags |= await admin.group_lag(dict.fromkeys(assigned - set(committed), 2**62))
    return page(
        request,
        name,
        h.div(
            figure("State", described.state, described.type, "good" if described.state == "Stable" else ""),
            figure("Lag", _total(committed, lags), "messages to read"),
            figure("Members", count(len(described.members)), described.assignor or None),
            figure("Coordinator", described.coordinator),
            class_="figures",
        ),
        live(path("groups", "live", name=name), lag_chart(console, name)),
        card(_offsets(described, committed, lags), title="Offsets"),
        card(_members(request, described), title="Members"),
        _actions(request, described),
        place="Groups",
        crumbs={"Groups": path("groups")},
    )


async def _lags(
    console: Console, admin: Admin, committed: dict[TopicPartition, int]
) -> dict[TopicPartition, Lag]:
    """In messages where the group is near the end; in offsets where counting messages would mean reading many."""
    from tidelog.client.admin.lag import Lag

    last_ends = console.poller.snapshot.ends
    near = {
        partition: offset
        for partition, offset in committed.items()
        if last_ends.get(partition, offset) - offset <= COUNTED_MAX
    }
    far = [partition for partition in committed if partition not in near and partition in last_ends]
    lags = await admin.group_lag(near)
    starts = await admin.list_offsets(dict.fromkeys(far, "earliest")) if far else {}
    ends = await admin.list_offsets(dict.fromkeys(far, "latest")) if far else {}
    for partition in far:
        start, end = starts[partition].offset, ends[partition].offset
        lags[partition] = Lag(start, end, max(0, end - max(start, committed[partition])), False)
    return lags


async def group_live(console: Console, request: Request) -> Response:
    return fragment(lag_chart(console, query_name(request)))


def lag_chart(console: Console, name: str) -> Markup:
    history = console.poller.history
    lags = history.lags.of(name)
    return card(line_chart(f"Lag of {name}", history.times_ms, [Line("lag", lags)], width=WIDE), title="Lag")


def _total(committed: dict[TopicPartition, OffsetAndMetadata], lags: dict[TopicPartition, Lag]) -> str:
    counted = [lags[partition] for partition in committed if partition in lags]
    bound = "" if all(lag.exact for lag in counted) else "≤ "
    return bound + count(sum(lag.lag for lag in counted))


def _offsets(
    described: GroupDescription,
    committed: dict[TopicPartition, OffsetAndMetadata],
    lags: dict[TopicPartition, Lag],
) -> list[Child]:
    partitions = sorted(
        {*committed, *(partition for member in described.members for partition in member.assignment)}
    )
    rows: list[list[Child]] = []
    for partition in partitions[:ROWS_MAX]:
        offset, lag, owner = committed.get(partition), lags.get(partition), described.owner(partition)
        rows.append(
            [
                h.a(partition.topic, href=path("topics", partition.topic)),
                partition.partition,
                count(offset.offset if offset else None),
                count(lag.end if lag else None),
                "–" if lag is None or offset is None else ("" if lag.exact else "≤ ") + count(lag.lag),
                owner.client_id if owner else "–",
                offset.metadata if offset else "",
            ]
        )
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Committed offset", True),
        Column("End offset", True),
        Column("Lag", True, hint="Messages to read: without transaction markers and aborted transactions"),
        Column("Assigned to", hint="Client id of the member"),
        Column("Metadata"),
    ]
    left_out = len(partitions) - len(rows)
    return [
        table(columns, rows, "The group has committed no offsets.", "Offsets"),
        h.p(f"{left_out:,} more partitions are not shown.", class_="muted") if left_out else None,
    ]


def partitions_text(partitions: tuple[TopicPartition, ...]) -> str:
    """orders 0, 1; payments 2"""
    topics: dict[str, list[str]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return "; ".join(f"{topic} {', '.join(indexes)}" for topic, indexes in topics.items())


def _members(request: Request, described: GroupDescription) -> Markup:
    rows: list[list[Child]] = [
        [
            h.span(member.member_id, class_="mono"),
            member.instance_id or "–",
            member.client_id,
            member.host,
            h.span(partitions_text(member.assignment) or "none"),
            _remove(request, described, member),
        ]
        for member in described.members[:ROWS_MAX]
    ]
    columns = ["Member id", "Instance id", "Client id", "Host", "Assignment", ""]
    return table([Column(title) for title in columns], rows, "The group has no members.", "Members")


def _remove(request: Request, described: GroupDescription, member: GroupMember) -> Markup | None:
    if described.type != "classic":
        return None
    return form(
        request,
        path("groups", "remove"),
        h.input(type="hidden", name="name", value=described.group_id),
        h.input(type="hidden", name="member", value=member.member_id),
        h.button("Remove", class_="quiet", aria_label=f"Remove member {member.member_id}"),
    )


def _actions(request: Request, described: GroupDescription) -> Markup:
    return h.div(
        card(reset_form(described.group_id, {}), title="Reset offsets"),
        card(
            form(
                request,
                path("groups", "delete"),
                h.input(type="hidden", name="name", value=described.group_id),
                confirmation("Delete the group and its committed offsets. This cannot be undone."),
                h.button("Delete group", class_="bad"),
                class_="grid",
            ),
            h.p(
                "Only a group without members can be reset or deleted: stop its consumers first.",
                class_="muted small",
            ),
            h.p(h.a("Group settings", href=path("groups", "settings", name=described.group_id))),
            title="Actions",
        ),
        class_="two",
    )


async def delete(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name = fields.get("name", "")
    check_confirmed(fields, f"group {name!r} was not deleted")
    await (await console.admin()).delete_groups([name])
    return redirect(path("groups"), f"Group {name} was deleted.")


async def remove(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name, member_id = fields.get("name", ""), fields.get("member", "")
    admin = await console.admin()
    described = (await admin.describe_groups([name]))[name]
    members = [member for member in described.members if member.member_id == member_id]
    if not members:
        raise Problem(404, f"group {name!r} no longer has member {member_id!r}")
    await admin.remove_group_members(name, members, "removed in the console")
    return redirect(
        path("groups", "show", name=name),
        f"Member {member_id} was removed. It joins again unless its process has ended.",
    )


async def group_settings(console: Console, request: Request) -> Response:
    name = query_name(request)
    place = path("groups", "settings", name=name)
    content = await settings(console, request, "group", name, place)
    above = {"Groups": path("groups"), name or "(no name)": path("groups", "show", name=name)}
    return page(request, f"Settings of {name}", content, place="Groups", crumbs=above)
