"""The reset of a group's offsets: a preview first, then the reset itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.client.admin.group_reset import offsets_of, plan_reset, set_offsets
from tidelog.client.admin.reset_target import NothingToShift, ResetTarget
from tidelog.gateways.console.cluster.health import many
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.topics.messages import OFFSET_MAX, time_of
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.forms import choice, field, form, sent
from tidelog.gateways.console.parts.layout import notice, page, redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, card, table
from tidelog.gateways.http.problem import Problem
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin

TARGETS = {
    "earliest": "the first offset",
    "latest": "the end offset",
    "offset": "this offset",
    "shift": "this many forward (or back with -)",
    "time": "this time",
}
FIELDS = ("name", "topic", "to", "number", "time")
ROWS_MAX = 1_000


def reset_form(name: str, fields: Mapping[str, str]) -> Markup:
    return h.form(
        h.input(type="hidden", name="name", value=name),
        field(
            "Topic",
            h.input(name="topic", value=fields.get("topic"), placeholder="all with offsets", maxlength=249),
        ),
        field("To", choice("to", TARGETS, fields.get("to"))),
        field(
            "Offset or shift",
            h.input(name="number", value=fields.get("number"), inputmode="numeric", size=12),
        ),
        field(
            "Time (UTC)", h.input(name="time", type="datetime-local", step="0.001", value=fields.get("time"))
        ),
        h.button("Preview"),
        method="get",
        action=path("groups", "reset"),
        class_="grid",
    )


async def preview(console: Console, request: Request) -> Response:
    fields = {name: request.query_params.get(name, "").strip() for name in FIELDS}
    fields["name"] = request.query_params.get("name", "")
    name = fields["name"]
    admin = await console.admin()
    members = (await admin.describe_groups([name]))[name].members
    before, after = await _planned(admin, fields)
    rows: list[list[Child]] = [
        [
            partition.topic,
            partition.partition,
            count(before.get(partition)),
            count(after[partition]),
            "–" if partition not in before else f"{after[partition] - before[partition]:+,}",
        ]
        for partition in sorted(after)[:ROWS_MAX]
    ]
    columns = [
        Column("Topic"),
        Column("Partition", True),
        Column("Current offset", True),
        Column("New offset", True),
        Column("Change", True),
    ]
    changed = sum(before.get(partition) != after[partition] for partition in after)
    return page(
        request,
        "Reset offsets",
        notice(
            f"{active_text(name, len(members))}: the reset will be refused until they have stopped.", "warn"
        )
        if members
        else None,
        card(reset_form(name, fields), title=f"Group {name}"),
        card(
            table(columns, rows, "There is nothing to reset.", "Current and new offsets"),
            form(
                request,
                path("groups", "reset"),
                [h.input(type="hidden", name=key, value=value) for key, value in fields.items()],
                h.button(f"Reset {count(changed)} of {count(len(after))} partitions", class_="main"),
                h.a("Cancel", href=path("groups", "show", name=name), class_="button"),
                class_="grid",
            ),
            title="Preview: nothing has been changed yet",
        ),
        place="Groups",
        crumbs={"Groups": path("groups"), name or "(no name)": path("groups", "show", name=name)},
    )


async def execute(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name = fields.get("name", "")
    admin = await console.admin()
    members = (await admin.describe_groups([name]))[name].members
    if members:
        raise errors.NonEmptyGroup(
            f"nothing was reset. {active_text(name, len(members))}, which would overwrite the offsets: stop them first"
        )
    _, after = await _planned(admin, fields)
    await set_offsets(admin, name, after)
    # The page of a group redirects to that of a share group.
    return redirect(
        path("groups", "show", name=name), f"{count(len(after))} partitions of {name} were reset."
    )


def active_text(name: str, members: int) -> str:
    return f"Group {name} has {many(members, 'member')}"


async def _planned(
    admin: Admin, fields: Mapping[str, str]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The current offsets, and the new ones."""
    name, topic, target = fields.get("name", ""), fields.get("topic", "").strip(), _target(fields)
    before = await offsets_of(admin, name)
    if topic:
        described = (await admin.describe_topics([topic]))[topic]
        partitions = [TopicPartition(topic, partition.index) for partition in described.partitions]
    else:
        topics = {listed.name for listed in await admin.list_topics(internal=True)}
        partitions = [partition for partition in before if partition.topic in topics]
    if not partitions:
        raise Problem(400, f"group {name!r} has no committed offsets: enter a topic")
    try:
        return before, await plan_reset(admin, target, partitions, before)
    except NothingToShift as problem:
        raise Problem(400, str(problem)) from None


def _target(fields: Mapping[str, str]) -> ResetTarget:
    kind = fields.get("to", "")
    if kind not in TARGETS:
        raise Problem(400, f"offsets cannot be reset to {kind!r}")
    if kind == "time":
        return ResetTarget(kind, time_of(fields.get("time", "").strip()))
    if kind in ("offset", "shift"):
        text = fields.get("number", "").strip().replace(",", "")
        if not text.removeprefix("-").removeprefix("+").isdecimal() or len(text) > 20:
            raise Problem(400, f"{text[:40]!r} is not a whole number: enter one in 'Offset or shift'")
        return ResetTarget(kind, max(-OFFSET_MAX, min(int(text), OFFSET_MAX)))
    return ResetTarget(kind)
