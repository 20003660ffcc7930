"""The live tail: messages as they arrive, sent as table rows by server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tidelog.errors import TidelogError
from tidelog.gateways.console.console import Console, query_text
from tidelog.gateways.console.pages.topics.messages import COLUMNS, message_cells, query_of
from tidelog.gateways.console.pages.topics.topic import topic_of, topic_page
from tidelog.gateways.console.parts.forms import field
from tidelog.gateways.console.parts.layout import HEADERS
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import card
from tidelog.gateways.console.records.search import MessageQuery, open_consumer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.streaming_answers import until_stopped
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record

TAILS_MAX = 10
ROWS_SHOWN = 200
ROWS_AT_ONCE = 25
PAUSE_S = 0.5
QUIET_MS = 10_000
SECONDS_MAX = 3_600


async def tail(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    given = {
        name: query_text(request, name) for name in ("partition", "key", "value") if query_text(request, name)
    }
    head = [h.th(column.title, class_="right" if column.right else None, scope="col") for column in COLUMNS]
    return topic_page(
        request,
        topic.name,
        "Messages",
        card(
            h.form(
                field(
                    "Partition", h.input(name="partition", inputmode="numeric", value=given.get("partition"))
                ),
                field("Key contains", h.input(name="key", value=given.get("key"), maxlength=1000)),
                field(
                    "Value or header contains",
                    h.input(name="value", value=given.get("value"), maxlength=1000),
                ),
                h.button("Follow", class_="main"),
                h.button("Pause", type="button", id="tail-pause", hidden=True),
                h.a("All messages", href=path("topics", topic.name, "messages"), class_="button"),
                method="get",
                action=path("topics", topic.name, "tail"),
                class_="grid",
            )
        ),
        h.p(h.b("Live tail: "), h.span("needs JavaScript", id="tail-state", role="status"), class_="muted"),
        h.div(
            h.table(
                h.caption(f"Messages of {topic.name} as they arrive", class_="hidden"),
                h.thead(h.tr(head)),
                h.tbody(),
                data_tail=path("topics", topic.name, "tail", "events", **given),
                data_rows=ROWS_SHOWN,
            ),
            class_="table",
            tabindex="0",
            role="region",
            aria_label="Live messages",
        ),
    )


async def events(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    query = replace(query_of(topic, request), committed=True)
    if console.tails >= TAILS_MAX:
        raise Problem(503, f"{TAILS_MAX} live tails are already open on this broker: close one")
    stream = until_stopped(console.around.stopping, _stream(console, query))
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


async def _stream(console: Console, query: MessageQuery) -> AsyncIterator[str]:
    console.tails += 1
    until = asyncio.get_running_loop().time() + SECONDS_MAX
    try:
        async with open_consumer(console.around, query.committed) as consumer:
            names = [TopicPartition(query.topic, index) for index in query.partitions]
            consumer.assign(names)
            consumer.seek_to_end()
            await asyncio.gather(*(consumer.position(name) for name in names))
            yield _event("begun", "")
            while asyncio.get_running_loop().time() < until:
                records = [record for record in await consumer.poll(QUIET_MS) if query.wants(record)]
                yield await _rows(console, records) if records else ": quiet\n\n"
                # A pause between batches: nobody reads rows faster, and the broker has other work.
                await asyncio.sleep(PAUSE_S)
            yield _event("failed", "The tail was open for an hour: reload the page to continue.")
    except TidelogError as problem:
        yield _event("failed", f"The tail ended: {problem}")
    finally:
        console.tails -= 1


async def _rows(console: Console, records: list[Record]) -> str:
    shown = records[-ROWS_AT_ONCE:]
    await console.decoder.prepare(shown)
    rows = await asyncio.to_thread(_table_rows, console, shown[::-1])
    text = _event("rows", rows)
    if len(records) > len(shown):
        left_out = len(records) - len(shown)
        text += _event("skipped", f"live; {left_out:,} messages were skipped because too many arrived")
    return text


def _table_rows(console: Console, records: list[Record]) -> str:
    return "".join(_row(console, record) for record in records)


def _row(console: Console, record: Record) -> Markup:
    cells = zip(message_cells(console.decoder, record), COLUMNS, strict=True)
    return h.tr(
        [h.td(cell, class_="right" if column.right else None) for cell, column in cells], class_="fresh"
    )


def _event(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"event: {name}\n{lines}\n"
