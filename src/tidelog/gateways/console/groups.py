"""Consumer groups: where each one stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.amounts import count
from tidelog.gateways.console.chart import WIDE, Line, line_chart, sparkline
from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.forms import form, search, sent, state_choice
from tidelog.gateways.console.frame import go, page, part
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.overview import live, problem_of, state_badge
from tidelog.gateways.console.settings import settings
from tidelog.gateways.console.table import Column, Pages, Sort, card, figure, table
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.client.admin.groups import GroupDescription, GroupMember
    from tidelog.client.admin.lag import Lag
    from tidelog.client.groups.metadata import OffsetAndMetadata
    from tidelog.types import TopicPartition

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
COLUMNS = (
    Column("Group", key="name"),
    Column("Type"),
    Column("State", key="state"),
    Column("Lag", True, "lag", "In offsets; the group's page counts messages"),
    Column("Last minutes"),
)
ROWS_MAX = 1_000
COUNTED_MAX = 1_000


async def groups(console: Console, request: Request) -> Response:
    wanted, state = asked(request, "q"), asked(request, "state")
    admin = await console.admin()
    listed = await admin.list_groups(states=[state] if state else ())
    look, history = console.lookout.look, console.lookout.history
    shown = [one for one in listed if one.type != "share" and wanted.lower() in one.group_id.lower()]
    query = {key: value for key, value in (("q", wanted), ("state", state)) if value}
    by = asked(request, "sort", "name")
    sort = Sort(
        "groups", by if by in ("name", "state", "lag") else "name", asked(request, "order") == "down", query
    )
    if sort.by == "lag":
        shown.sort(key=lambda one: look.lags.get(one.group_id, -1), reverse=sort.down)
    else:
        shown.sort(key=lambda one: one.state if sort.by == "state" else one.group_id, reverse=sort.down)
    order = {**query, "sort": sort.by, "order": "down" if sort.down else "up"}
    pages = Pages("groups", number(request, "page", 1, 1, 1_000_000), len(shown), order)
    rows: list[list[Child]] = [
        [
            h.a(one.group_id or "(no name)", href=path("groups", "show", name=one.group_id), class_="name"),
            one.type or "classic",
            state_badge(one.state),
            count(look.lags.get(one.group_id)),
            sparkline(history.lags.of(one.group_id), f"lag of {one.group_id} in the last minutes"),
        ]
        for one in pages.cut(shown)
    ]
    empty = "No group is like that." if wanted or state else "No consumer group is known yet."
    return page(
        request,
        "Groups",
        problem_of(console),
        h.div(search(path("groups"), wanted, state_choice(STATES, state)), class_="bar-row"),
        table(COLUMNS, rows, empty, "Groups", sort),
        pages.links(),
        place="Groups",
    )


async def group(console: Console, request: Request) -> Response:
    name = asked_name(request)
    admin = await console.admin()
    found = (await admin.describe_groups([name]))[name]
    if found.type == "share":
        return go(path("shares", "show", name=name))
    committed = await admin.list_group_offsets(name)
    assigned = {one for member in found.members for one in member.assignment}
    lags = await _lags(console, admin, {one: offset.offset for one, offset in committed.items()})
    lags |= await admin.group_lag(dict.fromkeys(assigned - set(committed), 2**62))
    return page(
        request,
        name,
        h.div(
            figure("State", found.state, found.type, "good" if found.state == "Stable" else ""),
            figure("Lag", _total(committed, lags), "messages that can still be read"),
            figure("Members", count(len(found.members)), found.assignor or None),
            figure("Coordinator", found.coordinator),
            class_="figures",
        ),
        live(path("groups", "live", name=name), lag_chart(console, name)),
        card(_offsets(found, committed, lags), title="Offsets"),
        card(_members(request, found), title="Members"),
        _deeds(request, found),
        place="Groups",
        crumbs={"Groups": path("groups")},
    )


async def _lags(
    console: Console, admin: Admin, committed: dict[TopicPartition, int]
) -> dict[TopicPartition, Lag]:
    """Counted where the gap is small; in offsets where counting would mean to read a lot."""
    from tidelog.client.admin.lag import Lag

    near = {
        one: at for one, at in committed.items() if console.lookout.look.ends.get(one, at) - at <= COUNTED_MAX
    }
    far = [one for one in committed if one not in near and one in console.lookout.look.ends]
    found = await admin.group_lag(near)
    starts = await admin.list_offsets(dict.fromkeys(far, "earliest")) if far else {}
    ends = await admin.list_offsets(dict.fromkeys(far, "latest")) if far else {}
    for one in far:
        start, end = starts[one].offset, ends[one].offset
        found[one] = Lag(start, end, max(0, end - max(start, committed[one])), False)
    return found


def asked_name(request: Request) -> str:
    if "name" not in request.query_params:
        raise Problem(400, "no name was given")
    return request.query_params["name"]


async def group_live(console: Console, request: Request) -> Response:
    return part(lag_chart(console, asked_name(request)))


def lag_chart(console: Console, name: str) -> Markup:
    history = console.lookout.history
    lags = history.lags.of(name)
    return card(line_chart(f"Lag of {name}", history.times_ms, [Line("lag", lags)], width=WIDE), title="Lag")


def _total(committed: dict[TopicPartition, OffsetAndMetadata], lags: dict[TopicPartition, Lag]) -> str:
    known = [lags[one] for one in committed if one in lags]
    about = "" if all(one.exact for one in known) else "≤ "
    return about + count(sum(one.lag for one in known))


def _offsets(
    found: GroupDescription,
    committed: dict[TopicPartition, OffsetAndMetadata],
    lags: dict[TopicPartition, Lag],
) -> list[Child]:
    partitions = sorted({*committed, *(one for member in found.members for one in member.assignment)})
    rows: list[list[Child]] = []
    for one in partitions[:ROWS_MAX]:
        known, lag, owner = committed.get(one), lags.get(one), found.owner(one)
        rows.append(
            [
                h.a(one.topic, href=path("topics", one.topic)),
                one.partition,
                count(known.offset if known else None),
                count(lag.end if lag else None),
                "–" if lag is None or known is None else ("" if lag.exact else "≤ ") + count(lag.lag),
                owner.client_id if owner else "–",
                known.metadata if known else "",
            ]
        )
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Committed", True),
        Column("End", True),
        Column(
            "Lag", True, hint="Messages that can still be read: no markers, nothing of aborted transactions"
        ),
        Column("Read by"),
        Column("Note"),
    ]
    left_out = len(partitions) - len(rows)
    return [
        table(columns, rows, "It has committed nothing.", "Offsets"),
        h.p(f"{left_out:,} more are not shown.", class_="muted") if left_out else None,
    ]


def partitions_text(partitions: tuple[TopicPartition, ...]) -> str:
    """orders 0, 1; payments 2"""
    topics: dict[str, list[str]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(str(one.partition))
    return "; ".join(f"{topic} {', '.join(indexes)}" for topic, indexes in topics.items())


def _members(request: Request, found: GroupDescription) -> Markup:
    rows: list[list[Child]] = [
        [
            h.span(one.member_id, class_="mono"),
            one.instance_id or "–",
            one.client_id,
            one.host,
            h.span(partitions_text(one.assignment) or "nothing"),
            _remove(request, found, one),
        ]
        for one in found.members[:ROWS_MAX]
    ]
    columns = ["Member", "Instance", "Client", "Host", "Reads", ""]
    return table([Column(one) for one in columns], rows, "Nobody is in the group now.", "Members")


def _remove(request: Request, found: GroupDescription, member: GroupMember) -> Markup | None:
    if found.type != "classic":
        return None
    return form(
        request,
        path("groups", "remove"),
        h.input(type="hidden", name="name", value=found.group_id),
        h.input(type="hidden", name="member", value=member.member_id),
        h.button("Remove", class_="quiet", aria_label=f"Remove member {member.member_id}"),
    )


def _deeds(request: Request, found: GroupDescription) -> Markup:
    from tidelog.gateways.console.reset import reset_form

    return h.div(
        card(reset_form(found.group_id, {}), title="Reset offsets"),
        card(
            form(
                request,
                path("groups", "delete"),
                h.input(type="hidden", name="name", value=found.group_id),
                h.button("Delete group and its offsets", class_="bad"),
                class_="grid",
            ),
            h.p("Only a group without members can be reset or deleted.", class_="muted small"),
            h.p(h.a("Settings of the group", href=path("groups", "settings", name=found.group_id))),
            title="More",
        ),
        class_="two",
    )


async def delete(console: Console, request: Request) -> Response:
    name = (await sent(request)).get("name", "")
    await (await console.admin()).delete_groups([name])
    return go(path("groups"), f"Group {name} is deleted.")


async def remove(console: Console, request: Request) -> Response:
    given = await sent(request)
    name, member = given.get("name", ""), given.get("member", "")
    admin = await console.admin()
    found = (await admin.describe_groups([name]))[name]
    named = [one for one in found.members if one.member_id == member]
    if not named:
        raise Problem(404, f"group {name!r} has no member {member!r} any more")
    await admin.remove_group_members(name, named, "removed in the console")
    return go(
        path("groups", "show", name=name), f"Member {member} was removed; it joins again unless it has ended."
    )


async def group_settings(console: Console, request: Request) -> Response:
    name = asked_name(request)
    place = path("groups", "settings", name=name)
    content = await settings(console, request, "group", name, place)
    above = {"Groups": path("groups"), name or "(no name)": path("groups", "show", name=name)}
    return page(request, f"Settings of {name}", content, place="Groups", crumbs=above)
