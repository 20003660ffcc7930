"""What connections of AMQP may take before the broker ends them: places without a log-in, memory for messages that are not
whole or not committed, and time without reading an answer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from tidelog.broker.bounds.request_memory import queued_bytes_max
from tidelog.config import BrokerConfig
from tidelog.gateways.amqp.replies import ConnectionFault
from tidelog.logs import SparingLog

if TYPE_CHECKING:
    from tidelog.gateways.amqp.connection import AmqpConnection

sparing = SparingLog(logging.getLogger("tidelog.amqp"))

_bytes_max = lru_cache(maxsize=1)(queued_bytes_max)


class StrangersOfAmqp:
    """Connections that have not opened a virtual host: `tidelog.login.connections.max`.  The address with the most of them
    loses its oldest one."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._connections: dict[AmqpConnection, None] = {}  # the oldest first

    def came(self, connection: AmqpConnection) -> None:
        self._connections[connection] = None
        connections_max = self._config().tidelog_login_connections_max
        if len(self._connections) <= connections_max:
            return
        ((host, _),) = Counter(stranger.host for stranger in self._connections).most_common(1)
        oldest = next(stranger for stranger in self._connections if stranger.host == host)
        sparing.warning(
            host,
            "closing the AMQP connection of %s: all places before the log-in (tidelog.login.connections.max, %d) are taken, "
            "most of them by %s",
            oldest.shown,
            connections_max,
            host,
        )
        self.left(oldest)
        oldest.abort()

    def left(self, connection: AmqpConnection) -> None:
        """May be called twice."""
        self._connections.pop(connection, None)


class UnfinishedMessages:
    """The bytes of messages that are not whole, or whose transaction is not committed: at most `queued.max.request.bytes`
    for all connections.  Beyond that, the connection that holds the most is closed: to stop reading would not help, since
    only more bytes, or none, make such messages whole."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._by_connection: dict[AmqpConnection, int] = {}
        self.total = 0

    def hold(self, connection: AmqpConnection, size: int) -> None:
        """`size` is negative for bytes that are held no more."""
        held = self._by_connection.get(connection, 0)
        size = max(size, -held)
        self.total += size
        if held + size:
            self._by_connection[connection] = held + size
        else:
            self._by_connection.pop(connection, None)
        bytes_max = _bytes_max(self._config().queued_max_request_bytes)
        if size > 0 and self.total > bytes_max:
            largest = max(self._by_connection, key=self._by_connection.__getitem__)
            text = (
                f"{self._by_connection[largest]} bytes of messages are not whole or not committed, and all connections may "
                f"hold {bytes_max} (queued.max.request.bytes)"
            )
            self.free(largest)
            largest.fail(ConnectionFault(506, text))

    def free(self, connection: AmqpConnection) -> None:
        """May be called twice."""
        self.total -= self._by_connection.pop(connection, 0)


class UnreadAnswers:
    """Closes a connection whose client has taken nothing for `tidelog.connection.stalled.ms` while answers wait."""

    def __init__(self, connection: AmqpConnection, transport: asyncio.Transport, stalled_ms: int) -> None:
        self._connection = connection
        self._transport = transport
        self._stalled_ms = stalled_ms
        self._timer: asyncio.TimerHandle | None = None
        self.written = 0

    def wait(self) -> None:
        """Answers wait."""
        taken = self._taken()
        self._timer = asyncio.get_running_loop().call_later(self._stalled_ms / 1000, self._look, taken)

    def _taken(self) -> int:
        return self.written - self._transport.get_write_buffer_size()

    def _look(self, taken: int) -> None:
        if self._taken() > taken:
            self.wait()
            return
        connection = self._connection
        sparing.warning(
            connection.host,
            "closing the connection of %s: it has taken nothing of %d bytes for %d ms (tidelog.connection.stalled.ms)",
            connection.shown,
            self._transport.get_write_buffer_size(),
            self._stalled_ms,
        )
        connection.abort()

    def end(self) -> None:
        """They are taken, or the connection is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
