"""The schema registry over HTTP: Confluent's paths, answered by the broker that leads `_schemas`, to which the
other brokers forward requests.

Paths are split before they are decoded, so that the name of a subject may contain slashes and any other character."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tidelog import errors
from tidelog.gateways.http import identity
from tidelog.gateways.http.authentication import signed_headers
from tidelog.gateways.http.guard import at_most
from tidelog.gateways.http.json_steps import LONG, parse_long
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.registry import schemas, subjects
from tidelog.gateways.registry.audited import CHANGES, RecordedChange
from tidelog.gateways.registry.call import Call, Plain
from tidelog.gateways.registry.rights import answered
from tidelog.net.http_request import NoAnswer, NotSent, send
from tidelog.registry import refusal
from tidelog.registry.coordinator import FORWARDED, NotRegistryLeader, SchemaRegistry
from tidelog.registry.refusal import Refusal
from tidelog.registry.subjects import context_named
from tidelog.types import NodeId

log = logging.getLogger("tidelog.registry")

PREFIXES = ("/subjects", "/schemas", "/config", "/compatibility", "/mode", "/contexts")
METHODS = ["GET", "POST", "PUT", "DELETE"]
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_MEDIA_TYPES = frozenset((MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json"))
_ACCEPTED = _MEDIA_TYPES | {"*/*", "application/*"}
_SENT = _MEDIA_TYPES | {"application/octet-stream"}
NOT_LEADER = "x-tidelog-not-leader"
"""A header of answers: nothing was done, because another broker leads."""
ELECTION_S_MAX = 10.0
LOOK_S = 0.1
BODY_BYTES_MAX = 4 << 20  # a schema of more than one megabyte cannot be stored

Handler = Callable[[Call], Awaitable[Any]]

ENDPOINTS: dict[tuple[str, str], Handler] = {
    ("GET", "subjects"): subjects.subjects,
    ("POST", "subjects/{}"): subjects.look_up,
    ("DELETE", "subjects/{}"): subjects.delete_subject,
    ("GET", "subjects/{}/versions"): subjects.versions,
    ("POST", "subjects/{}/versions"): subjects.register,
    ("GET", "subjects/{}/versions/{}"): subjects.version,
    ("DELETE", "subjects/{}/versions/{}"): subjects.delete_version,
    ("GET", "subjects/{}/versions/{}/schema"): subjects.version_text,
    ("GET", "subjects/{}/versions/{}/referencedby"): subjects.referenced_by,
    ("POST", "compatibility/subjects/{}/versions"): subjects.check_all,
    ("POST", "compatibility/subjects/{}/versions/{}"): subjects.check_version,
    ("GET", "schemas"): schemas.schemas,
    ("GET", "schemas/types"): schemas.types,
    ("GET", "schemas/ids/{}"): schemas.by_id,
    ("GET", "schemas/ids/{}/schema"): schemas.text_by_id,
    ("GET", "schemas/ids/{}/subjects"): schemas.subjects_of_id,
    ("GET", "schemas/ids/{}/versions"): schemas.versions_of_id,
    ("GET", "schemas/guids/{}"): schemas.by_guid,
    ("GET", "schemas/guids/{}/ids"): schemas.ids_of_guid,
    ("GET", "config"): schemas.config,
    ("PUT", "config"): schemas.set_config,
    ("DELETE", "config"): schemas.delete_config,
    ("GET", "config/{}"): schemas.config,
    ("PUT", "config/{}"): schemas.set_config,
    ("DELETE", "config/{}"): schemas.delete_config,
    ("GET", "mode"): schemas.mode,
    ("PUT", "mode"): schemas.set_mode,
    ("DELETE", "mode"): schemas.delete_mode,
    ("GET", "mode/{}"): schemas.mode,
    ("PUT", "mode/{}"): schemas.set_mode,
    ("DELETE", "mode/{}"): schemas.delete_mode,
    ("GET", "contexts"): schemas.contexts,
    ("DELETE", "contexts/{}"): schemas.delete_context,
}
_WITH_METADATA = "subjects/{}/metadata"
_PATTERNS = [(pattern.split("/"), pattern) for _, pattern in ENDPOINTS] + [
    (_WITH_METADATA.split("/"), _WITH_METADATA)
]


def routes(around: Surroundings) -> list[BaseRoute]:
    gateway = _Gateway(around)
    found: list[BaseRoute] = []
    for prefix in PREFIXES:
        found.append(Route(prefix, gateway.answer, methods=METHODS))
        found.append(Route(prefix + "/{rest:path}", gateway.answer, methods=METHODS))
    return found


class _Gateway:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._registry: SchemaRegistry = around.services.registry

    async def answer(self, request: Request) -> Response:
        try:
            call, handler, endpoint = await self._understood(request)

            async def allowed(call: Call) -> Any:
                return await answered(self._around, call, endpoint, handler)

            with self._recorded(request, call, endpoint) as outcome:
                outcome.response = await self._answer(request, call, allowed)
                return outcome.response
        except Refusal as problem:
            return _told({"error_code": problem.number, "message": str(problem)}, problem.status)

    def _recorded(self, request: Request, call: Call, endpoint: tuple[str, str]) -> RecordedChange:
        """Changes are recorded by the broker that the client asked, not by the one that it forwards them to."""
        forwarded = FORWARDED in request.headers
        return RecordedChange(self._around, request, call, None if forwarded else CHANGES.get(endpoint))

    async def _understood(self, request: Request) -> tuple[Call, Handler, tuple[str, str]]:
        _check_media_types(request)
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        parts = [unquote(part) for part in raw.decode("ascii", "replace").strip("/").split("/")]
        context = None
        if parts[0] == "contexts" and len(parts) > 2:
            context, parts = context_named(parts[1]), parts[2:]
        pattern, names = _match(parts)
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        at_most(request.scope, BODY_BYTES_MAX)
        content = await request.body()
        call = Call(self._registry, names, dict(pairs), content, context)
        if len(content) > LONG:
            call = call._replace(read=await asyncio.to_thread(_long, content))
        if pattern == _WITH_METADATA and request.method == "GET":
            keys = [value for name, value in pairs if name == "key"]
            values = [value for name, value in pairs if name == "value"]
            handler: Handler | None = lambda call: subjects.with_metadata(call, keys, values)  # noqa: E731
        else:
            handler = ENDPOINTS.get((request.method, pattern))
        if handler is None:
            raise Problem(405, f"{request.method} is not allowed at {request.url.path}")
        return call, handler, (request.method, pattern)

    async def _answer(self, request: Request, call: Call, handler: Handler) -> Response:
        """Answers here, or forwards to the leader.  Without a leader, it waits a moment for one."""
        deadline = asyncio.get_running_loop().time() + ELECTION_S_MAX
        came_through = request.headers.get(FORWARDED)
        while True:
            try:
                return _told(await handler(call))
            except NotRegistryLeader as elsewhere:
                if came_through is not None:
                    problem = refusal.not_forwarded(f"broker {self._around.node_id} does not lead")
                    body = {"error_code": problem.number, "message": str(problem)}
                    return _told(body, 503, {NOT_LEADER: "true"})
                answer, why = await self._hand_on(request, call, elsewhere.leader)
                if answer is not None:
                    return answer
            except errors.TidelogError as problem:
                if isinstance(problem, Refusal):
                    raise
                raise _refused(problem) from problem
            if asyncio.get_running_loop().time() >= deadline:
                raise refusal.not_forwarded(why)
            await asyncio.sleep(LOOK_S)

    async def _hand_on(
        self, request: Request, call: Call, leader: NodeId | None
    ) -> tuple[Response | None, str]:
        """The answer of the leader; None and a reason when it is certain that nothing was done."""
        if leader is None:
            return None, "_schemas-0 has no leader now: try again"
        address = self._around.http_of(leader)
        if address is None:
            return None, f"broker {leader} leads _schemas-0, and its HTTP port cannot be reached from here"
        path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("ascii", "replace")
        query = request.scope["query_string"].decode("latin-1")
        headers = {FORWARDED: str(self._around.node_id), "accept": MEDIA_TYPE, "content-type": MEDIA_TYPE}
        headers |= signed_headers(self._around.services, identity.behalf())
        try:
            answer = await send(
                address,
                request.method,
                f"{path}?{query}" if query else path,
                headers,
                call.content,
                tls=self._around.peer_tls(),
            )
        except NotSent as problem:
            return None, str(problem)
        except NoAnswer as problem:
            raise refusal.not_forwarded(f"{problem}; the request may have been carried out") from None
        if NOT_LEADER in answer.headers:
            return None, f"broker {leader} does not lead _schemas-0 yet: try again"
        return Response(answer.body, answer.status, media_type=answer.headers.get("content-type")), ""


def _long(content: bytes) -> Any:
    try:
        return parse_long(content.decode())
    except (ValueError, RecursionError) as problem:
        raise Refusal(400, 400, f"The body is not JSON: {problem}") from None


def _match(parts: list[str]) -> tuple[str, tuple[str, ...]]:
    for segments, pattern in _PATTERNS:
        if len(segments) == len(parts) and all(
            segment in ("{}", part) for segment, part in zip(segments, parts, strict=True)
        ):
            names = tuple(part for segment, part in zip(segments, parts, strict=True) if segment == "{}")
            return pattern, names
    raise Problem(404, f"there is nothing at /{'/'.join(parts)}")


def _check_media_types(request: Request) -> None:
    accept = request.headers.get("accept")
    if accept is not None:
        wanted = [name.partition(";")[0].strip().lower() for name in accept.split(",")]
        if not _ACCEPTED.intersection(wanted) and any(wanted):
            raise Problem(406, f"the answer is {MEDIA_TYPE} or application/json, not {accept}")
    sent = request.headers.get("content-type", MEDIA_TYPE)
    if request.method in ("POST", "PUT") and sent.partition(";")[0].strip().lower() not in _SENT:
        raise Problem(415, f"the body must be {MEDIA_TYPE} or application/json, not {sent}")


def _told(answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    if answer is None:
        return Response(status_code=204)
    if isinstance(answer, Plain):
        return Response(answer.encode("utf-8", "surrogatepass"), status, headers, MEDIA_TYPE)
    content = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return Response(content.encode("utf-8", "surrogatepass"), status, headers, MEDIA_TYPE)


def _refused(problem: errors.TidelogError) -> Refusal:
    """An error of the layers below, with a code of the registry."""
    if isinstance(problem, errors.NotCoordinator | errors.CoordinatorLoadInProgress):
        return refusal.not_forwarded(str(problem))
    if isinstance(problem, errors.CoordinatorNotAvailable):
        return refusal.timed_out(str(problem))
    if isinstance(problem, errors.UnknownServerError | errors.RecordListTooLarge):
        return refusal.schema_too_large(str(problem))
    log.error("the registry cannot write to _schemas: %s", problem)
    return refusal.store_failed(str(problem))
