"""What the pages share: the broker around them and what the lookout sees; and what becomes of their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog import errors
from tidelog.gateways.console.decoding import Decoder
from tidelog.gateways.console.frame import go, refused
from tidelog.gateways.console.lookout import Lookout
from tidelog.gateways.console.reading import READERS_MAX
from tidelog.gateways.console.registry import Registry
from tidelog.gateways.http.problem import Problem

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin
    from tidelog.gateways.http.surroundings import Surroundings

MISSING = (errors.UnknownTopicOrPartition, errors.GroupIdNotFound, errors.TransactionalIdNotFound)

Shown = Callable[["Console", Request], Awaitable[Response]]


class Console:
    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.lookout = Lookout(around)
        self.registry = Registry(around)
        self.decoder = Decoder(self.registry)
        self.readers = asyncio.Semaphore(READERS_MAX)
        self.tails = 0
        around.closing.push_async_callback(self.lookout.stop)

    async def admin(self) -> Admin:
        return await self.around.clients.admin()

    def now_ms(self) -> int:
        return self.around.clock.now_ms()

    def page(self, address: str, shown: Shown) -> Route:
        """A page to look at."""

        async def answer(request: Request) -> Response:
            await self.lookout.seen()
            try:
                return await shown(self, request)
            except FAILURES as problem:
                status, words = told(problem)
                return refused(request, _titles(status), words, status)

        return Route(address, answer)

    def peer(self, address: str, told: Shown) -> Route:
        """For other brokers, whose console somebody looks at."""

        async def answer(request: Request) -> Response:
            return await told(self, request)

        return Route(address, answer)

    def deed(self, address: str, done: Shown) -> Route:
        """A form that changes something.  A failure is told on the page that the person came from."""

        async def answer(request: Request) -> Response:
            try:
                return await done(self, request)
            except FAILURES as problem:
                status, words = told(problem)
                if (back := came_from(request)) is None or isinstance(problem, Problem):
                    return refused(request, _titles(status), words, status)
                return go(back, words, failed=True)

        return Route(address, answer, methods=["POST"])


FAILURES = (Problem, errors.TidelogError, ExceptionGroup)


def told(problem: Exception) -> tuple[int, str]:
    """The status, and the words for a person."""
    if isinstance(problem, Problem):
        return problem.status, _sentence(problem.message)
    if isinstance(problem, ExceptionGroup):
        inner = [told(cast(Exception, one)) for one in problem.exceptions]
        return max(status for status, _ in inner), " ".join(words for _, words in inner[:5])
    assert isinstance(problem, errors.TidelogError)
    if isinstance(problem, MISSING):
        return 404, _sentence(str(problem))
    return (503 if problem.retriable else 400), _sentence(str(problem))


def _sentence(words: str) -> str:
    words = words.strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _titles(status: int) -> str:
    known = {403: "Not allowed", 404: "Not there", 503: "Not possible right now"}
    return known.get(status, "That did not work")


def came_from(request: Request) -> str | None:
    """Path and query of the page with the form, of this console only."""
    given = request.headers.get("referer", "")
    host = request.headers.get("host", "")
    for scheme in ("http://", "https://"):
        if given.startswith(f"{scheme}{host}/"):
            place = given[len(scheme) + len(host) :]
            if place == "/" or place.startswith("/console/"):
                return place
    return None


def number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A number that was asked for in the address; out of bounds is the nearest."""
    text = request.query_params.get(name, "").strip().replace(",", "")
    if not text:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise Problem(400, f"{text[:40]!r} is no whole number: correct {name} in the address or the form")
    return min(max(int(text), low), high)


def asked(request: Request, name: str, default: str = "") -> str:
    return request.query_params.get(name, default).strip()
