"""The list of subjects of the schema registry."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.parts.forms import search
from tidelog.gateways.console.parts.layout import page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, Pages, table

KINDS = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}


async def schemas(console: Console, request: Request) -> Response:
    wanted = query_text(request, "q")
    subjects = [
        subject
        for subject in await console.registry.ask("GET", "subjects")
        if wanted.lower() in str(subject).lower()
    ]
    compatibility = await console.registry.default_level()
    pages = Pages(
        "schemas",
        query_number(request, "page", 1, 1, 1_000_000),
        len(subjects),
        {"q": wanted} if wanted else {},
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
    columns = [Column("Subject"), Column("Type"), Column("Latest version", True), Column("Id", True)]
    empty = f"No subject name contains {wanted!r}." if wanted else "There are no schemas yet."
    return page(
        request,
        "Schemas",
        h.div(
            search(path("schemas"), wanted),
            h.span("Default compatibility: ", h.b(compatibility), class_="muted"),
            h.a("Register schema", href=path("register-schema"), class_="button main"),
            class_="bar-row",
        ),
        table(columns, rows, empty, "Subjects"),
        pages.links(),
        place="Schemas",
    )


def _readable(subject: str) -> str:
    """In quotes when the subject begins or ends with spaces, or is nothing else."""
    return subject if subject.strip() == subject else repr(subject)
