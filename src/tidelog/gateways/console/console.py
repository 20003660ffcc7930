"""What the pages share: the broker they belong to, the poller of the cluster, and the answers to failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import tidelog
from tidelog import errors
from tidelog.gateways.console.cluster.poller import ClusterPoller
from tidelog.gateways.console.parts.layout import BrokerIdentity, error_page, redirect
from tidelog.gateways.console.records.decoder import Decoder
from tidelog.gateways.console.records.registry_client import RegistryClient
from tidelog.gateways.console.records.search import READERS_MAX
from tidelog.gateways.http import identity, rights
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.gateways.http.services import GatewayServices

MISSING = (errors.UnknownTopicOrPartition, errors.GroupIdNotFound, errors.TransactionalIdNotFound)
FORBIDDEN = (
    errors.TopicAuthorizationFailed,
    errors.GroupAuthorizationFailed,
    errors.ClusterAuthorizationFailed,
    errors.TransactionalIdAuthorizationFailed,
)

PageHandler = Callable[["Console", Request], Awaitable[Response]]


class Console:
    def __init__(self, around: GatewayServices) -> None:
        self.around = around
        self.poller = ClusterPoller(around)
        self.registry = RegistryClient(around)
        self.decoder = Decoder(self.registry)
        self.readers = asyncio.Semaphore(READERS_MAX)
        self.tails = 0
        around.closing.push_async_callback(self.poller.stop)

    async def admin(self) -> Admin:
        return await self.around.clients.admin()

    def now_ms(self) -> int:
        return self.around.clock.now_ms()

    def page(self, address: str, handler: PageHandler) -> Route:
        """A page to view."""

        async def answer(request: Request) -> Response:
            request.state.identity = self._identity()
            await self.poller.page_viewed()
            try:
                rights.check(self.around, request, address)
                return await handler(self, request)
            except FAILURES as problem:
                status, text = failure_of(problem)
                return error_page(request, _title(status), text, status)

        return Route(address, answer)

    def peer(self, address: str, handler: PageHandler) -> Route:
        """An address that the consoles of other brokers ask."""

        async def answer(request: Request) -> Response:
            rights.check(self.around, request, address)
            return await handler(self, request)

        return Route(address, answer)

    def action(self, address: str, handler: PageHandler) -> Route:
        """A form that changes something.  A failure is shown on the page that the form was on."""

        async def answer(request: Request) -> Response:
            request.state.identity = self._identity()
            try:
                rights.check(self.around, request, address)
                return await handler(self, request)
            except FAILURES as problem:
                status, text = failure_of(problem)
                if (back := referring_page(request)) is None or isinstance(problem, Problem):
                    return error_page(request, _title(status), text, status)
                return redirect(back, text, failed=True)

        return Route(address, answer, methods=["POST"])

    def _identity(self) -> BrokerIdentity:
        session = identity.session() if self.around.config.http_logs_in else None
        user = "" if session is None else session.user
        return BrokerIdentity(tidelog.__version__, self.around.cluster_id, self.around.node_id, user)


FAILURES = (Problem, errors.TidelogError, ExceptionGroup)


def failure_of(problem: Exception) -> tuple[int, str]:
    """The HTTP status of a failure, and the sentence that describes it."""
    if isinstance(problem, Problem):
        return problem.status, _sentence(problem.message)
    if isinstance(problem, ExceptionGroup):
        failures = [failure_of(cast(Exception, inner)) for inner in problem.exceptions]
        return max(status for status, _ in failures), " ".join(text for _, text in failures[:5])
    assert isinstance(problem, errors.TidelogError)
    if isinstance(problem, MISSING):
        return 404, _sentence(str(problem))
    if isinstance(problem, FORBIDDEN):
        return 403, _sentence(str(problem))
    return (503 if problem.retriable else 400), _sentence(str(problem))


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _title(status: int) -> str:
    titles = {403: "Not allowed", 404: "Not found", 503: "Temporarily unavailable"}
    return titles.get(status, "Request failed")


def referring_page(request: Request) -> str | None:
    """Path and query of the page that the form was on; None unless it is a page of this console."""
    referer = request.headers.get("referer", "")
    host = request.headers.get("host", "")
    for scheme in ("http://", "https://"):
        if referer.startswith(f"{scheme}{host}/"):
            place = referer[len(scheme) + len(host) :]
            if place == "/" or place.startswith("/console/"):
                return place
    return None


def query_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A number of the query string, limited to `low` and `high`."""
    text = request.query_params.get(name, "").strip().replace(",", "")
    if not text:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise Problem(400, f"{text[:40]!r} is not a whole number: correct {name} in the address or the form")
    return min(max(int(text), low), high)


def query_text(request: Request, name: str, default: str = "") -> str:
    return request.query_params.get(name, default).strip()


def query_name(request: Request) -> str:
    """The `name` of the query string; it may be empty, as names of groups may be."""
    if "name" not in request.query_params:
        raise Problem(400, "the address has no name: add ?name=")
    return request.query_params["name"]
