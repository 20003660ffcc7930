"""Asks the schema registry like any client, but without a socket: the registry gateway of this broker answers, or forwards
to the leader."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from urllib.parse import quote

from starlette.routing import Router
from starlette.types import Message, Scope

from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices

MEDIA_TYPE = b"application/vnd.schemaregistry.v1+json"


class RegistryClient:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._router: Router | None = None

    async def ask(self, method: str, *parts: str | int, body: Any = None, **query: str) -> Any:
        """The answer, parsed from JSON.  An error answer raises `Problem` with its message."""
        path = "/" + "/".join(quote(str(part), safe="") for part in parts)
        query_string = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        status, data = await self._send(
            method, path, query_string, b"" if body is None else json.dumps(body).encode()
        )
        try:
            answer = json.loads(data)
        except ValueError:
            raise Problem(502, f"the schema registry answered {data[:200]!r}, which is not JSON") from None
        if status >= 300:
            raise Problem(status, str(answer.get("message", answer)), answer.get("error_code"))
        return answer

    async def default_level(self) -> str:
        """The compatibility mode of subjects without one of their own; a dash for a user who may not see it."""
        try:
            return str((await self.ask("GET", "config"))["compatibilityLevel"])
        except Problem as problem:
            if problem.status != 403:
                raise
            return "–"

    async def _send(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        if self._router is None:
            module = import_module("tidelog.gateways.registry.routes")
            self._router = Router(module.routes(self._around))
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"content-type", MEDIA_TYPE), (b"accept", MEDIA_TYPE)],
            "client": None,
            "server": None,
        }
        status, pieces = 0, []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                pieces.append(message.get("body", b""))

        await self._router(scope, receive, send)
        return status, b"".join(pieces)
