"""A gateway for tests: takes bodies, fails, refuses."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from tidelog.errors import LeaderNotAvailable
from tidelog.gateways.http.guard import streamed
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices


def routes(around: GatewayServices) -> list[BaseRoute]:
    async def taken(request: Request) -> JSONResponse:
        return JSONResponse({"bytes": len(await request.body())})

    async def counted(request: Request) -> JSONResponse:
        streamed(request.scope)
        return JSONResponse({"bytes": sum([len(piece) async for piece in request.stream()])})

    async def crash(_: Request) -> JSONResponse:
        raise KeyError("what nobody foresaw")

    async def refuse(_: Request) -> JSONResponse:
        raise Problem(404, "there is no subject 'x'", 40401)

    async def later(_: Request) -> JSONResponse:
        raise LeaderNotAvailable("nobody leads it now")

    return [
        Route("/example/taken", taken, methods=["POST"]),
        Route("/example/counted", counted, methods=["POST"]),
        Route("/example/crash", crash),
        Route("/example/refuse", refuse),
        Route("/example/later", later),
    ]
