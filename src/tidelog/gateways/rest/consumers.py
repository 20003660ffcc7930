"""REST proxy, version 2: the endpoints of consumer instances, and their error codes."""

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
from tidelog.gateways.rest.instance import CONFLICT, GONE, Options, ReadBounds
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
    """An error of the broker or the consumer, with its code of version 2."""
    if isinstance(problem, ClientClosed):
        return Problem(404, "this consumer instance was closed", GONE)
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
    path = "/".join(quote(part, safe="") for part in parts)
    base = f"{request.url.scheme}://{request.url.netloc}/{path}"
    return _answer({"instance_id": made.options.name, "base_uri": base})


def _options(body: dict[str, Any], otherwise: str) -> Options:
    strange = sorted(set(body) - SETTINGS)
    if strange:
        raise Problem(
            422, f"{strange[0]!r} is not a setting of an instance: use {', '.join(sorted(SETTINGS))}"
        )
    name = body.get("id") or body.get("name") or otherwise
    # Clients remove . and .. from paths.
    if not isinstance(name, str) or name in (".", "..") or len(name) > NAME_MAX:
        raise Problem(
            422, f"a name must be a string of at most {NAME_MAX} characters, and not . or ..", NOT_A_SETTING
        )
    given = body.get("format") or "binary"
    kind = FORMATS.get(given.lower()) if isinstance(given, str) else None
    if kind is None:
        raise Problem(422, f"a format must be one of {', '.join(FORMATS)}, not {given!r}")
    reset = body.get("auto.offset.reset")
    if reset not in (None, "earliest", "latest", "none"):
        raise Problem(
            422, f"auto.offset.reset must be earliest, latest or none, not {reset!r}", NOT_A_SETTING
        )
    commit = body.get("auto.commit.enable")
    if commit is not None and not isinstance(commit, bool) and commit not in ("true", "false"):
        raise Problem(422, f"auto.commit.enable must be true or false, not {commit!r}", NOT_A_SETTING)
    least = body.get("fetch.min.bytes")
    if least is not None and not _is_number(least, -1, BYTES_MIN_MAX):
        raise Problem(422, f"fetch.min.bytes must be from -1 to {BYTES_MIN_MAX}, not {least!r}", NOT_A_SIZE)
    wait = body.get("consumer.request.timeout.ms")
    if wait is not None and not _is_number(wait, 0, WAIT_MS_MAX):
        message = f"consumer.request.timeout.ms must be from 0 to {WAIT_MS_MAX}, not {wait!r}"
        raise Problem(422, message, NOT_A_SETTING)
    # -1 stands for the broker's bound.
    bytes_min = 1 if least is None else OFFSET_MAX if least < 0 else least
    return Options(name, kind, reset or "latest", commit in (None, True, "true"), bytes_min, wait)


