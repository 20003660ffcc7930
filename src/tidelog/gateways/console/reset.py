"""Offsets of a group, set anew: first shown, then done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.client.admin.group_reset import offsets_of, plan_reset, set_offsets
from tidelog.client.admin.reset_target import NothingToShift, ResetTarget
from tidelog.gateways.console.amounts import count
from tidelog.gateways.console.condition import many
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.forms import choice, field, form, sent
from tidelog.gateways.console.frame import go, page
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.messages import OFFSET_MAX, time_of
from tidelog.gateways.console.table import Column, card, table
from tidelog.gateways.http.problem import Problem
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin

TARGETS = {
    "earliest": "the first message",
    "latest": "the end",
    "offset": "this offset",
    "shift": "so many on (or back with -)",
    "time": "this time",
}
FIELDS = ("name", "topic", "to", "number", "time")
ROWS_MAX = 1_000


def reset_form(name: str, given: Mapping[str, str]) -> Markup:
    return h.form(
        h.input(type="hidden", name="name", value=name),
        field(
            "Topic",
            h.input(name="topic", value=given.get("topic"), placeholder="all it has read", maxlength=249),
        ),
        field("To", choice("to", TARGETS, given.get("to"))),
        field(
            "Offset or number",
            h.input(name="number", value=given.get("number"), inputmode="numeric", size=12),
        ),
        field(
            "Time, UTC", h.input(name="time", type="datetime-local", step="0.001", value=given.get("time"))
        ),
        h.button("Preview"),
        method="get",
        action=path("groups", "reset"),
        class_="grid",
    )


async def preview(console: Console, request: Request) -> Response:
    given = {name: request.query_params.get(name, "").strip() for name in FIELDS}
    given["name"] = request.query_params.get("name", "")
    name = given["name"]
    before, after = await _planned(await console.admin(), given)
    rows: list[list[Child]] = [
        [
            one.topic,
            one.partition,
            count(before.get(one)),
            count(after[one]),
            "–" if one not in before else f"{after[one] - before[one]:+,}",
        ]
        for one in sorted(after)[:ROWS_MAX]
    ]
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Now", True),
        Column("Then", True),
        Column("Change", True),
    ]
    changed = sum(before.get(one) != after[one] for one in after)
    return page(
        request,
        "Reset offsets",
        card(reset_form(name, given), title=f"Of group {name}"),
        card(
            table(columns, rows, "There is nothing to reset.", "Offsets now and then"),
            form(
                request,
                path("groups", "reset"),
                [h.input(type="hidden", name=key, value=value) for key, value in given.items()],
                h.button(f"Reset {count(changed)} of {count(len(after))} partitions", class_="main"),
                h.a("Leave it", href=path("groups", "show", name=name), class_="button"),
                class_="grid",
            ),
            title="Preview: nothing has been changed",
        ),
        place="Groups",
        crumbs={"Groups": path("groups"), name or "(no name)": path("groups", "show", name=name)},
    )


async def execute(console: Console, request: Request) -> Response:
    given = await sent(request)
    name = given.get("name", "")
    admin = await console.admin()
    members = (await admin.describe_groups([name]))[name].members
    if members:
        raise errors.NonEmptyGroup(
            f"nothing was reset: group {name!r} has {many(len(members), 'member')}, and they would go on where they are; "
            "stop them first"
        )
    _, after = await _planned(admin, given)
    await set_offsets(admin, name, after)
    # The page of a group knows where that of a share group is.
    return go(path("groups", "show", name=name), f"{count(len(after))} partitions of {name} were reset.")


async def _planned(
    admin: Admin, given: Mapping[str, str]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Offsets now, and then."""
    name, topic, target = given.get("name", ""), given.get("topic", "").strip(), _target(given)
    before = await offsets_of(admin, name)
    if topic:
        described = (await admin.describe_topics([topic]))[topic]
        partitions = [TopicPartition(topic, one.index) for one in described.partitions]
    else:
        known = {one.name for one in await admin.list_topics(internal=True)}
        partitions = [one for one in before if one.topic in known]
    if not partitions:
        raise Problem(400, f"group {name!r} has no offsets: name a topic")
    try:
        return before, await plan_reset(admin, target, partitions, before)
    except NothingToShift as problem:
        raise Problem(400, str(problem)) from None


def _target(given: Mapping[str, str]) -> ResetTarget:
    kind = given.get("to", "")
    if kind not in TARGETS:
        raise Problem(400, f"{kind!r} is no place to reset to")
    if kind == "time":
        return ResetTarget(kind, time_of(given.get("time", "").strip()))
    if kind in ("offset", "shift"):
        text = given.get("number", "").strip().replace(",", "")
        if not text.removeprefix("-").removeprefix("+").isdecimal() or len(text) > 20:
            raise Problem(400, f"{text[:40]!r} is no whole number: write one into the field Offset or number")
        return ResetTarget(kind, max(-OFFSET_MAX, min(int(text), OFFSET_MAX)))
    return ResetTarget(kind)
