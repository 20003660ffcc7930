"""Health: `/health/live` as long as the process answers, `/health/ready` while it should get traffic."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from tidelog.gateways.http.services import GatewayServices


def routes(around: GatewayServices) -> list[BaseRoute]:
    async def live(_: Request) -> JSONResponse:
        return JSONResponse({"status": "live"})

    async def ready(_: Request) -> JSONResponse:
        reason = around.unready()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)

    return [Route("/health/live", live), Route("/health/ready", ready)]
