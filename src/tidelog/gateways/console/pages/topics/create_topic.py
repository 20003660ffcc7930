"""The form that creates a topic.  After a failure it shows the reason and keeps what was typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import FAILURES, Console, failure_of
from tidelog.gateways.console.parts.forms import field, form, sent
from tidelog.gateways.console.parts.layout import notice, page, redirect
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import card
from tidelog.gateways.http.problem import Problem

OPTIONS = {"partitions": "partitions", "replicas": "replication_factor"}


async def show(console: Console, request: Request) -> Response:
    return _page(request, {})


async def create(console: Console, request: Request) -> Response:
    from tidelog.client.admin.topics import NewTopic

    fields = await sent(request)
    name = fields.get("name", "").strip()
    try:
        topic = NewTopic(name, **_options(fields), configs=configs_of(fields.get("settings", "")))
        await (await console.admin()).create_topics([topic])
    except FAILURES as problem:
        status, text = failure_of(problem)
        return _page(request, fields, notice(text, "bad"), status)
    return redirect(path("topics", name), f"Topic {name} was created.")


def _options(fields: Mapping[str, str]) -> dict[str, Any]:
    options = {}
    for key, option in OPTIONS.items():
        text = fields.get(key, "").strip()
        if text:
            if not text.isdecimal():
                raise Problem(400, f"{text!r} is not a number of {key}: enter a whole number")
            options[option] = int(text)
    return options


def configs_of(text: str) -> dict[str, str]:
    """From lines of key=value."""
    configs = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise Problem(400, f"{line!r} is not a setting: enter one key=value per line")
        configs[key.strip()] = value.strip()
    return configs


def _page(
    request: Request, fields: Mapping[str, str], message: Markup | None = None, status: int = 200
) -> Response:
    return page(
        request,
        "Create topic",
        message,
        card(_form(request, fields)),
        place="Topics",
        crumbs={"Topics": path("topics")},
        status=status,
    )


def _form(request: Request, fields: Mapping[str, str]) -> Markup:
    def number(name: str, most: int) -> Markup:
        return h.input(
            name=name, type="number", min=1, max=most, placeholder="default", value=fields.get(name)
        )

    return form(
        request,
        path("topics"),
        field(
            "Name",
            h.input(
                name="name",
                required=True,
                maxlength=249,
                pattern="[a-zA-Z0-9._\\-]+",
                value=fields.get("name"),
                autofocus=True,
            ),
        ),
        field("Partitions", number("partitions", 10_000)),
        field("Replication factor", number("replicas", 100)),
        field(
            "Settings",
            h.textarea(
                fields.get("settings", ""),
                name="settings",
                rows=4,
                placeholder="cleanup.policy=compact",
                spellcheck="false",
            ),
            "one key=value per line",
            "wide",
        ),
        h.p("Options you omit use broker defaults.", class_="muted small wide"),
        h.button("Create topic", class_="main"),
        class_="grid",
    )
