"""Settings of topics, brokers and groups, shown and changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, asked
from tidelog.gateways.console.forms import form, sent
from tidelog.gateways.console.frame import go
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.table import Column, badge, table
from tidelog.gateways.console.topic import topic_of, topic_page
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.configs import ConfigEntry

KINDS = ("topic", "broker", "group")


async def topic_settings(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    content = await settings(console, request, "topic", topic.name, path("topics", topic.name, "settings"))
    return topic_page(request, topic.name, "Settings", content)


async def settings(console: Console, request: Request, kind: str, name: str, place: str) -> list[Child]:
    """What this resource has; those it has of its own come first."""
    from tidelog.client.admin.configs import ConfigResource

    resource = ConfigResource(kind, name)
    entries = (await (await console.admin()).describe_configs([resource], documentation=True))[resource]
    wanted = asked(request, "q").lower()
    shown = [one for one in entries if wanted in one.name.lower()]
    shown.sort(key=lambda one: (not _is_own(one, kind), one.name))
    own = sum(_is_own(one, kind) for one in entries)
    rows = [_row(request, kind, name, place, one) for one in shown]
    columns = [Column("Setting"), Column("Value"), Column("From"), Column("Default")]
    return [
        h.div(
            _search(request, place),
            h.span(f"{len(entries)} settings, {own} of its own", class_="muted"),
            class_="bar-row",
        ),
        table(columns, rows, f"No setting has {wanted!r} in its name.", f"Settings of {kind} {name}"),
    ]


def _is_own(entry: ConfigEntry, kind: str) -> bool:
    return (
        entry.source.name.lower().startswith(f"dynamic_{kind}") and "default" not in entry.source.name.lower()
    )


def _search(request: Request, place: str) -> Markup:
    kept = [
        h.input(type="hidden", name=key, value=value)
        for key, value in request.query_params.items()
        if key != "q"
    ]
    return h.form(
        kept,
        h.label("Setting has", for_="q", class_="hidden"),
        h.input(type="search", id="q", name="q", value=asked(request, "q"), placeholder="Name has…"),
        h.button("Search"),
        method="get",
        action=place.partition("?")[0],
        role="search",
        class_="inline",
    )


def _row(request: Request, kind: str, name: str, place: str, entry: ConfigEntry) -> list[Child]:
    own = _is_own(entry, kind)
    about = h.p(entry.documentation, class_="muted small") if entry.documentation else None
    return [
        [h.code(entry.name), about],
        _editor(request, kind, name, place, entry, own),
        badge("its own", "good") if own else badge(entry.source.name.lower().replace("_", " ")),
        h.code(entry.default if entry.default is not None else "–"),
    ]


def _editor(
    request: Request, kind: str, name: str, place: str, entry: ConfigEntry, own: bool
) -> Markup | list[Markup]:
    value = "(hidden)" if entry.sensitive else entry.value if entry.value is not None else ""
    if entry.read_only:
        return h.code(value or "–")
    label = f"{entry.name} of {kind} {name}"
    return form(
        request,
        path("settings"),
        h.input(type="hidden", name="kind", value=kind),
        h.input(type="hidden", name="name", value=name),
        h.input(type="hidden", name="key", value=entry.name),
        h.input(type="hidden", name="back", value=place),
        h.input(
            name="value",
            value="" if entry.sensitive else value,
            aria_label=label,
            autocomplete="off",
            spellcheck="false",
            required=entry.sensitive,
            class_="mono",
        ),
        h.button("Save", name="do", value="save"),
        h.button("Back to default", name="do", value="reset", class_="quiet") if own else None,
        class_="inline",
        label=label,
    )


async def change(console: Console, request: Request) -> Response:
    from tidelog.client.admin.configs import ConfigResource

    given = await sent(request)
    kind, name, key = (given.get(one, "") for one in ("kind", "name", "key"))
    if kind not in KINDS or not key:
        raise Problem(400, f"the settings of a {kind!r} cannot be changed here")
    value = None if given.get("do") == "reset" else given.get("value", "")
    await (await console.admin()).alter_configs({ConfigResource(kind, name): {key: value}})
    back = given.get("back", "")
    told = f"{key} of {name} is back to its default." if value is None else f"{key} of {name} is {value} now."
    return go(back if back.startswith("/console/") else "/", told)
