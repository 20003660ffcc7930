"""Settings of topics, brokers and groups, shown and edited in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.cluster.health import many
from tidelog.gateways.console.console import Console, query_text
from tidelog.gateways.console.pages.topics.topic import topic_of, topic_page
from tidelog.gateways.console.parts.forms import form, sent
from tidelog.gateways.console.parts.layout import redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, table
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.configs import ConfigEntry

KINDS = ("topic", "broker", "group")


async def topic_settings(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    content = await settings(console, request, "topic", topic.name, path("topics", topic.name, "settings"))
    return topic_page(request, topic.name, "Settings", content)


async def settings(console: Console, request: Request, kind: str, name: str, place: str) -> list[Child]:
    """The settings of a resource, its overrides first."""
    from tidelog.client.admin.configs import ConfigResource

    resource = ConfigResource(kind, name)
    entries = (await (await console.admin()).describe_configs([resource], documentation=True))[resource]
    wanted = query_text(request, "q").lower()
    shown = [entry for entry in entries if wanted in entry.name.lower()]
    shown.sort(key=lambda entry: (not _is_override(entry, kind), not _is_static(entry), entry.name))
    rows = [_row(request, kind, name, place, entry) for entry in shown]
    columns = [Column("Setting"), Column("Value"), Column("Source"), Column("Default")]
    return [
        h.div(
            _search(request, place),
            h.span(counts_text(entries, kind), class_="muted"),
            class_="bar-row",
        ),
        table(columns, rows, f"No setting name contains {wanted!r}.", f"Settings of {kind} {name}"),
    ]


def counts_text(entries: Sequence[ConfigEntry], kind: str) -> str:
    """How many settings there are, and where those without their default come from."""
    texts = [
        many(len(entries), "setting"),
        many(sum(_is_override(entry, kind) for entry in entries), "override"),
    ]
    if static := sum(_is_static(entry) for entry in entries):
        texts.append(f"{static} from the broker's configuration")
    return ", ".join(texts)


def _is_static(entry: ConfigEntry) -> bool:
    return entry.source.name.lower().startswith("static")


def _is_override(entry: ConfigEntry, kind: str) -> bool:
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
        h.label("Name contains", for_="q", class_="hidden"),
        h.input(
            type="search", id="q", name="q", value=query_text(request, "q"), placeholder="Name contains…"
        ),
        h.button("Search"),
        method="get",
        action=place.partition("?")[0],
        role="search",
        class_="inline",
    )


def _row(request: Request, kind: str, name: str, place: str, entry: ConfigEntry) -> list[Child]:
    override = _is_override(entry, kind)
    about = h.p(entry.documentation, class_="muted small") if entry.documentation else None
    return [
        [h.code(entry.name), about],
        _editor(request, kind, name, place, entry, override),
        badge("override", "good") if override else badge(entry.source.name.lower().replace("_", " ")),
        h.code(entry.default if entry.default is not None else "–"),
    ]


def _editor(
    request: Request, kind: str, name: str, place: str, entry: ConfigEntry, override: bool
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
        h.button("Reset to default", name="do", value="reset", class_="quiet") if override else None,
        class_="inline",
        label=label,
    )


async def change(console: Console, request: Request) -> Response:
    from tidelog.client.admin.configs import ConfigResource

    fields = await sent(request)
    kind, name, key = (fields.get(field, "") for field in ("kind", "name", "key"))
    if kind not in KINDS or not key:
        raise Problem(400, f"settings of {kind!r} cannot be changed here: only those of {', '.join(KINDS)}")
    value = None if fields.get("do") == "reset" else fields.get("value", "")
    await (await console.admin()).alter_configs({ConfigResource(kind, name): {key: value}})
    back = fields.get("back", "")
    message = (
        f"{key} of {name} was reset to its default." if value is None else f"{key} of {name} is now {value}."
    )
    return redirect(back if back.startswith("/console/") else "/", message)
