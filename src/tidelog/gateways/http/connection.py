"""A connection to the HTTP port: uvicorn's, which does not wait for ever for a request.

A client that connects and says nothing holds a place that others need.  It has some seconds to send the head of a request;
when all places are taken, one of the address with the most makes way (`places.py`).

uvicorn has no setting for either: its timeouts begin after a response, its limit refuses requests and keeps connections.
So this is a subclass of the protocol that uvicorn's option `http` takes.  It uses `connections`, `conn`, `cycle`, `loop`,
`transport` and `send_400_response`, which uvicorn does not document; `tests/unit/gateways/test_connection.py` fails when
a release changes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidelog.config import BrokerConfig
from tidelog.gateways.http.connection_limits import HttpConnectionLimits
from tidelog.gateways.http.json_text import written
from tidelog.logs import SparingLog

HEAD_S_MAX = 10.0
sparing = SparingLog(logging.getLogger("tidelog.http"))


class HttpConnection(H11Protocol):
    """Made by `connections`."""

    places: HttpConnectionLimits[HttpConnection]
    rate: Callable[[str], int]
    """For how many milliseconds a new connection of an address is kept waiting before it is closed; 0: it may stay."""
    established: Callable[[Any], None]
    """Told the address of each client that has connected, and has finished its TLS handshake if there is one."""
    has_asked = False
    host = ""
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        type(self).established(transport.get_extra_info("peername"))
        super().connection_made(transport)
        self.host = str((transport.get_extra_info("peername") or ("unknown",))[0])
        refusal = self.places.refusal(self.host)
        if refusal is not None:
            self._turn_away(refusal)
            return
        throttle_ms = type(self).rate(self.host)
        if throttle_ms:
            # As for Kafka's listeners: whoever is closed at once comes again at once.
            transport.pause_reading()
            self._waiting = self.loop.call_later(
                throttle_ms / 1000, self._turn_away, "its connection_creation_rate is exceeded"
            )
        else:
            self._wait()
        leaves = self.places.came(self, self.host)
        if leaves is not None:
            leaves._turn_away(
                f"all places (tidelog.http.connections.max) are taken, most of them by {leaves.host}"
            )

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_answered:
            self.has_asked = True
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.places.left(self, self.host)
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
    def is_answered(self) -> bool:
        """A request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _turn_away(self, why: str) -> None:
        sparing.warning(self.host, "closing an HTTP connection of %s: %s", self.host, why)
        self.places.left(self, self.host)
        self.transport.abort() if self.is_answered else self.transport.close()


def connections(
    config: Callable[[], BrokerConfig],
    rate: Callable[[str], int] = lambda host: 0,
    established: Callable[[Any], None] = lambda address: None,
) -> type[HttpConnection]:
    """For one server."""
    shared: dict[str, Any] = {
        "places": HttpConnectionLimits(config),
        "rate": staticmethod(rate),
        "established": staticmethod(established),
    }
    return type("HttpConnection", (HttpConnection,), shared)
