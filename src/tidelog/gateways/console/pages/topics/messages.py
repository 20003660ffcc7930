"""The messages of a topic: search form, rows, and links to further pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.pages.topics.topic import topic_of, topic_page
from tidelog.gateways.console.parts.amounts import count
from tidelog.gateways.console.parts.forms import choice, field
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, card, table, time_element
from tidelog.gateways.console.records.decoder import Decoder
from tidelog.gateways.console.records.readable import Readable, readable
from tidelog.gateways.console.records.search import MessageQuery, read
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record
    from tidelog.metadata.image.image import TopicImage

LIMITS = (20, 50, 100, 200)
OFFSET_MAX = 2**63 - 1
BEGINNINGS = {"newest": "newest", "oldest": "oldest", "offset": "offset", "time": "time"}
COLUMNS = (
    Column("Partition", True),
    Column("Offset", True),
    Column("Time (UTC)"),
    Column("Key"),
    Column("Value"),
)


async def messages(console: Console, request: Request) -> Response:
    topic = topic_of(console, request)
    form = _form(topic, request)
    try:
        query = query_of(topic, request)
    except Problem as problem:
        message = h.div(h.p(problem.message), class_="notice bad", role="alert")
        return topic_page(request, topic.name, "Messages", form, message, status=problem.status)
    result = await read(console.around, query, console.readers)
    await console.decoder.prepare(result.records)
    rows = await asyncio.to_thread(message_rows, console.decoder, result.records)
    summary = f"{count(len(rows))} shown"
    if query.searches:
        summary = f"{count(len(rows))} found in {count(result.scanned)} messages"
    empty = "No messages result." if query.searches or query.cursor else "There are no messages yet."
    more = None
    if result.cursor:
        again = dict(request.query_params) | {"cursor": packed(result.cursor)}
        text = ("Continue search" if query.searches else "Older" if query.down else "Newer") + " →"
        more = h.a(text, href=path("topics", topic.name, "messages", **again), class_="button", rel="next")
    return topic_page(
        request,
        topic.name,
        "Messages",
        form,
        table(COLUMNS, rows, empty, f"Messages of {topic.name}"),
        h.div(h.span(summary, role="status"), more, class_="pages"),
    )


def query_of(topic: TopicImage, request: Request) -> MessageQuery:
    chosen = query_text(request, "partition")
    partitions: tuple[int, ...] = tuple(range(len(topic.partitions)))
    if chosen:
        index = query_number(request, "partition", 0, -1, OFFSET_MAX)
        if not 0 <= index < len(topic.partitions):
            last = len(topic.partitions) - 1
            raise Problem(404, f"{topic.name} has no partition {chosen}: it has 0 to {last}")
        partitions = (index,)
    begin = query_text(request, "from", "newest")
    offset = time_ms = None
    if begin == "offset":
        offset = query_number(request, "offset", 0, 0, OFFSET_MAX)
    elif begin == "time":
        time_ms = time_of(query_text(request, "time"))
    elif begin not in BEGINNINGS:
        raise Problem(400, f"messages cannot be shown from {begin!r}: use newest, oldest, offset or time")
    cursor = unpacked(query_text(request, "cursor"), len(topic.partitions))
    return MessageQuery(
        topic.name,
        partitions,
        down=begin == "newest",
        limit=query_number(request, "limit", 50, 1, LIMITS[-1]),
        cursor=cursor,
        offset=offset,
        time_ms=time_ms,
        key=query_text(request, "key").encode("utf-8", "surrogateescape"),
        value=query_text(request, "value").encode("utf-8", "surrogateescape"),
        committed=query_text(request, "uncommitted") != "yes",
    )


def packed(cursor: Mapping[int, int]) -> str:
    """As in the address: 0.120_3.88 for offset 120 of partition 0 and offset 88 of partition 3."""
    return "_".join(f"{index}.{offset}" for index, offset in sorted(cursor.items()))


def unpacked(text: str, count: int) -> dict[int, int]:
    cursor = {}
    for place in text.split("_") if text else ():
        index, _, offset = place.partition(".")
        if not index.isdecimal() or not offset.isdecimal() or int(index[:9]) >= count or len(offset) > 19:
            raise Problem(400, "the cursor in this address is damaged: start again from the form")
        cursor[int(index)] = int(offset)
    return cursor


def time_of(text: str) -> int:
    """The time in milliseconds, from 2026-01-31T09:00 (UTC unless it has an offset) or milliseconds since 1970."""
    if text.isdecimal():
        return min(int(text[:19]), OFFSET_MAX)
    try:
        at = datetime.fromisoformat(text)
        return max(0, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Problem(400, f"{text!r} is not a time: enter it like 2026-01-31T09:00, in UTC") from None


def _form(topic: TopicImage, request: Request) -> Markup:
    given = request.query_params
    places = {"": "all"} | {
        str(partition.index): str(partition.index) for partition in topic.partitions[:1000]
    }
    limits = {str(limit): str(limit) for limit in LIMITS}
    return card(
        h.form(
            field("From", choice("from", BEGINNINGS, given.get("from", "newest"))),
            field(
                "Offset", h.input(name="offset", inputmode="numeric", value=given.get("offset", ""), size=10)
            ),
            field(
                "Time (UTC)",
                h.input(name="time", type="datetime-local", step="0.001", value=given.get("time", "")),
            ),
            field("Partition", choice("partition", places, given.get("partition", ""))),
            field("Key contains", h.input(name="key", value=given.get("key", ""), maxlength=1000, size=14)),
            field(
                "Value or header contains",
                h.input(name="value", value=given.get("value", ""), maxlength=1000, size=18),
            ),
            field("Show", choice("limit", limits, given.get("limit", "50"))),
            h.label(
                h.input(
                    type="checkbox",
                    name="uncommitted",
                    value="yes",
                    checked=given.get("uncommitted") == "yes",
                ),
                " Include uncommitted messages",
                class_="check",
            ),
            h.button("Show messages", class_="main"),
            h.a("Live tail", href=path("topics", topic.name, "tail"), class_="button"),
            method="get",
            action=path("topics", topic.name, "messages"),
            role="search",
            class_="grid",
        )
    )


def message_rows(decoder: Decoder, records: list[Record]) -> list[list[Child]]:
    return [message_cells(decoder, record) for record in records]


def message_cells(decoder: Decoder, record: Record) -> list[Child]:
    """The cells of a row.  `decoder` must be prepared for the record."""
    key, value = decoder.read(record.key), decoder.read(record.value)
    there = path("topics", record.topic, "messages", record.partition, record.offset)
    return [
        record.partition,
        h.a(count(record.offset), href=there, title="Show the whole message"),
        time_element(record.timestamp),
        h.span("none", class_="muted")
        if record.key is None
        else [h.pre(key.cut(300), class_="message-key"), _kind(key)],
        [
            h.pre(value.cut(), class_="message-value", tabindex="0"),
            h.div(_kind(value), _headers(record), class_="headers"),
        ],
    ]


def _kind(content: Readable) -> Markup:
    return h.span(content.kind, class_="kind")


def _headers(record: Record) -> Markup | None:
    if not record.headers:
        return None
    headers = [f"{name}: {readable(value).cut(80)}" for name, value in record.headers[:8]]
    if len(record.headers) > 8:
        headers.append(f"… {len(record.headers)} headers")
    return h.span(["  ·  " + header for header in headers])
