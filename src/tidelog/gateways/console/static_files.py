"""The static files of the console: a style sheet, a script, an icon.  They are part of the package, so that a page loads
nothing from other sites."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.gateways.http.problem import Problem

KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
NAMES = frozenset({"console.css", "console.js", "icon.svg"})


@lru_cache(maxsize=len(NAMES))
def _read(name: str) -> tuple[bytes, str]:
    data = files("tidelog.gateways.console").joinpath("static", name).read_bytes()
    return data, f'"{blake2b(data, digest_size=8).hexdigest()}"'


def route() -> Route:
    async def answer(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in NAMES:
            raise Problem(404, f"there is no file {name!r}")
        data, tag = _read(name)
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=KINDS[name.rpartition(".")[2]], headers=headers)

    return Route("/console/static/{name}", answer)
