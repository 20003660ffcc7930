"""The schema registry: subjects, versions with their differences, a try-out of what would be compatible."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.pages.groups import asked_name
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.forms import choice, field, form, search, sent
from tidelog.gateways.console.parts.layout import go, notice, page
from tidelog.gateways.console.parts.line_diff import Change, differences
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, Pages, badge, card, pairs, table
from tidelog.gateways.http.problem import Problem

KINDS = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}
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


async def schemas(console: Console, request: Request) -> Response:
    wanted = asked(request, "q")
    subjects = [
        one for one in await console.registry.ask("GET", "subjects") if wanted.lower() in str(one).lower()
    ]
    compatibility = (await console.registry.ask("GET", "config"))["compatibilityLevel"]
    pages = Pages(
        "schemas", number(request, "page", 1, 1, 1_000_000), len(subjects), {"q": wanted} if wanted else {}
    )
    rows: list[list[Child]] = []
    for subject in pages.cut(subjects):
        latest = await console.registry.ask("GET", "subjects", subject, "versions", "latest")
        rows.append(
            [
                h.a(_readable(subject), href=path("schemas", "show", name=subject), class_="name"),
                KINDS.get(latest.get("schemaType") or "AVRO", latest.get("schemaType")),
                latest["version"],
                latest["id"],
            ]
        )
    columns = [Column("Subject"), Column("Type"), Column("Newest version", True), Column("Id", True)]
    empty = f"No subject has {wanted!r} in its name." if wanted else "No schema is registered yet."
    return page(
        request,
        "Schemas",
        h.div(
            search(path("schemas"), wanted),
            h.span("Compatibility, unless a subject says otherwise: ", h.b(compatibility), class_="muted"),
            class_="bar-row",
        ),
        table(columns, rows, empty, "Subjects"),
        pages.links(),
        card(_new(request, {}), title="Register a schema"),
        place="Schemas",
    )


def _new(request: Request, given: dict[str, str]) -> Markup:
    return form(
        request,
        path("schemas"),
        field("Subject", h.input(name="subject", required=True, maxlength=1000, value=given.get("subject"))),
        field("Type", choice("kind", KINDS, given.get("kind"))),
        field(
            "Schema",
            h.textarea(given.get("schema", ""), name="schema", rows=6, required=True, spellcheck="false"),
            class_="wide",
        ),
        h.button("Register", class_="main"),
        class_="grid",
    )


async def register(console: Console, request: Request) -> Response:
    given = await sent(request)
    subject = given.get("subject", "")
    try:
        answer = await console.registry.ask("POST", "subjects", subject, "versions", body=_body(given))
    except Problem as problem:
        return page(
            request,
            "Register a schema",
            notice(problem.message, "bad"),
            card(_new(request, given)),
            place="Schemas",
            crumbs={"Schemas": path("schemas")},
            status=problem.status,
        )
    return go(path("schemas", "show", name=subject), f"The schema has id {answer['id']}.")


def _body(given: dict[str, str]) -> dict[str, Any]:
    return {"schema": given.get("schema", ""), "schemaType": given.get("kind", "AVRO")}


async def schema(console: Console, request: Request) -> Response:
    subject = asked_name(request)
    versions: list[int] = await console.registry.ask("GET", "subjects", subject, "versions")
    newest = versions[-1]
    version = number(request, "version", newest, 1, 2**31 - 1)
    before = number(request, "against", _one_before(versions, version), 0, 2**31 - 1)
    shown = await console.registry.ask("GET", "subjects", subject, "versions", version)
    older = await console.registry.ask("GET", "subjects", subject, "versions", before) if before else None
    level = await _level(console, subject)
    return page(
        request,
        subject,
        card(
            pairs(
                {
                    "Type": KINDS.get(shown.get("schemaType") or "AVRO", "?"),
                    "Version": f"{version} of {count(len(versions))}",
                    "Id": shown["id"],
                    "References": ", ".join(one["name"] for one in shown.get("references") or ()) or "none",
                }
            ),
        ),
        card(_versions(subject, versions, version, before), _text(shown), title=f"Version {version}"),
        _difference(older, shown, before, version) if older is not None else None,
        card(_try_out(subject, shown, {}), title="Would this be compatible?", id_="try"),
        card(_compatibility(request, subject, level), _delete(request, subject, version), title="Change it"),
        place="Schemas",
        crumbs={"Schemas": path("schemas")},
    )


def _one_before(versions: list[int], version: int) -> int:
    return max((one for one in versions if one < version), default=0)


def _readable(subject: str) -> str:
    """In quotes when nothing of it could be seen, or not where it begins."""
    return subject if subject.strip() == subject else repr(subject)


async def _level(console: Console, subject: str) -> tuple[str, bool]:
    """How compatible versions have to be, and whether the subject itself says so."""
    try:
        found = await console.registry.ask("GET", "config", subject)
        return found["compatibilityLevel"], True
    except Problem as problem:
        if problem.status != 404:
            raise
    return (await console.registry.ask("GET", "config"))["compatibilityLevel"], False


def pretty(found: dict[str, Any]) -> str:
    text = str(found["schema"])
    if (found.get("schemaType") or "AVRO") == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _text(found: dict[str, Any]) -> Markup:
    return h.pre(pretty(found), class_="raw", tabindex="0")


def _versions(subject: str, versions: list[int], version: int, before: int) -> Markup:
    options = {str(one): str(one) for one in reversed(versions[-VERSIONS_MAX:])}
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
    signs = {Change.ADDED: ("+", "added"), Change.REMOVED: ("-", "removed"), Change.KEPT: (" ", None)}
    return card(
        h.div(
            [h.div(f"{signs[change][0]} {text}", class_=signs[change][1]) for change, text in lines]
            if any(change is not Change.KEPT for change, _ in lines)
            else h.p("They are the same."),
            class_="diff",
            tabindex="0",
        ),
        title=f"From version {before} to {version}",
    )


def _try_out(subject: str, shown: dict[str, Any], given: dict[str, str]) -> Markup:
    return h.form(
        h.input(type="hidden", name="name", value=subject),
        h.input(type="hidden", name="kind", value=shown.get("schemaType") or "AVRO"),
        field(
            "A new version",
            h.textarea(given.get("schema", pretty(shown)), name="schema", rows=8, spellcheck="false"),
            class_="wide",
        ),
        h.button("Try"),
        h.span("nothing is registered", class_="muted small"),
        method="post",
        action=path("schemas", "try"),
        class_="grid",
    )


async def try_out(console: Console, request: Request) -> Response:
    """Changes nothing: no token is needed, but what was typed may be long, so it is a POST."""
    given = await sent(request, token=False)
    subject = given.get("name", "")
    where = "compatibility", "subjects", subject, "versions"
    try:
        answer = await console.registry.ask("POST", *where, body=_body(given), verbose="true")
        good, words = answer.get("is_compatible", False), answer.get("messages") or []
    except Problem as problem:
        good, words = False, [problem.message]
    told = notice("It is compatible: it could be registered.", "good")
    if not good:
        told = notice([h.b("It is not compatible."), h.ul([h.li(str(one)) for one in words])], "bad")
    shown = await console.registry.ask("GET", "subjects", subject, "versions", "latest")
    return page(
        request,
        "Would this be compatible?",
        told,
        card(_try_out(subject, shown, given)),
        place="Schemas",
        crumbs={"Schemas": path("schemas"), subject: path("schemas", "show", name=subject)},
    )


def _compatibility(request: Request, subject: str, level: tuple[str, bool]) -> Markup:
    mode, own = level
    options = {"": f"as for all ({mode})" if not own else "as for all"} | {one: one for one in MODES}
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
    given = await sent(request)
    subject, mode = given.get("name", ""), given.get("mode", "")
    if mode:
        await console.registry.ask("PUT", "config", subject, body={"compatibility": mode})
    else:
        await console.registry.ask("DELETE", "config", subject)
    told = f"Compatibility of {subject} is {mode or 'as for all'} now."
    return go(path("schemas", "show", name=subject), told)


def _delete(request: Request, subject: str, version: int) -> Markup:
    return form(
        request,
        path("schemas", "delete"),
        h.input(type="hidden", name="name", value=subject),
        h.input(type="hidden", name="version", value=version),
        h.button(f"Delete version {version}", class_="bad"),
        h.span("its id stays known, messages can still be read", class_="muted small"),
        class_="grid",
    )


async def delete(console: Console, request: Request) -> Response:
    given = await sent(request)
    subject, version = given.get("name", ""), given.get("version", "")
    await console.registry.ask("DELETE", "subjects", subject, "versions", version)
    left = await console.registry.ask("GET", "subjects")
    there = path("schemas", "show", name=subject) if subject in left else path("schemas")
    return go(there, f"Version {version} of {subject} is deleted.")
