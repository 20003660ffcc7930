"""What every HTTP request passes first: a request id, who may ask, how much may be sent, and what happens when a handler
fails.

No page of another site can use a browser to reach a broker on the visitor's machine or network: names that are not the
broker's own are refused (a site can make its own name point anywhere), and so are writes that a page of another origin
asks for."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.broker.bounds.quota_manager import measured
from tidelog.gateways.http import identity
from tidelog.gateways.http.authentication import NEGOTIATE, NEGOTIATED, Authentication
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.rights import is_open
from tidelog.gateways.http.services import GatewayServices
from tidelog.logs import request_id

if TYPE_CHECKING:
    from tidelog.broker.session import Session

log = logging.getLogger("tidelog.http")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BODY = "tidelog.body"  # in the scope: what is left of the bound on the body
AUTHENTICATION = "tidelog.authentication"  # in the scope: for the log-in page
_GIVEN_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class Body:
    """How much of a body may still come; None: any amount."""

    __slots__ = ("left", "refused", "whole", "words")

    def __init__(self, limit: int) -> None:
        self.words = f"tidelog.http.body.bytes.max is {limit}"
        self.left: int | None = limit
        self.whole = False
        self.refused = False
        """What still comes is read and dropped once the answer is on its way."""

    def at_most(self, limit: int) -> None:
        """Before anything of it was read."""
        if self.left is not None and limit < self.left:
            self.left, self.words = limit, f"{limit} bytes at most are taken here"

    def announced(self, length: str) -> None:
        """Refused before anything of it is read."""
        if self.left is not None and length.isascii() and length.isdigit() and int(length[:20]) > self.left:
            raise self.too_large()

    def came(self, size: int) -> None:
        if self.left is not None:
            self.left -= size
            if self.left < 0:
                raise self.too_large()

    def too_large(self) -> Problem:
        self.refused = True
        return Problem(413, f"the body is too large: {self.words}", headers=CLOSING)


CLOSING = {"connection": "close"}
DROPPED_BYTES_MAX = 64 << 20
DROPPING_S_MAX = 10.0
PIECE_S_MAX = 30.0
HEALTH = "/health/"
HTTP_REQUEST = -1
"""No key of an API: the request counts as one of a client."""


async def _soon(receive: Receive) -> Message:
    """The next piece of a body that a handler needs whole."""
    try:
        async with asyncio.timeout(PIECE_S_MAX):
            return await receive()
    except TimeoutError:
        raise Problem(
            408, f"nothing of the body came for {PIECE_S_MAX:.0f} seconds", headers=CLOSING
        ) from None


async def _drop(receive: Receive) -> None:
    """Reads what a client still sends, within bounds.  A connection that is closed with something unread is reset, and then
    clients that send everything first never see the answer."""
    left = DROPPED_BYTES_MAX
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DROPPING_S_MAX):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return


def streamed(scope: Scope) -> None:
    """For handlers that take a body piece by piece and keep none of it: it may be of any length."""
    scope[BODY].left = None


def at_most(scope: Scope, limit: int) -> None:
    """For handlers where a body as long as the broker takes makes no sense."""
    if BODY in scope:
        scope[BODY].at_most(limit)


def refuse(scope: Scope, message: str) -> Problem:
    """To be raised: more comes than is taken.  What is still sent is dropped, so that the answer is seen."""
    scope[BODY].refused = True
    return Problem(413, message, headers=CLOSING)


class Guard:
    def __init__(self, app: ASGIApp, around: GatewayServices, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._around = around
        self._crowded = crowded
        self._authentication = Authentication(around.services)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        id_of_request = given if _GIVEN_ID.fullmatch(given) else uuid4().hex
        request_id.set(id_of_request)  # the task of this request has a context of its own
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._around.statuses[message["status"]] += 1
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = id_of_request
                headers.setdefault("x-content-type-options", "nosniff")
                headers.setdefault("x-frame-options", "DENY")
                if scope.get(NEGOTIATED):
                    headers.append("www-authenticate", f"{NEGOTIATE} {scope[NEGOTIATED]}")
            elif body.refused and not message.get("more_body"):
                # All of the answer is on its way before the rest of the body is read.
                await send({**message, "more_body": True})
                await _drop(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        body = scope[BODY] = Body(self._around.config.tidelog_http_body_bytes_max)
        declared = headers.get("content-length", "")

        async def receiving() -> Message:
            nonlocal declared
            if declared:
                body.announced(declared)
                declared = ""
            message = await receive() if body.whole or body.left is None else await _soon(receive)
            body.whole = not message.get("more_body")
            if message["type"] == "http.request":
                body.came(len(message.get("body", b"")))
            return message

        try:
            self._check(scope["method"], headers)
            if self._crowded() and not scope["path"].startswith(HEALTH):
                connections_max = self._around.config.tidelog_http_connections_max
                reason = f"too many are connected: tidelog.http.connections.max is {connections_max}"
                raise Problem(503, reason, headers=CLOSING | {"retry-after": "1"})
            scope[AUTHENTICATION] = self._authentication
            session = await self._identify(scope)
            await self._within_quota(session, partial(self._app, scope, receiving, sending))
        except Problem as problem:
            if begun:
                raise
            answer: Response = problem.answer()
            if problem.status == 401 and self._authentication.negotiates:
                answer.headers.append("www-authenticate", NEGOTIATE)
            if problem.status == 401 and _is_console_page(scope, headers):
                answer = _to_login(scope)
            elif problem.status == 401 and _is_console(scope["path"]) and "sec-fetch-mode" in headers:
                # The console's script: a browser would put its own dialog over the page.
                del answer.headers["www-authenticate"]
            await answer(scope, receive, sending)
        except Exception as problem:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                return  # the client sees an answer that ends too early
            problem_answer = Problem(
                500, f"this is a bug in the broker, which logged it as request {id_of_request}: {problem!r}"
            )
            await problem_answer.answer()(scope, receive, sending)

    async def _identify(self, scope: Scope) -> Session | None:
        """Raises `Problem` 401 for a request without a login where it needs one."""
        config = self._around.config
        if is_open(scope["path"]):
            return None
        if config.http_logs_in:
            session = await self._authentication.identify(scope)
        elif config.authorizes or self._around.services.gate.quotas.active:
            session = self._authentication.anonymous(scope)
        else:
            return None
        if config.http_logs_in or config.authorizes:
            identity.identified(session)
        return session

    async def _within_quota(self, session: Session | None, work: Callable[[], Awaitable[None]]) -> None:
        """Charges the user's request time.  Raises `Problem` 429 once it is used up; bytes of records are charged to the
        user's Kafka connections."""
        quotas = self._around.services.gate.quotas if session is not None else None
        if session is None or quotas is None or not quotas.active or not quotas.measures(session):
            await work()
            return
        throttle_ms = quotas.charge_request(session, HTTP_REQUEST)
        if throttle_ms:
            seconds = -(-throttle_ms // 1000)
            log.info("throttling %s (%s) over HTTP for %d ms", session.principal, session.peer, throttle_ms)
            raise Problem(
                429,
                f"the request time of {session.principal} is used up: try again in {seconds} s",
                headers={"retry-after": str(seconds)},
            )
        try:
            await measured(_awaited(work), session)
        finally:
            quotas.charge_request(session, HTTP_REQUEST)

    def _check(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._is_own(host):
            raise Problem(
                421,
                f"this broker does not go by the name {host!r}: add it to tidelog.http.hosts if it should",
            )
        if method not in SAFE:
            self._check_origin(host, headers)

    def _is_own(self, host: str) -> bool:
        allowed = self._around.config.tidelog_http_hosts
        if "*" in allowed:
            return True
        name = _name_of(host)
        if name == "localhost" or name.endswith(".localhost") or name in self._around.names:
            return True
        return name in {allowed_name.lower() for allowed_name in allowed} or _is_address(name)

    def _check_origin(self, host: str, headers: Headers) -> None:
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site")
        if origin is not None:
            foreign = urlsplit(origin).netloc.lower() != host.lower()
        else:
            foreign = site is not None and site not in ("same-origin", "none")
        if foreign:
            raise Problem(403, f"a page of another site ({origin or site}) sent this request: it was refused")


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _is_console_page(scope: Scope, headers: Headers) -> bool:
    """Whether a person opens a page in a browser, who then gets the log-in page."""
    return (
        scope["method"] == "GET"
        and _is_console(scope["path"])
        and "authorization" not in headers
        and headers.get("sec-fetch-mode", "navigate") == "navigate"
        and "text/html" in headers.get("accept", "")
    )


def _is_console(path: str) -> bool:
    return path in ("/", "/console") or path.startswith("/console/")


def _to_login(scope: Scope) -> Response:
    wanted_url = quote(scope["path"]) + (
        f"?{query}" if (query := scope["query_string"].decode("latin-1")) else ""
    )
    return RedirectResponse(
        f"/console/login?next={quote(wanted_url, safe='')}", 303, {"cache-control": "no-store"}
    )


def _name_of(host: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
