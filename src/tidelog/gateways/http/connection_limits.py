"""Limits the connections of the HTTP port: `tidelog.http.connections.max` in all, fewer for each address.

`max.connections.per.ip` and the connection rate of an address hold here, too.  When all places are taken and another client
comes, the address with the most of them gives one up: a client that has asked nothing yet, the oldest first, then one
without a request under way; a client that is being answered only if its address has more than half of all places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tidelog.config import BrokerConfig


class ConnectionSlot(Protocol):
    @property
    def has_asked(self) -> bool: ...
    @property
    def is_answered(self) -> bool:
        """A request is under way."""


P = TypeVar("P", bound=ConnectionSlot)


class HttpConnectionLimits(Generic[P]):
    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._by_host: dict[str, dict[P, None]] = {}  # the oldest first
        self._count = 0

    def refusal(self, host: str) -> str | None:
        """Why another connection of this address is closed, or None."""
        most = self._config().connections_max_of(host)
        if len(self._by_host.get(host, ())) >= most:
            return f"max.connections.per.ip ({most}) is reached"
        return None

    def came(self, place: P, host: str) -> P | None:
        """Counts one more; the one that has to go for it, if any."""
        self._by_host.setdefault(host, {})[place] = None
        self._count += 1
        connections_max = self._config().tidelog_http_connections_max
        if self._count <= connections_max:
            return None
        crowd = max(self._by_host.values(), key=len)
        candidates = [other for other in crowd if other is not place]
        silent = next((other for other in candidates if not other.has_asked), None)
        idle = silent or next((other for other in candidates if not other.is_answered), None)
        if idle is not None:
            return idle
        return candidates[0] if place not in crowd and len(crowd) > connections_max // 2 else None

    def left(self, place: P, host: str) -> None:
        """May be called twice."""
        same = self._by_host.get(host, {})
        if place in same:
            del same[place]
            self._count -= 1
            if not same:
                del self._by_host[host]