def _is_number(value: Any, lowest: int, highest: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


async def delete(rest: Rest, request: Request) -> Response:
    await rest.instances.delete(*_named(request))
    return Response(status_code=204)


# Subscriptions and assignments


async def subscribe(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        body = await body_of(request, 422)
        only(body, ("topics", "topic_pattern"), "a subscription", 422)
        topics, text = body.get("topics"), body.get("topic_pattern")
        if topics is not None and text is not None:
            raise Problem(409, "topics and topic_pattern exclude each other: use one of them", CONFLICT)
        if text is not None:
            if not isinstance(text, str) or not text:
                raise Problem(422, "topic_pattern must be a regular expression")
            await instance.subscribe_pattern(_compiled(text))
        elif not isinstance(topics, list) or not topics or not all(map(_is_name, topics)):
            raise Problem(422, "topics must be a non-empty list of names; otherwise use topic_pattern")
        elif len(topics) > TOPICS_MAX:
            raise Problem(
                422, f"{len(topics)} topics are too many: name at most {TOPICS_MAX}, or use topic_pattern"
            )
        else:
            await instance.subscribe(topics)
    return Response(status_code=204)


def _is_name(topic: Any) -> bool:
    return isinstance(topic, str) and _NAME.fullmatch(topic) is not None


def _compiled(text: str) -> Any:
    from tidelog.groups.consumer.regex import compiled

    try:
        return compiled(text)  # by RE2, whose time is bounded for every pattern
    except (errors.InvalidRegularExpression, UnicodeError) as problem:
        raise Problem(422, str(problem)) from None


async def subscription(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        return _answer({"topics": instance.subscription(rest.image.topics)})


async def unsubscribe(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        await instance.unsubscribe()
    return Response(status_code=204)


async def assign(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        await instance.assign(_partitions(rest, await body_of(request, 422)))
    return Response(status_code=204)


async def assignment(rest: Rest, request: Request) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        listed = [{"topic": part.topic, "partition": part.partition} for part in instance.assignment()]
        return _answer({"partitions": listed})


def _partitions(rest: Rest, body: dict[str, Any]) -> list[TopicPartition]:
    only(body, ("partitions",), "a body", 422)
    return [_partition(rest, place) for place in _list(body, "partitions")]


def _list(body: dict[str, Any], name: str, *more: str) -> list[dict[str, Any]]:
    """`more`: the fields besides topic and partition."""
    listed = body.get(name)
    if not isinstance(listed, list) or not all(isinstance(place, dict) for place in listed):
        raise Problem(422, f'{name} must be a list of {{"topic", "partition"}}')
    for place in listed:
        only(place, ("topic", "partition", *more), name, 422)
    return listed


def _partition(rest: Rest, place: dict[str, Any]) -> TopicPartition:
    topic = place.get("topic")
    if not isinstance(topic, str):
        raise Problem(422, "topic must be a string")
    index = number(place.get("partition"), "a partition", status=422)
    described = rest.image.topics.get(topic)
    if described is None:
        raise Problem(404, f"topic {topic!r} does not exist", TOPIC_GONE)
    if index >= len(described.partitions):
        raise Problem(404, f"topic {topic!r} has no partition {index}", PARTITION_GONE)
    return TopicPartition(topic, index)


# Positions


async def seek(rest: Rest, request: Request) -> Response:
    """Seeks to offsets, or to the first records at or after a time."""
    with rest.instances.using(*_named(request)) as instance:
        body = await body_of(request, 422)
        only(body, ("offsets", "timestamps"), "a body", 422)
        if body.get("offsets") is None and body.get("timestamps") is None:
            raise Problem(422, 'the body needs "offsets" or "timestamps"')
        places: dict[TopicPartition, int | str] = {}
        for part in _list({"offsets": [], **_present(body)}, "offsets", "offset", "metadata"):
            places[_partition(rest, part)] = _offset(part)
        times: dict[TopicPartition, int] = {}
        for part in _list({"timestamps": [], **_present(body)}, "timestamps", "timestamp", "metadata"):
            at = part.get("timestamp")
            times[_partition(rest, part)] = at if _is_number(at, 0, OFFSET_MAX) else time_of(at, 422)
        if times:
            places |= await instance.times(times)
        await instance.seek(places)
    return Response(status_code=204)


def _present(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _offset(place: Mapping[str, Any]) -> int:
    offset = place.get("offset")
    if not _is_number(offset, 0, OFFSET_MAX):
        raise Problem(422, f"an offset must be a whole number from 0, not {offset!r}")
    return offset


async def seek_to_beginning(rest: Rest, request: Request) -> Response:
    return await _seek_all(rest, request, "beginning")


async def seek_to_end(rest: Rest, request: Request) -> Response:
    return await _seek_all(rest, request, "end")


async def _seek_all(rest: Rest, request: Request, place: str) -> Response:
    with rest.instances.using(*_named(request)) as instance:
        partitions = _partitions(rest, await body_of(request, 422))
        await instance.seek(dict.fromkeys(partitions, place))
    return Response(status_code=204)


# Offsets


async def commit(rest: Rest, request: Request) -> Response:
    """The client commits the offset of the last record it has processed; the group continues at the next one."""
    later = request.query_params.get("async", "false").lower()
    if later not in ("", "true", "false"):
        raise Problem(422, f"async must be true or false, not {later!r}")
    with rest.instances.using(*_named(request)) as instance:
        body = await body_of(request, 422) if await request.body() else {}
        offsets: dict[TopicPartition, OffsetAndMetadata] | None = None
        only(body, ("offsets",), "a body", 422)
        if body.get("offsets") is not None:
            offsets = {}
            for part in _list(body, "offsets", "offset", "metadata"):
                metadata = part.get("metadata")
                if metadata is not None and not isinstance(metadata, str):
                    raise Problem(422, "metadata must be a string")
                offsets[_partition(rest, part)] = OffsetAndMetadata(_offset(part) + 1, metadata or "")
        done = await instance.commit(offsets, later != "true")
    return _answer([_place(part, at) for part, at in sorted(done.items())])


async def committed(rest: Rest, request: Request) -> Response:
    """The committed offsets of the partitions in the body, or of all assigned partitions."""
    with rest.instances.using(*_named(request)) as instance:
        body = await body_of(request, 422) if await request.body() else {}
        wanted = _partitions(rest, body) if body else None
        committed = await instance.committed(wanted)
    listed = [
        {**_place(part, at), "metadata": at.metadata} for part, at in committed.items() if at is not None
    ]
    return _answer({"offsets": listed})


def _place(part: TopicPartition, at: OffsetAndMetadata) -> dict[str, Any]:
    return {"topic": part.topic, "partition": part.partition, "offset": at.offset}


# Records


async def records(rest: Rest, request: Request) -> Response:
    """`timeout` and `max_bytes` may lower the bounds of the instance and the broker."""
    with rest.instances.using(*_named(request)) as instance:
        config, kind = rest.around.config, instance.options.kind
        media_type = _accepted(request, kind)
        wait_ms = instance.options.wait_ms
        if wait_ms is None:
            wait_ms = config.tidelog_rest_consumer_request_timeout_ms
        bytes_max = config.tidelog_rest_consumer_request_bytes_max
        asked_ms, asked_bytes = _asked(request, "timeout"), _asked(request, "max_bytes")
        bounds = ReadBounds(
            wait_ms if asked_ms < 0 else min(asked_ms, wait_ms),
            bytes_max if asked_bytes <= 0 else min(asked_bytes, bytes_max),
        )

        async def tell(record: Any) -> bytes:
            side = "key"
            try:
                key = None if record.key is None else await _told(rest, kind, record.key)
                side = "value"
                value = None if record.value is None else await _told(rest, kind, record.value)
                fields = {"topic": record.topic, "key": key, "value": value}
                return written({**fields, "partition": record.partition, "offset": record.offset})
            except (ValueError, RecursionError) as problem:
                where = f"{record.topic}-{record.partition} at offset {record.offset}"
                message = f"the {side} of {where} is not {kind}: {problem}; seek past the record to continue"
                raise Problem(422, message[:1000], NOT_READABLE) from None

        lines = await instance.read(bounds, tell, request.is_disconnected)
    return Response(b"[" + b",".join(lines) + b"]", media_type=media_type)


async def _told(rest: Rest, kind: str, data: bytes) -> Any:
    if kind == "BINARY":
        return base64.b64encode(data).decode()
    return parse(data) if kind == "JSON" else await rest.schemas.decode(kind, data)


def _accepted(request: Request, kind: str) -> str:
    """The content type of the answer, if the client accepts it."""
    own = next(
        f"application/vnd.kafka.{name}.v2+json" for name, written in FORMATS.items() if written == kind
    )
    listed = request.headers.get("accept", "")
    wanted = {name.partition(";")[0].strip().lower() for name in listed.split(",")}
    if own in wanted or wanted & _ANYTHING:
        return own
    if wanted & {f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}:
        raise Problem(406, f"this instance answers with {own}, not {listed}", OTHER_FORMAT)
    raise Problem(406, f"the answer is {own}, not {listed}")


def _asked(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return -1
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise Problem(422, f"{name} must be a whole number, not {text!r}")
    return int(text)


def _answer(body: Any) -> Response:
    return JsonAnswer(body, media_type=MEDIA_TYPE)
