"""The form that registers a schema.  After a failure it shows the reason and keeps what was typed."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.schemas.schemas import KINDS
from tidelog.gateways.console.parts.forms import choice, field, form, sent
from tidelog.gateways.console.parts.layout import notice, page, redirect
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import card
from tidelog.gateways.http.problem import Problem


def _form(request: Request, fields: dict[str, str]) -> Markup:
    return form(
        request,
        path("schemas"),
        field("Subject", h.input(name="subject", required=True, maxlength=1000, value=fields.get("subject"))),
        field("Type", choice("kind", KINDS, fields.get("kind"))),
        field(
            "Schema",
            h.textarea(fields.get("schema", ""), name="schema", rows=6, required=True, spellcheck="false"),
            class_="wide",
        ),
        h.button("Register", class_="main"),
        class_="grid",
    )


async def show(console: Console, request: Request) -> Response:
    return page(
        request,
        "Register schema",
        card(_form(request, {})),
        place="Schemas",
        crumbs={"Schemas": path("schemas")},
    )


async def register(console: Console, request: Request) -> Response:
    fields = await sent(request)
    subject = fields.get("subject", "")
    try:
        answer = await console.registry.ask("POST", "subjects", subject, "versions", body=schema_body(fields))
    except Problem as problem:
        return page(
            request,
            "Register schema",
            notice(problem.message, "bad"),
            card(_form(request, fields)),
            place="Schemas",
            crumbs={"Schemas": path("schemas")},
            status=problem.status,
        )
    return redirect(
        path("schemas", "show", name=subject), f"The schema was registered with id {answer['id']}."
    )


def schema_body(fields: dict[str, str]) -> dict[str, Any]:
    return {"schema": fields.get("schema", ""), "schemaType": fields.get("kind", "AVRO")}
