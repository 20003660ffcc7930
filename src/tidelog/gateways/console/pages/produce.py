"""A message, written by hand."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidelog.errors import TidelogError
from tidelog.gateways.console.console import Console, told
from tidelog.gateways.console.pages.topic import topic_of, topic_page
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
    """What was typed stays in the form: often one more is wanted, a little different."""
    topic = topic_of(console, request).name
    given = await sent(request)
    try:
        key = await _bytes(console, topic, "key", given)
        value = await _bytes(console, topic, "value", given)
        headers = typed_headers(given.get("headers", ""))
        partition = _partition(given.get("partition", ""))
        producer = await console.around.clients.producer()
        written = await (await producer.send(topic, value, key=key, headers=headers, partition=partition))
    except (Unreadable, Problem, TidelogError, ValueError) as problem:
        status, words = (400, f"Nothing was written: {problem}.")
        if isinstance(problem, Problem | TidelogError):
            status, words = told(problem)
        return topic_page(
            request, topic, "Produce", notice(words, "bad"), _form(request, topic, given), status=status
        )
    there = path("topics", topic, "messages", written.partition, written.offset)
    done: list[Child] = [
        "Written to partition ",
        written.partition,
        " at ",
        h.a(f"offset {count(written.offset)}", href=there),
    ]
    return topic_page(request, topic, "Produce", notice(done, "good"), _form(request, topic, given))


async def _bytes(console: Console, topic: str, which: str, given: dict[str, str]) -> bytes | None:
    kind, text = given.get(f"{which}_kind", "text"), given.get(which, "")
    if kind == SCHEMA:
        return await console.decoder.encode(f"{topic}-{which}", text)
    if which == "key" and not text:
        return None
    if kind not in KINDS:
        raise Unreadable(f"a {which} cannot be {kind!r}")
    return typed(kind, text)


def _partition(text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise Unreadable(f"{text!r} is no partition: write its number, or nothing")
    return int(text)


def _form(request: Request, topic: str, given: dict[str, str]) -> Markup:
    def kinds(which: str, default: str) -> Child:
        options = KINDS | {SCHEMA: "JSON, in the newest schema"}
        return choice(f"{which}_kind", options, given.get(f"{which}_kind", default))

    def area(name: str, rows: int, hint: str = "") -> Markup:
        return h.textarea(
            given.get(name, ""), name=name, rows=rows, spellcheck="false", placeholder=hint or None
        )

    return card(
        form(
            request,
            path("topics", topic, "produce"),
            field("Key", area("key", 1, "empty: no key"), class_="half"),
            field("Key is", h.span(kinds("key", "text"))),
            field("Value", area("value", 8), class_="wide"),
            field("Value is", h.span(kinds("value", "text"))),
            field(
                "Partition",
                h.input(
                    name="partition",
                    inputmode="numeric",
                    value=given.get("partition", ""),
                    placeholder="by the key",
                    size=10,
                ),
            ),
            field("Headers", area("headers", 2, "name: value, one on each line"), class_="wide"),
            h.button("Write message", class_="main"),
            class_="grid",
        ),
        title="Write a message",
    )
