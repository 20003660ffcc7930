"""The HTTP port.  It is open from the start, but what serves it is loaded with the first connection: a broker that
nobody asks over HTTP starts faster and stays smaller."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tidelog.gateways.http.handshakes import HandshakeListener
from tidelog.net.network import listen

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices

log = logging.getLogger("tidelog.http")

GRACE_S = 1


class HttpServer:
    """`bind` early, so that a port that is taken stops the start; `start` when requests can be answered."""

    def __init__(self) -> None:
        self._around: GatewayServices | None = None
        self._tls: ssl.SSLContext | None = None
        self._listening: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def bind(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """The real port."""
        self._tls = tls
        listening = listen(host, port)
        self._listening = listening if tls is None else HandshakeListener.of(listening)
        return int(self._listening.getsockname()[1])

    def start(self, around: GatewayServices) -> None:
        assert self._listening is not None
        self._around = around
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._first_connection)

    def _first_connection(self) -> None:
        assert self._listening is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening.fileno())
        assert self._around is not None
        self._serving = loop.create_task(self._serve(self._listening, self._around))

    async def _serve(self, listening: socket.socket, around: GatewayServices) -> None:
        try:
            # The import takes a tenth of a second: not on the loop that answers producers.
            uvicorn, application, connections = await asyncio.to_thread(_load)

            server: Any = None

            def connections_max() -> int:
                return around.config.tidelog_http_connections_max

            config = uvicorn.Config(
                application(around, lambda: len(server.server_state.connections) > connections_max()),
                http=connections(
                    lambda: around.config,
                    around.connection_throttle_ms,
                    listening.established
                    if isinstance(listening, HandshakeListener)
                    else lambda address: None,
                ),
                # Without a proxy that is named, the header is a client's own word.
                proxy_headers=bool(around.config.tidelog_http_trusted_proxies),
                forwarded_allow_ips=list(around.config.tidelog_http_trusted_proxies),
                log_config=None,
                access_log=False,
                log_level="warning",
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
            config.load()
            config.ssl = self._tls  # uvicorn makes contexts from files only, and these change
            server = uvicorn.Server(config)
            server.capture_signals = _no_signals  # signals are the broker's business
            self._stop = lambda: setattr(server, "should_exit", True)
            await server.serve(sockets=[listening])
        except Exception:
            log.exception("the HTTP port stopped serving")

    async def stop(self) -> None:
        """May be called twice."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        if self._serving is None:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        else:
            if self._around is not None:
                # What waits for records, or sends them for as long as somebody reads, ends by itself.
                self._around.stopping.set()
                await self._around.closing.aclose()
            if self._stop is not None:
                self._stop()
            else:
                self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._serving, 2 * GRACE_S)
        listening.close()
        if self._around is not None:
            await self._around.closing.aclose()
            await self._around.clients.close()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield


def _load():  # type: ignore[no-untyped-def]
    import uvicorn

    from tidelog.gateways.http.app import application
    from tidelog.gateways.http.connection import connections

    return uvicorn, application, connections
