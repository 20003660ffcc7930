"""One message, whole, with its headers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.console import Console, query_text
from tidelog.gateways.console.pages.topics.topic import topic_of
from tidelog.gateways.console.parts.amounts import count, size
from tidelog.gateways.console.parts.json_view import json_view
from tidelog.gateways.console.parts.layout import HEADERS, page
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.console.parts.table import Column, card, pairs, table, time_element
from tidelog.gateways.console.records.readable import Readable, readable
from tidelog.gateways.console.records.search import MessageQuery, read
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record
    from tidelog.metadata.image.image import TopicImage
from tidelog.gateways.console.pages.topics.messages import OFFSET_MAX

FOLDED_MAX = 200_000  # characters


async def message(console: Console, request: Request) -> Response:
    """One message, whole."""
    topic = topic_of(console, request)
    index, offset = request.path_params["partition"], request.path_params["offset"]
    if index >= len(topic.partitions) or offset > OFFSET_MAX:
        raise Problem(404, f"there is no message {offset} in partition {index} of {topic.name}")
    query = MessageQuery(topic.name, (index,), False, 1, offset=offset, committed=False)
    result = await read(console.around, query, console.readers)
    if not result.records or result.records[0].offset != offset:
        raise errors.UnknownTopicOrPartition(
            f"there is no message {offset} in partition {index} of {topic.name}: it may have been deleted or compacted, "
            "or the offset belongs to a transaction marker"
        )
    record = result.records[0]
    if part := query_text(request, "download"):
        data = record.key if part == "key" else record.value
        name = f"{topic.name}-{index}-{offset}.{part if part == 'key' else 'value'}"
        disposition = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data or b"", media_type="application/octet-stream", headers=HEADERS | disposition)
    await console.decoder.prepare([record])
    key, value = [await asyncio.to_thread(_decoded, console, data) for data in (record.key, record.value)]
    return page(
        request,
        f"Message {offset:,}",
        card(
            pairs(
                {
                    "Partition": record.partition,
                    "Offset": count(record.offset),
                    "Time (UTC)": time_element(record.timestamp),
                    "Timestamp set by": "the producer" if record.timestamp_type == "create" else "the broker",
                    "Leader epoch": record.leader_epoch,
                    "Key": size(None if record.key is None else len(record.key)),
                    "Value": size(None if record.value is None else len(record.value)),
                }
            ),
            _neighbours(topic, index, offset),
        ),
        _whole(*key, "Key", topic.name, record),
        _whole(*value, "Value", topic.name, record),
        card(
            table(
                [Column("Name"), Column("Value"), Column("Format")],
                [(name, h.pre(content.text), content.kind) for name, content in _read_headers(record)],
                "The message has no headers.",
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
        h.a("Messages around this one", href=path("topics", topic.name, "messages", **around)),
        class_="muted small",
    )


def _decoded(console: Console, data: bytes | None) -> tuple[Readable, Markup | None]:
    """The content, and its foldable view if it is JSON.  Off the loop: a large value takes its time."""
    content = console.decoder.read(data, True)
    if (
        content.kind in ("text", "bytes")
        or content.text[:1] not in ("{", "[")
        or len(content.text) > FOLDED_MAX
    ):
        return content, None
    try:
        return content, json_view(json.loads(content.text))
    except (ValueError, RecursionError):
        return content, None


def _whole(content: Readable, folded: Markup | None, title: str, topic: str, record: Record) -> Markup:
    there = path("topics", topic, "messages", record.partition, record.offset, download=title.lower())
    return card(
        folded or h.pre(content.text or "(empty)", class_="raw", tabindex="0"),
        title=title,
        more=h.span(h.span(content.kind, class_="kind"), " ", h.a("Download", href=there)),
    )
