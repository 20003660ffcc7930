"""A connection to the HTTP port: uvicorn's, which does not wait for ever for a request.

A client that connects and says nothing holds a place that others need.  It has some seconds to send the head of a request;
and when all places are taken, those that have never asked anything make way, the oldest first.

uvicorn has no setting for either: its timeouts begin after a response, its limit refuses requests and keeps connections.
So this is a subclass of the protocol that uvicorn's option `http` takes.  It uses `connections`, `conn`, `cycle`, `loop`,
`transport` and `send_400_response`, which uvicorn does not document; `tests/unit/gateways/test_connection.py` fails when
a release changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidelog.gateways.http.json_text import written

HEAD_S_MAX = 10.0


class Connection(H11Protocol):
    """Made by `connections`."""

    connections_max: Callable[[], int]
    established: Callable[[Any], None]
    """Told the address of each client that has connected, and has finished its TLS handshake if there is one."""
    silent: dict[Connection, None]
    """Those that have not asked anything yet, the oldest first."""
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        type(self).established(transport.get_extra_info("peername"))
        super().connection_made(transport)
        self._wait()
        self.silent[self] = None
        if len(self.connections) > type(self).connections_max():
            oldest = next(iter(self.silent))
            if oldest is not self:
                oldest._make_way()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_asked:
            self.silent.pop(self, None)
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """In JSON, as everything that is refused."""
        body = written({"error_code": 400, "message": "this is not HTTP, or too long a head of it"})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", uuid4().hex.encode()),
            (b"connection", b"close"),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _make_way(self) -> None:
        self.silent.pop(self, None)
        self.transport.close()


def connections(
    connections_max: Callable[[], int], established: Callable[[Any], None] = lambda address: None
) -> type[Connection]:
    """For one server.  `connections_max`: as many places as there are now."""
    shared: dict[str, Any] = {
        "connections_max": staticmethod(connections_max),
        "established": staticmethod(established),
        "silent": {},
    }
    return type("Connection", (Connection,), shared)
