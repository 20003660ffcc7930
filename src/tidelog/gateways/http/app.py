"""The HTTP application: health for now.  Imported at the first HTTP request, never at the start."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def application(unready: Callable[[], str | None]) -> Starlette:
    """`unready` says why the broker should get no traffic now, or None."""

    async def live(_: Request) -> JSONResponse:
        return JSONResponse({"status": "live"})

    async def ready(_: Request) -> JSONResponse:
        reason = unready()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)

    return Starlette(routes=[Route("/health/live", live), Route("/health/ready", ready)])
