"""One subject: its versions and their differences, a compatibility check, and forms to change it."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_name, query_number
from tidelog.gateways.console.pages.schemas.register_schema import schema_body
from tidelog.gateways.console.pages.schemas.schemas import KINDS
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.forms import choice, field, form, sent
from tidelog.gateways.console.parts.layout import notice, page, redirect
from tidelog.gateways.console.parts.line_diff import LineChange, differences
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import badge, card, pairs
from tidelog.gateways.http.problem import Problem

MODES = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
VERSIONS_MAX = 200


async def subject(console: Console, request: Request) -> Response:
    name = query_name(request)
    versions: list[int] = await console.registry.ask("GET", "subjects", name, "versions")
    newest = versions[-1]
    version = query_number(request, "version", newest, 1, 2**31 - 1)
    before = query_number(request, "against", _one_before(versions, version), 0, 2**31 - 1)
    shown = await console.registry.ask("GET", "subjects", name, "versions", version)
    older = await console.registry.ask("GET", "subjects", name, "versions", before) if before else None
    level = await _level(console, name)
    return page(
        request,
        name,
        card(
            pairs(
                {
                    "Type": KINDS.get(shown.get("schemaType") or "AVRO", "?"),
                    "Version": f"{version} of {count(len(versions))}",
                    "Id": shown["id"],
                    "References": ", ".join(reference["name"] for reference in shown.get("references") or ())
                    or "none",
                }
            ),
        ),
        card(_versions(name, versions, version, before), _text(shown), title=f"Version {version}"),
        _difference(older, shown, before, version) if older is not None else None,
        card(_try_out(name, shown, {}), title="Check compatibility", id_="try"),
        card(_compatibility(request, name, level), _delete(request, name, version), title="Actions"),
        place="Schemas",
        crumbs={"Schemas": path("schemas")},
    )


def _one_before(versions: list[int], version: int) -> int:
    return max((older for older in versions if older < version), default=0)


async def _level(console: Console, subject: str) -> tuple[str, bool]:
    """The compatibility mode of a subject, and whether the subject itself sets it."""
    try:
        registered = await console.registry.ask("GET", "config", subject)
        return registered["compatibilityLevel"], True
    except Problem as problem:
        if problem.status != 404:
            raise
    return await console.registry.default_level(), False


def pretty(registered: dict[str, Any]) -> str:
    text = str(registered["schema"])
    if (registered.get("schemaType") or "AVRO") == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _text(registered: dict[str, Any]) -> Markup:
    return h.pre(pretty(registered), class_="raw", tabindex="0")


def _versions(subject: str, versions: list[int], version: int, before: int) -> Markup:
    options = {str(number): str(number) for number in reversed(versions[-VERSIONS_MAX:])}
    return h.form(
        h.input(type="hidden", name="name", value=subject),
        field("Version", choice("version", options, str(version))),
        field("Compared with", choice("against", {"0": "nothing"} | options, str(before))),
        h.button("Show"),
        method="get",
        action=path("schemas", "show"),
        class_="inline",
    )


def _difference(older: dict[str, Any], newer: dict[str, Any], before: int, version: int) -> Markup:
    lines = differences(pretty(older), pretty(newer))
    signs = {
        LineChange.ADDED: ("+", "added"),
        LineChange.REMOVED: ("-", "removed"),
        LineChange.KEPT: (" ", None),
    }
    return card(
        h.div(
            [h.div(f"{signs[change][0]} {text}", class_=signs[change][1]) for change, text in lines]
            if any(change is not LineChange.KEPT for change, _ in lines)
            else h.p("There are no differences."),
            class_="diff",
            tabindex="0",
        ),
        title=f"From version {before} to {version}",
    )


def _try_out(subject: str, shown: dict[str, Any], fields: dict[str, str]) -> Markup:
    return h.form(
        h.input(type="hidden", name="name", value=subject),
        h.input(type="hidden", name="kind", value=shown.get("schemaType") or "AVRO"),
        field(
            "New version",
            h.textarea(fields.get("schema", pretty(shown)), name="schema", rows=8, spellcheck="false"),
            class_="wide",
        ),
        h.button("Check"),
        h.span("does not register the schema", class_="muted small"),
        method="post",
        action=path("schemas", "try"),
        class_="grid",
    )


async def try_out(console: Console, request: Request) -> Response:
    """A POST because a schema may be long; it changes nothing, so it needs no token."""
    fields = await sent(request, token=False)
    subject = fields.get("name", "")
    where = "compatibility", "subjects", subject, "versions"
    try:
        answer = await console.registry.ask("POST", *where, body=schema_body(fields), verbose="true")
        compatible, reasons = answer.get("is_compatible", False), answer.get("messages") or []
    except Problem as problem:
        compatible, reasons = False, [problem.message]
    verdict = notice("The schema is compatible and can be registered.", "good")
    if not compatible:
        verdict = notice(
            [h.b("The schema is not compatible."), h.ul([h.li(str(reason)) for reason in reasons])], "bad"
        )
    shown = await console.registry.ask("GET", "subjects", subject, "versions", "latest")
    return page(
        request,
        "Check compatibility",
        verdict,
        card(_try_out(subject, shown, fields)),
        place="Schemas",
        crumbs={"Schemas": path("schemas"), subject: path("schemas", "show", name=subject)},
    )


def _compatibility(request: Request, subject: str, level: tuple[str, bool]) -> Markup:
    mode, own = level
    options = {"": f"Default ({mode})" if not own else "Default"} | {name: name for name in MODES}
    return form(
        request,
        path("schemas", "compatibility"),
        h.input(type="hidden", name="name", value=subject),
        field("Compatibility of new versions", choice("mode", options, mode if own else "")),
        h.button("Save"),
        badge(mode),
        class_="grid",
    )


async def set_compatibility(console: Console, request: Request) -> Response:
    fields = await sent(request)
    subject, mode = fields.get("name", ""), fields.get("mode", "")
    if mode:
        await console.registry.ask("PUT", "config", subject, body={"compatibility": mode})
    else:
        await console.registry.ask("DELETE", "config", subject)
    message = f"Compatibility of {subject} is now {mode or 'the default'}."
    return redirect(path("schemas", "show", name=subject), message)


def _delete(request: Request, subject: str, version: int) -> Markup:
    return form(
        request,
        path("schemas", "delete"),
        h.input(type="hidden", name="name", value=subject),
        h.input(type="hidden", name="version", value=version),
        h.button(f"Delete version {version}", class_="bad"),
        h.span("messages that use its id can still be read", class_="muted small"),
        class_="grid",
    )


async def delete(console: Console, request: Request) -> Response:
    fields = await sent(request)
    subject, version = fields.get("name", ""), fields.get("version", "")
    await console.registry.ask("DELETE", "subjects", subject, "versions", version)
    left = await console.registry.ask("GET", "subjects")
    there = path("schemas", "show", name=subject) if subject in left else path("schemas")
    return redirect(there, f"Version {version} of {subject} was deleted.")
