"""The messages of a topic: found, read, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.amounts import count, moment, size
from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.decoding import Decoder
from tidelog.gateways.console.forms import choice, field
from tidelog.gateways.console.frame import HEADERS, page
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.reading import Query, read
from tidelog.gateways.console.table import Column, card, pairs, table
from tidelog.gateways.console.topic import topic_of, topic_page
from tidelog.gateways.console.values import Readable, readable
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record
    from tidelog.metadata.image import TopicImage

LIMITS = (20, 50, 100, 200)
OFFSET_MAX = 2**63 - 1
BEGINNINGS = {"newest": "the newest", "oldest": "the oldest", "offset": "this offset", "time": "this time"}
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
        told = h.div(h.p(problem.message), class_="notice bad", role="alert")
        return topic_page(request, topic.name, "Messages", form, told, status=problem.status)
    found = await read(console.around, query, console.readers)
    await console.decoder.prepare(found.records)
    rows = await asyncio.to_thread(message_rows, console.decoder, found.records)
    words = f"{count(len(rows))} shown"
    if query.searches:
        words = f"{count(len(rows))} found in {count(found.scanned)} messages"
    empty = "Nothing found here." if query.searches or query.cursor else "There are no messages yet."
    more = None
    if found.cursor:
        again = dict(request.query_params) | {"cursor": packed(found.cursor)}
        text = ("Search on" if query.searches else "Older" if query.down else "Newer") + " →"
        more = h.a(text, href=path("topics", topic.name, "messages", **again), class_="button", rel="next")
    return topic_page(
        request,
        topic.name,
        "Messages",
        form,
        table(COLUMNS, rows, empty, f"Messages of {topic.name}"),
        h.div(h.span(words, role="status"), more, class_="pages"),
    )


def query_of(topic: TopicImage, request: Request) -> Query:
    chosen = asked(request, "partition")
    partitions: tuple[int, ...] = tuple(range(len(topic.partitions)))
    if chosen:
        index = number(request, "partition", 0, -1, OFFSET_MAX)
        if not 0 <= index < len(topic.partitions):
            last = len(topic.partitions) - 1
            raise Problem(404, f"{topic.name} has no partition {chosen}: it has 0 to {last}")
        partitions = (index,)
    begin = asked(request, "from", "newest")
    offset = time_ms = None
    if begin == "offset":
        offset = number(request, "offset", 0, 0, OFFSET_MAX)
    elif begin == "time":
        time_ms = time_of(asked(request, "time"))
    elif begin not in BEGINNINGS:
        raise Problem(400, f"messages cannot be shown from {begin!r}: say newest, oldest, offset or time")
    cursor = unpacked(asked(request, "cursor"), len(topic.partitions))
    return Query(
        topic.name,
        partitions,
        down=begin == "newest",
        limit=number(request, "limit", 50, 1, LIMITS[-1]),
        cursor=cursor,
        offset=offset,
        time_ms=time_ms,
        key=asked(request, "key").encode("utf-8", "surrogateescape"),
        value=asked(request, "value").encode("utf-8", "surrogateescape"),
        committed=asked(request, "uncommitted") != "yes",
    )


def packed(cursor: Mapping[int, int]) -> str:
    """0.120_3.88: partitions and offsets."""
    return "_".join(f"{one}.{offset}" for one, offset in sorted(cursor.items()))


def unpacked(text: str, count: int) -> dict[int, int]:
    cursor = {}
    for one in text.split("_") if text else ():
        index, _, offset = one.partition(".")
        if not index.isdecimal() or not offset.isdecimal() or int(index[:9]) >= count or len(offset) > 19:
            raise Problem(400, "this address is damaged: begin anew from the form")
        cursor[int(index)] = int(offset)
    return cursor


def time_of(text: str) -> int:
    """2026-01-31T09:00, in UTC unless it says otherwise, or milliseconds since 1970."""
    if text.isdecimal():
        return min(int(text[:19]), OFFSET_MAX)
    try:
        at = datetime.fromisoformat(text)
        return max(0, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Problem(400, f"{text!r} is no time: write it like 2026-01-31T09:00, in UTC") from None


def _form(topic: TopicImage, request: Request) -> Markup:
    given = request.query_params
    places = {"": "all"} | {str(one.index): str(one.index) for one in topic.partitions[:1000]}
    limits = {str(one): str(one) for one in LIMITS}
    return card(
        h.form(
            field("From", choice("from", BEGINNINGS, given.get("from", "newest"))),
            field(
                "Offset", h.input(name="offset", inputmode="numeric", value=given.get("offset", ""), size=10)
            ),
            field(
                "Time, UTC",
                h.input(name="time", type="datetime-local", step="0.001", value=given.get("time", "")),
            ),
            field("Partition", choice("partition", places, given.get("partition", ""))),
            field("Key has", h.input(name="key", value=given.get("key", ""), maxlength=1000, size=14)),
            field(
                "Value or header has",
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
                " also of aborted and open transactions",
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
    return [message_cells(decoder, one) for one in records]


def message_cells(decoder: Decoder, record: Record) -> list[Child]:
    """A row; the decoder must be prepared for it."""
    key, value = decoder.read(record.key), decoder.read(record.value)
    there = path("topics", record.topic, "messages", record.partition, record.offset)
    return [
        record.partition,
        h.a(count(record.offset), href=there, title="The whole message"),
        h.span(moment(record.timestamp), class_="mono nowrap"),
        h.span("none", class_="muted")
        if record.key is None
        else [h.pre(key.cut(300), class_="message-key"), _kind(key)],
        [
            h.pre(value.cut(), class_="message-value", tabindex="0"),
            h.div(_kind(value), _headers(record), class_="headers"),
        ],
    ]


def _kind(one: Readable) -> Markup:
    return h.span(one.kind, class_="kind")


def _headers(record: Record) -> Markup | None:
    if not record.headers:
        return None
    told = [f"{name}: {readable(value).cut(80)}" for name, value in record.headers[:8]]
    if len(record.headers) > 8:
        told.append(f"… {len(record.headers)} headers")
    return h.span(["  ·  " + one for one in told])


async def message(console: Console, request: Request) -> Response:
    """One message, whole."""
    topic = topic_of(console, request)
    index, offset = request.path_params["partition"], request.path_params["offset"]
    if index >= len(topic.partitions) or offset > OFFSET_MAX:
        raise Problem(404, f"there is no message {offset} in partition {index} of {topic.name}")
    query = Query(topic.name, (index,), False, 1, offset=offset, committed=False)
    found = await read(console.around, query, console.readers)
    if not found.records or found.records[0].offset != offset:
        raise errors.UnknownTopicOrPartition(
            f"there is no message {offset} in partition {index} of {topic.name}: it may have been deleted, "
            "compacted, or be the marker of a transaction"
        )
    record = found.records[0]
    if part := asked(request, "download"):
        data = record.key if part == "key" else record.value
        name = f"{topic.name}-{index}-{offset}.{part if part == 'key' else 'value'}"
        disposition = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data or b"", media_type="application/octet-stream", headers=HEADERS | disposition)
    await console.decoder.prepare([record])
    key, value = [
        await asyncio.to_thread(console.decoder.read, one, True) for one in (record.key, record.value)
    ]
    return page(
        request,
        f"Message {offset:,}",
        card(
            pairs(
                {
                    "Partition": record.partition,
                    "Offset": count(record.offset),
                    "Time (UTC)": moment(record.timestamp),
                    "Time set by": "the producer" if record.timestamp_type == "create" else "the broker",
                    "Leader epoch": record.leader_epoch,
                    "Key": size(None if record.key is None else len(record.key)),
                    "Value": size(None if record.value is None else len(record.value)),
                }
            ),
            _neighbours(topic, index, offset),
        ),
        _whole(key, "Key", topic.name, record),
        _whole(value, "Value", topic.name, record),
        card(
            table(
                [Column("Name"), Column("Value"), Column("As")],
                [(name, h.pre(one.text), one.kind) for name, one in _read_headers(record)],
                "It has no headers.",
                "Headers",
            ),
            title="Headers",
        ),
        place="Topics",
        crumbs={
            "Topics": path("topics"),
            topic.name: path("topics", topic.name),
            "Messages": path("topics", topic.name, "messages"),
        },
    )


def _read_headers(record: Record) -> list[tuple[str, Readable]]:
    return [(name, readable(value, True)) for name, value in record.headers]


def _neighbours(topic: TopicImage, index: int, offset: int) -> Markup:
    around: dict[str, str | int] = {"partition": index, "from": "offset", "offset": max(0, offset - 10)}
    return h.p(
        h.a("What is around it", href=path("topics", topic.name, "messages", **around)), class_="muted small"
    )


def _whole(one: Readable, title: str, topic: str, record: Record) -> Markup:
    there = path("topics", topic, "messages", record.partition, record.offset, download=title.lower())
    return card(
        h.pre(one.text or "(empty)", class_="raw", tabindex="0"),
        title=title,
        more=h.span(h.span(one.kind, class_="kind"), " ", h.a("Download", href=there)),
    )
