"""The form that produces a message."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidelog.errors import TidelogError
from tidelog.gateways.console.console import Console, failure_of
from tidelog.gateways.console.pages.topics.topic import topic_of, topic_page
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.forms import choice, field, form, sent
from tidelog.gateways.console.parts.layout import notice
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import card
from tidelog.gateways.console.records.readable import KINDS, Unreadable, typed, typed_headers
from tidelog.gateways.http.problem import Problem

SCHEMA = "schema"


async def produce(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    return topic_page(request, topic.name, "Produce", _form(request, topic.name, {}))


async def write(console: Console, request: Request) -> Response:
    """The form keeps what was typed: the next message is often a variation."""
    topic = topic_of(console, request).name
    fields = await sent(request)
    try:
        key = await _bytes(console, topic, "key", fields)
        value = await _bytes(console, topic, "value", fields)
        headers = typed_headers(fields.get("headers", ""))
        partition = _partition(fields.get("partition", ""))
        producer = await console.around.clients.producer()
        written = await (await producer.send(topic, value, key=key, headers=headers, partition=partition))
    except (Unreadable, Problem, TidelogError, ValueError) as problem:
        status, text = (400, f"Nothing was written: {problem}.")
        if isinstance(problem, Problem | TidelogError):
            status, text = failure_of(problem)
        return topic_page(
            request, topic, "Produce", notice(text, "bad"), _form(request, topic, fields), status=status
        )
    there = path("topics", topic, "messages", written.partition, written.offset)
    message: list[Child] = [
        "Written to partition ",
        written.partition,
        " at ",
        h.a(f"offset {count(written.offset)}", href=there),
    ]
    return topic_page(request, topic, "Produce", notice(message, "good"), _form(request, topic, fields))


async def _bytes(console: Console, topic: str, which: str, fields: dict[str, str]) -> bytes | None:
    kind, text = fields.get(f"{which}_kind", "text"), fields.get(which, "")
    if kind == SCHEMA:
        return await console.decoder.encode(f"{topic}-{which}", text)
    if which == "key" and not text:
        return None
    if kind not in KINDS:
        raise Unreadable(f"{kind!r} is not a format for a {which}")
    return typed(kind, text)


def _partition(text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise Unreadable(f"{text!r} is not a partition: enter its number, or leave the field empty")
    return int(text)


def _form(request: Request, topic: str, fields: dict[str, str]) -> Markup:
    def kinds(which: str, default: str) -> Child:
        options = KINDS | {SCHEMA: "JSON, encoded with the latest schema"}
        return choice(f"{which}_kind", options, fields.get(f"{which}_kind", default))

    def area(name: str, rows: int, hint: str = "") -> Markup:
        return h.textarea(
            fields.get(name, ""), name=name, rows=rows, spellcheck="false", placeholder=hint or None
        )

    return card(
        form(
            request,
            path("topics", topic, "produce"),
            field("Key", area("key", 1, "empty for no key"), class_="half"),
            field("Key format", h.span(kinds("key", "text"))),
            field("Value", area("value", 8), class_="wide"),
            field("Value format", h.span(kinds("value", "text"))),
            field(
                "Partition",
                h.input(
                    name="partition",
                    inputmode="numeric",
                    value=fields.get("partition", ""),
                    placeholder="by key",
                    size=10,
                ),
            ),
            field("Headers", area("headers", 2, "one name: value per line"), class_="wide"),
            h.button("Produce message", class_="main"),
            class_="grid",
        ),
        title="Produce a message",
    )
