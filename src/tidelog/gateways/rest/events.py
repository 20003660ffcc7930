"""Records of a topic as server-sent events, for browsers.

The id of an event says where every partition goes on, so that a browser that comes back with Last-Event-ID misses nothing.
Records are sent as fast as the client reads and no faster: what it does not read stays in the log."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tidelog.errors import TidelogError
from tidelog.gateways.console.reading import open_consumer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.streams import until_stopped
from tidelog.gateways.rest.call import Rest, number
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record

STREAMS_MAX = 50
QUIET_MS = 10_000
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def events(rest: Rest, request: Request) -> Response:
    """`from`: earliest, latest or an offset; `partition`; `key`: records with this key only."""
    topic, query = rest.topic(request, 40401), request.query_params
    indexes = [one.index for one in topic.partitions]
    if "partition" in query:
        wanted = number(query["partition"], "partition")
        if wanted not in indexes:
            raise Problem(404, f"topic {topic.name!r} has no partition {wanted}", 40402)
        indexes = [wanted]
    begin: int | str = query.get("from", "latest")
    if begin not in ("earliest", "latest"):
        given = str(begin)
        if not (given.isascii() and given.isdecimal() and len(given) < 19):
            raise Problem(400, f"from is earliest, latest or an offset, not {given!r}")
        begin = int(given)
    places = _places(request.headers.get("last-event-id", ""), indexes)
    if rest.streams >= STREAMS_MAX:
        raise Problem(429, f"{STREAMS_MAX} streams of events are open on this broker already: close one")
    starts: dict[int, int | str] = {one: places.get(one, begin) for one in indexes}
    stream = until_stopped(rest.around.stopping, _stream(rest, topic.name, starts, query.get("key")))
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


def _places(text: str, indexes: list[int]) -> dict[int, int]:
    """0:17,1:4 as `_event` has written it; from elsewhere, it is refused."""
    places: dict[int, int] = {}
    for pair in filter(None, text.split(",")):
        index, _, offset = pair.partition(":")
        if not all(one.isascii() and one.isdecimal() and len(one) < 19 for one in (index, offset)):
            raise Problem(400, f"Last-Event-ID is not one of ours: {text!r}")
        if int(index) in indexes:
            places[int(index)] = int(offset)
    return places


async def _stream(rest: Rest, topic: str, begin: dict[int, int | str], key: str | None) -> AsyncIterator[str]:
    rest.streams += 1
    try:
        async with open_consumer(rest.around, True) as consumer:
            names = {one: TopicPartition(topic, one) for one in begin}
            consumer.assign(names.values())
            for one, place in begin.items():
                if place == "earliest":
                    consumer.seek_to_beginning(names[one])
                elif place == "latest":
                    consumer.seek_to_end(names[one])
                else:
                    consumer.seek(names[one], int(place))
            places = {one: await consumer.position(name) for one, name in names.items()}
            # A client that loses the connection before the first record must not skip what came meanwhile.
            yield f"id: {_id(places)}\nretry: 1000\nevent: begun\ndata: {{}}\n\n"
            while True:
                records = await consumer.poll(QUIET_MS)
                if not records:
                    yield ": quiet\n\n"
                for record in records:
                    places[record.partition] = record.offset + 1
                    if key is None or record.key == key.encode("utf-8", "surrogatepass"):
                        yield f"id: {_id(places)}\ndata: {json.dumps(_told(record))}\n\n"
    except TidelogError as problem:
        yield f"event: failed\ndata: {json.dumps({'message': str(problem)})}\n\n"
    finally:
        rest.streams -= 1


def _id(places: dict[int, int]) -> str:
    return ",".join(f"{one}:{place}" for one, place in sorted(places.items()))


def _told(one: Record) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        **_field("key", one.key),
        **_field("value", one.value),
        "headers": [{"name": name, **_field("value", data)} for name, data in one.headers],
    }


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    """As text when it is UTF-8, as `<name>_base64` when not."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode()}
