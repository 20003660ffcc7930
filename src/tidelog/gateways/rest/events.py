"""Records of a topic as server-sent events, for browsers.

The id of an event holds the next offset of every partition, so that a browser that reconnects with Last-Event-ID misses
nothing.  Records are sent no faster than the client reads them; until then they stay in the log."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tidelog.errors import TidelogError
from tidelog.gateways.console.records.search import open_consumer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.streaming_answers import until_stopped
from tidelog.gateways.rest.call import Rest, number
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record

STREAMS_MAX = 50
QUIET_MS = 10_000
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def events(rest: Rest, request: Request) -> Response:
    """`from`: earliest, latest or an offset; `partition`; `key`: only records with this key."""
    topic, query = rest.topic(request, 40401), request.query_params
    indexes = [partition.index for partition in topic.partitions]
    if "partition" in query:
        wanted = number(query["partition"], "partition")
        if wanted not in indexes:
            raise Problem(404, f"topic {topic.name!r} has no partition {wanted}", 40402)
        indexes = [wanted]
    begin: int | str = query.get("from", "latest")
    if begin not in ("earliest", "latest"):
        given = str(begin)
        if not (given.isascii() and given.isdecimal() and len(given) < 19):
            raise Problem(400, f"from must be earliest, latest or an offset, not {given!r}")
        begin = int(given)
    places = _places(request.headers.get("last-event-id", ""), indexes)
    if rest.streams >= STREAMS_MAX:
        raise Problem(429, f"{STREAMS_MAX} event streams are already open on this broker: close one")
    starts: dict[int, int | str] = {index: places.get(index, begin) for index in indexes}
    stream = until_stopped(rest.around.stopping, _stream(rest, topic.name, starts, query.get("key")))
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


def _places(text: str, indexes: list[int]) -> dict[int, int]:
    """The offsets of an event id such as 0:17,1:4; raises `Problem` for other text."""
    places: dict[int, int] = {}
    for pair in filter(None, text.split(",")):
        index, _, offset = pair.partition(":")
        if not all(
            digits.isascii() and digits.isdecimal() and len(digits) < 19 for digits in (index, offset)
        ):
            raise Problem(400, f"Last-Event-ID {text!r} is not the id of an event of this stream")
        if int(index) in indexes:
            places[int(index)] = int(offset)
    return places


async def _stream(rest: Rest, topic: str, begin: dict[int, int | str], key: str | None) -> AsyncIterator[str]:
    rest.streams += 1
    try:
        async with open_consumer(rest.around, True) as consumer:
            names = {index: TopicPartition(topic, index) for index in begin}
            consumer.assign(names.values())
            for index, place in begin.items():
                if place == "earliest":
                    consumer.seek_to_beginning(names[index])
                elif place == "latest":
                    consumer.seek_to_end(names[index])
                else:
                    consumer.seek(names[index], int(place))
            places = {index: await consumer.position(name) for index, name in names.items()}
            # A client that loses the connection before the first record must not miss the records of the meantime.
            yield f"id: {_id(places)}\nretry: 1000\nevent: begun\ndata: {{}}\n\n"
            while True:
                records = await consumer.poll(QUIET_MS)
                if not records:
                    yield ": quiet\n\n"
                for record in records:
                    places[record.partition] = record.offset + 1
                    if key is None or record.key == key.encode("utf-8", "surrogatepass"):
                        yield f"id: {_id(places)}\ndata: {json.dumps(_record(record))}\n\n"
    except TidelogError as problem:
        yield f"event: failed\ndata: {json.dumps({'message': str(problem)})}\n\n"
    finally:
        rest.streams -= 1


def _id(places: dict[int, int]) -> str:
    return ",".join(f"{index}:{place}" for index, place in sorted(places.items()))


def _record(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"name": name, **_field("value", data)} for name, data in record.headers],
    }


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text if the data is UTF-8, otherwise `<name>_base64`."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode()}
