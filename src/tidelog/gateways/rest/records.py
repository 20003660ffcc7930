"""REST proxy, version 3: one record, or a stream of records on one connection, each answered in order.

Records are concatenated JSON objects.  The number of records in flight is bounded; beyond it the connection is not read."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tidelog import errors
from tidelog.gateways.http.guard import refuse, streamed
from tidelog.gateways.http.json_steps import LONG, Split, TooLong, parse_long
from tidelog.gateways.http.json_text import written
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.streaming_answers import until_stopped
from tidelog.gateways.rest.call import Rest, check_sent, number, only, refused, time_of, unpacked
from tidelog.gateways.rest.values import side_of

UNDER_WAY_MAX = 200
PIECE = 16 << 10
FIELDS = ("partition_id", "key", "value", "headers", "timestamp")
TEXT_MAX = 8 << 20  # a record has at most one megabyte; escapes and spaces make its JSON longer


async def produce(rest: Rest, request: Request) -> Response:
    rest.cluster(request)
    topic = rest.topic(request, 40403).name
    check_sent(request)
    streamed(request.scope)
    stopping = rest.around.stopping
    answers = until_stopped(stopping, _answers(rest, topic, request))
    first = await anext(answers, None)
    if first is None and stopping.is_set():
        raise Problem(503, "the broker is stopping")
    if first is None:
        raise Problem(400, "the body has no record")

    async def lines() -> AsyncIterator[bytes]:
        try:
            yield _line(first)
            async for answer in answers:
                yield _line(answer)
        finally:
            await answers.aclose()

    code = int(first["error_code"])
    status = code if code < 1000 else code // 100
    return _BothWays(lines(), status, media_type="application/json")


class _BothWays(StreamingResponse):
    """An answer that is sent while the body still arrives.  Starlette's own response would read the connection to detect
    its end, and so take pieces of the body; here the reader of the body detects the end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


def _line(answer: dict[str, Any]) -> bytes:
    return written(answer) + b"\r\n"


async def _answers(rest: Rest, topic: str, request: Request) -> Any:
    waiting: asyncio.Queue[Awaitable[dict[str, Any]] | None] = asyncio.Queue(UNDER_WAY_MAX)

    async def read() -> None:
        try:
            async for record in _objects(request, rest.around.config.tidelog_http_body_bytes_max):
                await waiting.put(await begun(rest, topic, record))
        except Problem as problem:
            await waiting.put(_failed(problem))
        finally:
            await waiting.put(None)

    reading = asyncio.get_running_loop().create_task(read())
    try:
        while (answer := await waiting.get()) is not None:
            yield await answer
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _failed(problem: Problem) -> dict[str, Any]:
    return {"error_code": problem.code, "message": problem.message}


async def _objects(request: Request, bytes_max: int) -> AsyncIterator[Any]:
    """JSON values as soon as each is complete."""
    length_max = min(bytes_max, TEXT_MAX)
    values, decode = Split(length_max), codecs.getincrementaldecoder("utf-8")().decode
    async for chunk in request.stream():
        try:
            came = decode(chunk)
            for at in range(0, len(came), PIECE):
                for text in values.feed(came[at : at + PIECE]):
                    yield parse_long(text) if len(text) <= LONG else await asyncio.to_thread(parse_long, text)
                await asyncio.sleep(0)  # other work gets a turn
        except UnicodeDecodeError as problem:
            raise Problem(400, f"the body is not UTF-8: {problem}") from None
        except TooLong:
            message = f"a record is too large: at most {length_max} characters of JSON"
            raise refuse(request.scope, message) from None
        except (ValueError, RecursionError) as problem:
            raise Problem(400, f"a record is not JSON: {problem}") from None
    try:
        decode(b"", final=True)
    except UnicodeDecodeError as problem:
        raise Problem(400, f"the body is not UTF-8: {problem}") from None
    if values.begun:
        raise Problem(400, "a record is not JSON: the body ends in the middle of it")


async def begun(
    rest: Rest, topic: str, given: Any, fields: tuple[str, ...] = FIELDS
) -> Awaitable[dict[str, Any]]:
    """Sends the record; the awaitable result is its answer."""
    try:
        if not isinstance(given, dict):
            raise Problem(400, "a record must be a JSON object")
        only(given, fields, "a record")
        wanted = given.get("partition_id")
        if isinstance(wanted, int) and wanted < 0:
            raise Problem(404, f"topic {topic!r} has no partition {wanted}", 40403)
        partition = None if wanted is None else number(wanted, "partition_id")
        key, value = [await side_of(rest, topic, given, which) for which in ("key", "value")]
        at = None if given.get("timestamp") is None else time_of(given["timestamp"])
        producer = await rest.around.clients.producer()
        sent = await producer.send(topic, value.data, key.data, _headers(given), at, partition)
    except Problem as problem:
        return _failed(problem)
    except errors.TidelogError as problem:
        return _failed(refused(problem))

    async def done() -> dict[str, Any]:
        try:
            at = await sent
        except errors.TidelogError as problem:
            return await _failed(refused(problem))
        time = datetime.fromtimestamp(at.timestamp / 1000, UTC).isoformat(timespec="milliseconds")
        return {
            "error_code": 200,
            "cluster_id": rest.around.cluster_id,
            "topic_name": topic,
            "partition_id": at.partition,
            "offset": at.offset,
            "timestamp": time.replace("+00:00", "Z"),
            **key.answer_fields,
            **value.answer_fields,
        }

    return done()


def _headers(given: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    listed, headers = given.get("headers") or [], []
    for header in listed if isinstance(listed, list) else [None]:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise Problem(400, 'headers must be a list of {"name", "value"}')
        only(header, ("name", "value"), "a header")
        value = header.get("value")
        headers.append((header["name"], None if value is None else unpacked(value, "the value of a header")))
    return headers
