"""The HTTP application: hands each request to the gateways with a claim on its path.  Imported at the first HTTP request,
never at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tidelog.errors import TidelogError
from tidelog.gateways.http.guard import Guard
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.http.table import GATEWAYS, Gateway


def application(around: GatewayServices, crowded: Callable[[], bool] = lambda: False) -> ASGIApp:
    """`crowded`: more are connected than there are places."""
    return Guard(Dispatcher(around), around, crowded)


class Dispatcher:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._routes: dict[Gateway, list[BaseRoute]] = {}
        self._apps: dict[tuple[Gateway, ...], ASGIApp] = {}
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claiming = tuple(gateway for gateway in GATEWAYS if gateway.claims(scope["path"]))
        app = self._apps.get(claiming) or await self._load(claiming)
        await app(scope, receive, send)

    async def _load(self, claiming: tuple[Gateway, ...]) -> ASGIApp:
        async with self._loading:
            for gateway in claiming:
                if gateway not in self._routes:
                    # Some take a while to import: not on the loop that answers producers.
                    module = await asyncio.to_thread(import_module, gateway.module)
                    self._routes[gateway] = module.routes(self._around)
            app = self._apps[claiming] = _Served(
                routes=[route for gateway in claiming for route in self._routes[gateway]]
            )
            return app


class _Served(Starlette):
    """Starlette without its own last resort, which would answer in plain text and log twice."""

    def build_middleware_stack(self) -> ASGIApp:
        handlers = {Problem: _problem, HTTPException: _refused, TidelogError: _failed}
        return ExceptionMiddleware(self.router, handlers=handlers)


def _problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem.answer()


def _refused(request: Request, problem: Exception) -> Response:
    """Starlette's own: no such path, wrong method."""
    assert isinstance(problem, HTTPException)
    words = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.method} is not possible at {request.url.path}",
    }
    message = words.get(problem.status_code, problem.detail)
    return Problem(problem.status_code, message, headers=problem.headers).answer()


def _failed(_: Request, problem: Exception) -> Response:
    """What the broker said, where the gateway has no words of its own for it."""
    assert isinstance(problem, TidelogError)
    return Problem(503 if problem.retriable else 500, str(problem)).answer()
