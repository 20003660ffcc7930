"""The HTTP port.  It is open from the start, but what serves it is loaded with the first connection: a broker that
nobody asks over HTTP starts faster and stays smaller."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

from tidelog.net.network import listen

log = logging.getLogger("tidelog.http")

GRACE_S = 1


class HttpServer:
    def __init__(self, unready: Callable[[], str | None]) -> None:
        self._unready = unready
        self._listening: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def bind(self, host: str, port: int) -> int:
        """The real port."""
        self._listening = listen(host, port)
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        assert self._listening is not None
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._first_connection)

    def _first_connection(self) -> None:
        assert self._listening is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening.fileno())
        self._serving = loop.create_task(self._serve(self._listening))

    async def _serve(self, listening: socket.socket) -> None:
        try:
            # The import takes a tenth of a second: not on the loop that answers producers.
            uvicorn, application = await asyncio.to_thread(_load)
            config = uvicorn.Config(
                application(self._unready),
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=GRACE_S,
            )
            server = uvicorn.Server(config)
            server.capture_signals = _no_signals  # signals are the broker's business
            self._stop = lambda: setattr(server, "should_exit", True)
            await server.serve(sockets=[listening])
        except Exception:
            log.exception("the HTTP port stopped serving")

    async def stop(self) -> None:
        if self._listening is None:
            return
        if self._serving is None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
        else:
            if self._stop is not None:
                self._stop()
            else:
                self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._serving, 2 * GRACE_S)
        self._listening.close()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield


def _load():  # type: ignore[no-untyped-def]
    import uvicorn

    from tidelog.gateways.http.app import application

    return uvicorn, application
