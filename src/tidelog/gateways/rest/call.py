"""What the handlers of the REST proxy share: bodies, numbers, and Kafka's errors in Confluent's numbers."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from tidelog import errors
from tidelog.gateways.http.guard import at_most
from tidelog.gateways.http.json_steps import LONG, parse_long
from tidelog.gateways.http.json_text import asked
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.rest.instances import Instances
from tidelog.gateways.rest.schemas import Schemas
from tidelog.metadata.image import Image

INT32_MAX = 2**31 - 1
BYTES_MAX = 1 << 20  # of a body that has no records in it


class Rest:
    """One for all requests of a broker."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.schemas = Schemas(around)
        self.instances = Instances(around)
        self.streams = 0
        """Server-sent events that are open."""

    @property
    def image(self) -> Image:
        return self.around.image

    def topic(self, request: Request, code: int) -> Any:
        name = request.path_params["topic"]
        found = self.image.topics.get(name)
        if found is None:
            raise Problem(404, f"there is no topic {name!r}", code)
        return found

    def cluster(self, request: Request) -> str:
        """The id in the path, which is the one of this cluster."""
        given: str = request.path_params["cluster"]
        if given != self.around.cluster_id:
            raise Problem(404, f"there is no cluster {given!r} here: this is {self.around.cluster_id!r}")
        return given


FORMATS = ("binary", "json", "avro", "jsonschema", "protobuf")
BODIES = frozenset(
    {"application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka+json"}
    | {f"application/vnd.kafka.{one}.v2+json" for one in FORMATS}
)


ACCEPTED = BODIES | {"", "*/*", "application/*"}


def check_accepted(request: Request) -> None:
    """That the client takes JSON, or the events that it asks for."""
    listed = request.headers.get("accept", "")
    wanted = {one.partition(";")[0].strip().lower() for one in listed.split(",")}
    known = {"text/event-stream", "text/*"} if request.url.path.endswith("/events") else ACCEPTED
    if not wanted & (known | {"*/*", ""}):
        raise Problem(
            406, f"answers are {'events' if known is not ACCEPTED else 'application/json'}, not {listed}"
        )


def media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request, status: int = 400, bytes_max: int | None = BYTES_MAX) -> dict[str, Any]:
    """A JSON object.  `status`: for JSON that is something else.  `bytes_max`: None for what the broker allows."""
    if bytes_max is not None:
        at_most(request.scope, bytes_max)
    check_sent(request)
    body = await request.body()
    try:
        found = asked(body) if len(body) <= LONG else await asyncio.to_thread(_long, body)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, f"the body is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise Problem(status, "the body is a JSON object")
    return found


def only(given: dict[str, Any], known: Collection[str], what: str, status: int = 400) -> None:
    """A field that nobody reads may be a misspelt one, and then something else would be done than was meant."""
    strange = next((one for one in given if one not in known), None)
    if strange is not None:
        raise Problem(status, f"{what} has no field {strange[:100]!r}: there are {', '.join(known)}")


def flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Problem(400, f"{name} is true or false, not {value!r}")
    return value is True


def check_sent(request: Request) -> None:
    """That the body is JSON, by what it is called."""
    sent = media_type_of(request) or "application/json"
    if sent not in BODIES:
        raise Problem(415, f"bodies are application/json, not {sent}")


def _long(body: bytes) -> Any:
    return parse_long(body.decode())


def number(value: Any, what: str, lowest: int = 0, status: int = 400, highest: int = INT32_MAX) -> int:
    """Of a body or a path."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise Problem(status, f"{what} is a whole number from {lowest} to {highest}, not {value!r}")
    return value


def time_of(given: Any, status: int = 400) -> int:
    """Milliseconds of a time in ISO 8601; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(given)
        ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        ms = -1
    if ms < 0:
        raise Problem(status, f"a timestamp is like 2026-01-31T09:00:00Z and after 1970, not {given!r}")
    return ms


def unpacked(text: Any, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Problem(400, f"{what} is not base64") from None


def refused(problem: errors.TidelogError, topic_gone: int = 40403) -> Problem:
    """What the broker said.  `topic_gone`: what version 3 calls it; version 2 has another number."""
    if isinstance(problem, errors.UnknownTopicOrPartition | errors.UnknownTopicId):
        return Problem(404, str(problem), topic_gone)
    if isinstance(problem, errors.GroupIdNotFound):
        return Problem(404, str(problem), 404)
    if isinstance(problem, FORBIDDEN):
        return Problem(403, str(problem), 40301)
    if isinstance(problem, BAD):
        return Problem(400, str(problem), 40002)
    return Problem(503, str(problem), 50003) if problem.retriable else Problem(500, str(problem), 50002)


BAD = (
    errors.TopicAlreadyExists,
    errors.InvalidTopicException,
    errors.InvalidPartitions,
    errors.InvalidReplicationFactor,
    errors.InvalidReplicaAssignment,
    errors.InvalidConfig,
    errors.InvalidRequest,
    errors.PolicyViolation,
    errors.InvalidRecord,
    errors.MessageTooLarge,
    errors.RecordListTooLarge,
    errors.InvalidTimestamp,
    errors.InvalidGroupId,
)
FORBIDDEN = (
    errors.TopicAuthorizationFailed,
    errors.GroupAuthorizationFailed,
    errors.ClusterAuthorizationFailed,
    errors.TransactionalIdAuthorizationFailed,
)
