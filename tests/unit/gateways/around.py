"""Services for gateways without a broker, and requests to them without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.types import ASGIApp, Message

from tidelog.broker.gate import Gate
from tidelog.broker.metrics.metric_sources import MetricSources
from tidelog.broker.services import Services
from tidelog.config import BrokerConfig
from tidelog.gateways.http.clients import GatewayClients
from tidelog.gateways.http.services import GatewayServices


@dataclass
class Settings:
    """As much of `Services` as the frame asks for."""

    config: Callable[[], BrokerConfig]
    gate: Gate = field(default_factory=Gate)


def surroundings(given: dict[str, str] | None = None, reason: str | None = None) -> GatewayServices:
    config = BrokerConfig.of(given or {})
    return GatewayServices(
        services=cast(Services, Settings(lambda: config)),
        unready=lambda: reason,
        bootstrap="127.0.0.1:1",
        figures=cast(MetricSources, None),
        clients=GatewayClients("127.0.0.1:1"),
        names=frozenset({"broker1.example"}),
    )


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: Iterable[bytes] = (),
) -> Answer:
    given = {"host": "127.0.0.1:8090", **(headers or {})}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8090),
    }
    pieces: Iterator[bytes] = iter(body)
    answer = Answer()

    async def receive() -> Message:
        piece = next(pieces, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer


def asked(app: ASGIApp, method: str, path: str, *rest: Any) -> Answer:
    return asyncio.run(ask(app, method, path, *rest))
