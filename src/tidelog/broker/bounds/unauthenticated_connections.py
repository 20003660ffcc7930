"""Connections before their login: in a TLS handshake, or before the end of a SASL login.

Together they have a bounded number of places and a small share of memory; each has a time limit that starts at the accept.
When the places are taken, the address with the most connections loses its oldest one.  The server reports new connections
and finished logins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog._speed.wire.queued_bytes import QueuedBytes
from tidelog.config import BrokerConfig


class UnauthenticatedConnection:
    """`close` ends the handshake or the connection; it gets the bound that was reached, and what to tell of it."""

    __slots__ = ("close", "deadline_s", "host", "listener", "peer")

    def __init__(self, listener: str, host: str, peer: str, deadline_s: float) -> None:
        self.listener = listener
        self.host = host
        self.peer = peer
        self.deadline_s = deadline_s
        self.close: Callable[[str, str], None] = lambda bound, why: None


class UnauthenticatedConnections:
    def __init__(self, config: Callable[[], BrokerConfig], places_max: int) -> None:
        """`places_max`: what the bound is in any case, whatever the settings say."""
        self._config = config
        self._places_max = places_max
        self._all: dict[UnauthenticatedConnection, None] = {}  # the oldest first
        self._by_host: dict[str, dict[UnauthenticatedConnection, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.queued = QueuedBytes(config().tidelog_login_queued_bytes)
        """What their requests take that have not wholly arrived."""

    def __len__(self) -> int:
        return len(self._all)

    def came(self, listener: str, host: str, peer: str) -> UnauthenticatedConnection:
        """Makes room for one more, and counts it."""
        config, loop = self._config(), asyncio.get_running_loop()
        places = min(config.tidelog_login_connections_max, self._places_max)
        while len(self._all) >= places:
            self._close_one(places)
        stranger = UnauthenticatedConnection(
            listener, host, peer, loop.time() + config.tidelog_login_timeout_ms / 1000
        )
        self._all[stranger] = None
        self._by_host.setdefault(host, {})[stranger] = None
        if self._timer is None:
            self._wait()
        return stranger

    def left(self, stranger: UnauthenticatedConnection) -> None:
        """It is known now, or gone.  May be called twice."""
        if stranger not in self._all:
            return
        del self._all[stranger]
        same = self._by_host[stranger.host]
        del same[stranger]
        if not same:
            del self._by_host[stranger.host]

    def oldest(self, but_not_of: str) -> UnauthenticatedConnection | None:
        """The oldest that is of another listener."""
        return next((each for each in self._all if each.listener != but_not_of), None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_one(self, places: int) -> None:
        host = max(self._by_host, key=lambda each: len(self._by_host[each]))
        stranger = next(iter(self._by_host[host]))
        self.left(stranger)
        stranger.close(
            "tidelog.login.connections.max",
            f"{places} connections have not logged in (tidelog.login.connections.max), and most of them are of {host}",
        )

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        first = next(iter(self._all), None)
        self._timer = None if first is None else loop.call_at(first.deadline_s, self._on_time)

    def _on_time(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for stranger in tuple(self._all):
            if stranger.deadline_s > now_s:
                break
            self.left(stranger)
            stranger.close(
                "tidelog.login.timeout.ms",
                f"it has not logged in within {self._config().tidelog_login_timeout_ms} ms (tidelog.login.timeout.ms)",
            )
        self._wait()
