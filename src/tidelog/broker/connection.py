"""A client's connection: hands whole requests to the router, says once why it ended when the client was at fault."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tidelog._speed.wire.connection import Answer, FrameConnection
from tidelog._speed.wire.poller import Poller
from tidelog.broker.router import Router
from tidelog.broker.routes import FETCH
from tidelog.broker.session import Session
from tidelog.logs import SparingLog, request_id

log = logging.getLogger("tidelog.connection")
sparing = SparingLog(log)


class ClientConnection(FrameConnection):
    """`ended` is called once, with the connection, when it is closed from either side."""

    __slots__ = ("_at_fault", "_ended", "_logged_in", "_router", "_throttle")

    session: Session

    def __init__(
        self,
        watcher: asyncio.AbstractEventLoop | Poller,
        sock: Any,
        scratch: bytearray,
        frame_bytes_max: int,
        in_flight_max: int,
        *,
        router: Router,
        session: Session,
        ended: Callable[[ClientConnection], None],
        logged_in: Callable[[ClientConnection], None] = lambda connection: None,
    ) -> None:
        """`logged_in` is called after each login."""
        super().__init__(
            watcher,
            sock,
            scratch,
            frame_bytes_max,
            in_flight_max,
            router.shortcut,
            router.counters.requests,
            router.queued,
            session,
        )
        self._router = router
        self._ended = ended
        self._logged_in = logged_in
        self._throttle: asyncio.TimerHandle | None = None
        self._at_fault: int | None = None  # correlation id of the request that is being refused

    @property
    def client_id(self) -> str | None:
        return self.session.client_id

    @property
    def peer(self) -> str:
        return self.session.peer

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def shown(self) -> str:
        """The client as the log names it."""
        session = self.session
        client = "" if session.client_id is None else f", client {session.client_id[:100]!r}"
        return f"{session.peer} ({session.principal}{client}, listener {session.listener})"

    def logged_in(self) -> None:
        self._logged_in(self)

    def frame_arrived(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int
    ) -> Answer | asyncio.Future[Any] | None:
        try:
            if api_key <= FETCH:
                return self._router.route(self, frame, api_key, version, correlation_id)
            token = request_id.set((self.peer, correlation_id))
            try:
                return self._router.route(self, frame, api_key, version, correlation_id)
            finally:
                request_id.reset(token)
        except Exception:
            self._at_fault = correlation_id
            raise

    def refused(self, problem: BaseException) -> None:
        if isinstance(problem, asyncio.CancelledError):
            return
        token = request_id.set(None if self._at_fault is None else (self.peer, self._at_fault))
        if isinstance(problem, ValueError | OSError) or hasattr(problem, "code"):
            sparing.warning(self.session.host, "closing the connection of %s: %s", self.shown, problem)
        else:
            log.error("closing the connection of %s: a handler failed", self.shown, exc_info=problem)
        request_id.reset(token)

    def throttle(self, throttle_ms: int) -> None:
        """Takes no further requests until so much time has passed; several throttles at a time end with the longest."""
        loop = asyncio.get_running_loop()
        until = loop.time() + throttle_ms / 1000
        if self._throttle is not None:
            if self._throttle.when() >= until:
                return
            self._throttle.cancel()
        self._throttle = loop.call_at(until, self._throttled)
        self.mute()

    def _throttled(self) -> None:
        self._throttle = None
        self.unmute()

    def connection_closed(self) -> None:
        if self._throttle is not None:
            self._throttle.cancel()
        self._ended(self)
