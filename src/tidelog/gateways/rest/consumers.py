"""REST proxy, version 2: consumer instances.  What they are asked for, and the numbers of what goes wrong."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeGuard
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.client.errors import ClientClosed, CommitFailed
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.gateways.http.json_text import JsonAnswer, parse, written
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, body_of, number, only, refused, time_of
from tidelog.gateways.rest.instance import CONFLICT, GONE, Bounds, Options
from tidelog.gateways.rest.instances import NOT_A_SETTING
from tidelog.gateways.rest.v2 import FORMATS, MEDIA_TYPE, PARTITION_GONE, TOPIC_GONE
from tidelog.types import TopicPartition

NOT_A_SIZE, OTHER_FORMAT, NOT_READABLE = 40001, 40601, 42207
OFFSET_MAX = 2**63 - 2
WAIT_MS_MAX = 600_000
BYTES_MIN_MAX = 10_000_000
NAME_MAX = 200
TOPICS_MAX = 1_000
SETTINGS = {
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "fetch.min.bytes",
    "consumer.request.timeout.ms",
}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ANYTHING = {"", "*/*", "application/*", "application/json", MEDIA_TYPE}
_NOT_NOW = (
    CommitFailed,
    errors.RebalanceInProgress,
    errors.UnknownMemberId,
    errors.IllegalGeneration,
    errors.FencedInstanceId,
    errors.FencedMemberEpoch,
    errors.InconsistentGroupProtocol,
    errors.GroupMaxSizeReached,
    errors.OffsetOutOfRange,
)


def in_v2(problem: errors.TidelogError) -> Problem:
    """What the broker or the consumer said, in the numbers of version 2."""
    if isinstance(problem, ClientClosed):
        return Problem(404, "this consumer instance has been closed", GONE)
    if isinstance(problem, _NOT_NOW):
        return Problem(409, str(problem), CONFLICT)
    if isinstance(problem, errors.InvalidGroupId | errors.OffsetMetadataTooLarge):
        return Problem(422, str(problem), NOT_A_SETTING)
    if isinstance(problem, errors.InvalidTopicException):
        return Problem(422, str(problem))
    return refused(problem, TOPIC_GONE)


def _named(request: Request) -> tuple[str, str]:
    return request.path_params["group"], request.path_params["instance"]


async def create(rest: Rest, request: Request) -> Response:
    group = request.path_params["group"]
    body = await body_of(request, 422) if await request.body() else {}
    made = await rest.instances.create(group, _options(body, rest.instances.new_name()))
    parts = "consumers", group, "instances", made.options.name
    path = "/".join(quote(one, safe="") for one in parts)
    base = f"{request.url.scheme}://{request.url.netloc}/{path}"
    return _answer({"instance_id": made.options.name, "base_uri": base})


def _options(body: dict[str, Any], otherwise: str) -> Options:
    strange = sorted(set(body) - SETTINGS)
    if strange:
        raise Problem(
            422, f"{strange[0]!r} is no setting of an instance: there are {', '.join(sorted(SETTINGS))}"
        )
    name = body.get("id") or body.get("name") or otherwise
    # Clients take . and .. out of paths by themselves.
    if not isinstance(name, str) or name in (".", "..") or len(name) > NAME_MAX:
        raise Problem(422, f"a name is text of {NAME_MAX} letters at most, and not . or ..", NOT_A_SETTING)
    given = body.get("format") or "binary"
    kind = FORMATS.get(given.lower()) if isinstance(given, str) else None
    if kind is None:
        raise Problem(422, f"a format is one of {', '.join(FORMATS)}, not {given!r}")
    reset = body.get("auto.offset.reset")
    if reset not in (None, "earliest", "latest", "none"):
        raise Problem(422, f"auto.offset.reset is earliest, latest or none, not {reset!r}", NOT_A_SETTING)
    commit = body.get("auto.commit.enable")
    if commit is not None and not isinstance(commit, bool) and commit not in ("true", "false"):
        raise Problem(422, f"auto.commit.enable is true or false, not {commit!r}", NOT_A_SETTING)
    least = body.get("fetch.min.bytes")
    if least is not None and not _is_number(least, -1, BYTES_MIN_MAX):
        raise Problem(422, f"fetch.min.bytes is from -1 to {BYTES_MIN_MAX}, not {least!r}", NOT_A_SIZE)
    wait = body.get("consumer.request.timeout.ms")
    if wait is not None and not _is_number(wait, 0, WAIT_MS_MAX):
        said = f"consumer.request.timeout.ms is from 0 to {WAIT_MS_MAX}, not {wait!r}"
        raise Problem(422, said, NOT_A_SETTING)
    # With -1 an answer is as long as it may be.
    bytes_min = 1 if least is None else OFFSET_MAX if least < 0 else least
    return Options(name, kind, reset or "latest", commit in (None, True, "true"), bytes_min, wait)


def _is_number(value: Any, lowest: int, highest: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


async def delete(rest: Rest, request: Request) -> Response:
    await rest.instances.delete(*_named(request))
    return Response(status_code=204)


# Which partitions


async def subscribe(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as one:
        body = await body_of(request, 422)
        only(body, ("topics", "topic_pattern"), "a subscription", 422)
        topics, text = body.get("topics"), body.get("topic_pattern")
        if topics is not None and text is not None:
            raise Problem(409, "topics and topic_pattern exclude each other: name one of them", CONFLICT)
        if text is not None:
            if not isinstance(text, str) or not text:
                raise Problem(422, "topic_pattern is a regular expression")
            await one.subscribe_pattern(_compiled(text))
        elif not isinstance(topics, list) or not topics or not all(map(_is_name, topics)):
            raise Problem(422, "topics is a list of names, with one at least; or name a topic_pattern")
        elif len(topics) > TOPICS_MAX:
            raise Problem(422, f"there are {len(topics)} topics, {TOPICS_MAX} at most: use a topic_pattern")
        else:
            await one.subscribe(topics)
    return Response(status_code=204)


def _is_name(topic: Any) -> bool:
    return isinstance(topic, str) and _NAME.fullmatch(topic) is not None


def _compiled(text: str) -> Any:
    from tidelog.groups.consumer.regex import compiled

    try:
        return compiled(text)  # of RE2, whose time is bounded whatever somebody sends
    except (errors.InvalidRegularExpression, UnicodeError) as problem:
        raise Problem(422, str(problem)) from None


async def subscription(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as one:
        return _answer({"topics": one.subscription(rest.image.topics)})


async def unsubscribe(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as one:
        await one.unsubscribe()
    return Response(status_code=204)


async def assign(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as one:
        await one.assign(_partitions(rest, await body_of(request, 422)))
    return Response(status_code=204)


async def assignment(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as one:
        listed = [{"topic": part.topic, "partition": part.partition} for part in one.assignment()]
        return _answer({"partitions": listed})


def _partitions(rest: Rest, body: dict[str, Any]) -> list[TopicPartition]:
    only(body, ("partitions",), "a body", 422)
    return [_partition(rest, one) for one in _list(body, "partitions")]


def _list(body: dict[str, Any], name: str, *more: str) -> list[dict[str, Any]]:
    """`more`: fields besides those of a partition."""
    listed = body.get(name)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Problem(422, f'{name} is a list of {{"topic", "partition"}}')
    for one in listed:
        only(one, ("topic", "partition", *more), name, 422)
    return listed


def _partition(rest: Rest, one: dict[str, Any]) -> TopicPartition:
    topic = one.get("topic")
    if not isinstance(topic, str):
        raise Problem(422, "a topic is a string")
    index = number(one.get("partition"), "a partition", status=422)
    found = rest.image.topics.get(topic)
    if found is None:
        raise Problem(404, f"there is no topic {topic!r}", TOPIC_GONE)
    if index >= len(found.partitions):
        raise Problem(404, f"topic {topic!r} has no partition {index}", PARTITION_GONE)
    return TopicPartition(topic, index)


# Where in them


async def seek(rest: Rest, request: Request) -> Response:
    """To offsets, and to the first records at or after a time."""
    with rest.instances.using(*_named(request)) as one:
        body = await body_of(request, 422)
        only(body, ("offsets", "timestamps"), "a body", 422)
        if body.get("offsets") is None and body.get("timestamps") is None:
            raise Problem(422, 'a body has "offsets" or "timestamps"')
        places: dict[TopicPartition, int | str] = {}
        for part in _list({"offsets": [], **_present(body)}, "offsets", "offset", "metadata"):
            places[_partition(rest, part)] = _offset(part)
        times: dict[TopicPartition, int] = {}
        for part in _list({"timestamps": [], **_present(body)}, "timestamps", "timestamp", "metadata"):
            at = part.get("timestamp")
            times[_partition(rest, part)] = at if _is_number(at, 0, OFFSET_MAX) else time_of(at, 422)
        if times:
            places |= await one.times(times)
        await one.seek(places)
    return Response(status_code=204)


def _present(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _offset(one: Mapping[str, Any]) -> int:
    offset = one.get("offset")
    if not _is_number(offset, 0, OFFSET_MAX):
        raise Problem(422, f"an offset is a whole number from 0, not {offset!r}")
    return offset


async def seek_to_beginning(rest: Rest, request: Request) -> Response:
    return await _seek_all(rest, request, "beginning")


async def seek_to_end(rest: Rest, request: Request) -> Response:
    return await _seek_all(rest, request, "end")


async def _seek_all(rest: Rest, request: Request, place: str) -> Response:
    with rest.instances.using(*_named(request)) as one:
        partitions = _partitions(rest, await body_of(request, 422))
        await one.seek(dict.fromkeys(partitions, place))
    return Response(status_code=204)


# Offsets


async def commit(rest: Rest, request: Request) -> Response:
    """A committed offset is the one of the last record that is done: the group goes on behind it."""
    later = request.query_params.get("async", "false").lower()
    if later not in ("", "true", "false"):
        raise Problem(422, f"async is true or false, not {later!r}")
    with rest.instances.using(*_named(request)) as one:
        body = await body_of(request, 422) if await request.body() else {}
        offsets: dict[TopicPartition, OffsetAndMetadata] | None = None
        only(body, ("offsets",), "a body", 422)
        if body.get("offsets") is not None:
            offsets = {}
            for part in _list(body, "offsets", "offset", "metadata"):
                told = part.get("metadata")
                if told is not None and not isinstance(told, str):
                    raise Problem(422, "metadata is a string")
                offsets[_partition(rest, part)] = OffsetAndMetadata(_offset(part) + 1, told or "")
        done = await one.commit(offsets, later != "true")
    return _answer([_place(part, at) for part, at in sorted(done.items())])


async def committed(rest: Rest, request: Request) -> Response:
    """Of the partitions in the body, or of all that are assigned."""
    with rest.instances.using(*_named(request)) as one:
        body = await body_of(request, 422) if await request.body() else {}
        wanted = _partitions(rest, body) if body else None
        found = await one.committed(wanted)
    listed = [{**_place(part, at), "metadata": at.metadata} for part, at in found.items() if at is not None]
    return _answer({"offsets": listed})


def _place(part: TopicPartition, at: OffsetAndMetadata) -> dict[str, Any]:
    return {"topic": part.topic, "partition": part.partition, "offset": at.offset}


# Records


async def records(rest: Rest, request: Request) -> Response:
    """`timeout` and `max_bytes` may lower what the instance and the broker allow."""
    with rest.instances.using(*_named(request)) as one:
        config, kind = rest.around.config, one.options.kind
        media_type = _accepted(request, kind)
        wait_ms = one.options.wait_ms
        if wait_ms is None:
            wait_ms = config.tidelog_rest_consumer_request_timeout_ms
        bytes_max = config.tidelog_rest_consumer_request_bytes_max
        asked_ms, asked_bytes = _asked(request, "timeout"), _asked(request, "max_bytes")
        bounds = Bounds(
            wait_ms if asked_ms < 0 else min(asked_ms, wait_ms),
            bytes_max if asked_bytes <= 0 else min(asked_bytes, bytes_max),
        )

        async def tell(record: Any) -> bytes:
            side = "key"
            try:
                key = None if record.key is None else await _told(rest, kind, record.key)
                side = "value"
                value = None if record.value is None else await _told(rest, kind, record.value)
                told = {"topic": record.topic, "key": key, "value": value}
                return written({**told, "partition": record.partition, "offset": record.offset})
            except (ValueError, RecursionError) as problem:
                where = f"{record.topic}-{record.partition} at offset {record.offset}"
                said = f"the {side} of {where} is not {kind}: {problem}; seek past it to go on"
                raise Problem(422, said[:1000], NOT_READABLE) from None

        found = await one.read(bounds, tell, request.is_disconnected)
    return Response(b"[" + b",".join(found) + b"]", media_type=media_type)


async def _told(rest: Rest, kind: str, data: bytes) -> Any:
    if kind == "BINARY":
        return base64.b64encode(data).decode()
    return parse(data) if kind == "JSON" else await rest.schemas.decode(kind, data)


def _accepted(request: Request, kind: str) -> str:
    """What the answer is called, if the client takes it."""
    own = next(f"application/vnd.kafka.{name}.v2+json" for name, one in FORMATS.items() if one == kind)
    listed = request.headers.get("accept", "")
    wanted = {one.partition(";")[0].strip().lower() for one in listed.split(",")}
    if own in wanted or wanted & _ANYTHING:
        return own
    if wanted & {f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}:
        raise Problem(406, f"this instance reads {own}, not {listed}", OTHER_FORMAT)
    raise Problem(406, f"records are {own}, not {listed}")


def _asked(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return -1
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise Problem(422, f"{name} is a whole number, not {text!r}")
    return int(text)


def _answer(body: Any) -> Response:
    return JsonAnswer(body, media_type=MEDIA_TYPE)
