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
from tidelog.gateways.http.json_text import parse_request
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.rights import TOPIC, visible
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.rest.instances import Instances
from tidelog.gateways.rest.schemas import Schemas
from tidelog.metadata.image.image import Image

INT32_MAX = 2**31 - 1
BYTES_MAX = 1 << 20  # of a body without records


class Rest:
    """What all requests of a broker share."""

    def __init__(self, around: GatewayServices) -> None:
        self.around = around
        self.schemas = Schemas(around)
        self.instances = Instances(around)
        self.streams = 0
        """How many streams of server-sent events are open."""

    @property
    def image(self) -> Image:
        return self.around.image

    def topic(self, request: Request, code: int) -> Any:
        name = request.path_params["topic"]
        topic = self.image.topics.get(name)
        if topic is None:
            raise Problem(404, f"topic {name!r} does not exist", code)
        return topic

    def visible_topics(self) -> list[str]:
        """The names of the topics that the user may see, in order."""
        return sorted(name for name in self.image.topics if visible(self.around, TOPIC, name))

    def cluster(self, request: Request) -> str:
        """The cluster id in the path, which must be that of this cluster."""
        given: str = request.path_params["cluster"]
        if given != self.around.cluster_id:
            raise Problem(
                404, f"cluster {given!r} is not served here: this is cluster {self.around.cluster_id!r}"
            )
        return given


FORMATS = ("binary", "json", "avro", "jsonschema", "protobuf")
BODIES = frozenset(
    {"application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka+json"}
    | {f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}
)


ACCEPTED = BODIES | {"", "*/*", "application/*"}


def check_accepted(request: Request) -> None:
    """Raises `Problem` unless the client accepts JSON, or events where it asks for events."""
    listed = request.headers.get("accept", "")
    wanted = {name.partition(";")[0].strip().lower() for name in listed.split(",")}
    served = {"text/event-stream", "text/*"} if request.url.path.endswith("/events") else ACCEPTED
    if not wanted & (served | {"*/*", ""}):
        raise Problem(
            406, f"the answer is {'events' if served is not ACCEPTED else 'application/json'}, not {listed}"
        )


def media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request, status: int = 400, bytes_max: int | None = BYTES_MAX) -> dict[str, Any]:
    """The JSON object of the body.  `status`: of the refusal of other JSON.  `bytes_max`: None for the broker's bound."""
    if bytes_max is not None:
        at_most(request.scope, bytes_max)
    check_sent(request)
    body = await request.body()
    try:
        value = parse_request(body) if len(body) <= LONG else await asyncio.to_thread(_long, body)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, f"the body is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise Problem(status, "the body must be a JSON object")
    return value


def only(given: dict[str, Any], fields: Collection[str], subject: str, status: int = 400) -> None:
    """Refuses unknown fields: one may be misspelt, and ignoring it would do something else than was meant."""
    strange = next((name for name in given if name not in fields), None)
    if strange is not None:
        raise Problem(status, f"{subject} has no field {strange[:100]!r}: use {', '.join(fields)}")


def flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Problem(400, f"{name} must be true or false, not {value!r}")
    return value is True


def check_sent(request: Request) -> None:
    """Raises `Problem` unless the content type of the body is JSON."""
    sent = media_type_of(request) or "application/json"
    if sent not in BODIES:
        raise Problem(415, f"the body must be application/json, not {sent}")


def _long(body: bytes) -> Any:
    return parse_long(body.decode())


def number(value: Any, subject: str, lowest: int = 0, status: int = 400, highest: int = INT32_MAX) -> int:
    """A whole number of a body or a path."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise Problem(status, f"{subject} must be a whole number from {lowest} to {highest}, not {value!r}")
    return value


def time_of(given: Any, status: int = 400) -> int:
    """Milliseconds of a time in ISO 8601, in UTC unless it has a zone."""
    try:
        at = datetime.fromisoformat(given)
        ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        ms = -1
    if ms < 0:
        raise Problem(status, f"a timestamp must be like 2026-01-31T09:00:00Z and after 1970, not {given!r}")
    return ms


def unpacked(text: Any, subject: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Problem(400, f"{subject} is not base64") from None


def refused(problem: errors.TidelogError, topic_gone: int = 40403) -> Problem:
    """A broker's error as a `Problem`.  `topic_gone`: the code of a missing topic, which differs by version."""
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
