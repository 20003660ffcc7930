"""What the handlers of the REST proxy share: bodies, numbers, and Kafka's errors in Confluent's numbers."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from starlette.requests import Request

from tidelog import errors
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.rest.values import Encoder
from tidelog.metadata.image import Image

INT32_MAX = 2**31 - 1


class Rest:
    """One for all requests of a broker."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.encoder = Encoder(around)
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


async def body_of(request: Request, code: int = 400) -> dict[str, Any]:
    sent = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if sent != "application/json" and not (
        sent.startswith("application/vnd.kafka.") and sent.endswith("+json")
    ):
        raise Problem(415, f"bodies are application/json, not {sent}")
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as problem:
        raise Problem(400, f"the body is not JSON: {problem}", code) from None
    if not isinstance(found, dict):
        raise Problem(400, "the body is a JSON object", code)
    return found


def number(value: Any, what: str, lowest: int = 0) -> int:
    """Of a body or a path."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= INT32_MAX:
        raise Problem(400, f"{what} is a whole number from {lowest}, not {value!r}")
    return value


def unpacked(text: Any, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Problem(400, f"{what} is not base64") from None


def refused(problem: errors.TidelogError) -> Problem:
    """What the broker said."""
    if isinstance(problem, errors.UnknownTopicOrPartition | errors.UnknownTopicId):
        return Problem(404, str(problem), 40403)
    if isinstance(problem, errors.GroupIdNotFound):
        return Problem(404, str(problem), 404)
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
)
