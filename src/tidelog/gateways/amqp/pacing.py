"""Whether a connection is read now: frames and answers that wait, messages that are not stored yet, quotas and alarms are
bounded.

A client that is not read for long is told so (connection.blocked), if it said that it wants to know, and told when it is
over; for an alarm it is told at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.gateways.amqp.wire.frames import method_frame
from tidelog.gateways.amqp.wire.methods import encode_method

if TYPE_CHECKING:
    from tidelog.gateways.amqp.connection import AmqpConnection

WAITING_FRAMES_MAX = 1000
UNSTORED_BYTES_MAX = 16 << 20
UNSTORED_MAX = 20_000
TOLD_AFTER_S = 1.0


class Pacing:
    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._unstored_bytes = 0
        self._unstored = 0
        self._throttled_until_s = 0.0
        self._alarmed = False
        self._told = False
        self._telling: asyncio.TimerHandle | None = None
        self.paused = False

    @property
    def state(self) -> str:
        """As RabbitMQ's management API has it."""
        if not self.paused:
            return "running"
        return "blocked" if self._alarmed else "flow"

    def publishing(self, size: int) -> None:
        """So many bytes more wait to be stored; negative: fewer."""
        self._unstored_bytes += size
        self._unstored += 1 if size >= 0 else -1
        if self.paused:
            self.pace()

    def throttled(self, throttle_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self._throttled_until_s = loop.time() + throttle_ms / 1000
        loop.call_later(throttle_ms / 1000, self.pace)

    def publishes(self) -> None:
        """The client publishes: not while there is an alarm."""
        if self._connection.server.alarms.active and not self._alarmed:
            self._alarmed = True
            self.pace()
            self._tell()

    def alarms_changed(self) -> None:
        if self._alarmed and not self._connection.server.alarms.active:
            self._alarmed = False
            self.pace()

    def _cause(self) -> str:
        """Why the connection is not read; empty when it is."""
        if self._alarmed:
            return self._connection.server.alarms.reason
        if self._unstored_bytes > UNSTORED_BYTES_MAX or self._unstored > UNSTORED_MAX:
            return "messages of this connection wait to be stored"
        if asyncio.get_running_loop().time() < self._throttled_until_s:
            return "the quota of this connection is used up"
        if not self._connection.writable:
            return "the client does not read what it is sent"
        if self._connection.waiting_frames > WAITING_FRAMES_MAX:
            return "methods of this connection wait to be served"
        return ""

    def pace(self) -> None:
        paused = bool(self._cause())
        if paused == self.paused or not self._connection.read(not paused):
            return
        self.paused = paused
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if paused:
            self._telling = asyncio.get_running_loop().call_later(TOLD_AFTER_S, self._tell)
        elif self._told:
            self._told = False
            self._connection.write(method_frame(0, encode_method("connection.unblocked")))

    def _tell(self) -> None:
        if self.paused and not self._told and self._connection.has_capability("connection.blocked"):
            self._told = True
            reason = self._cause()
            self._connection.write(method_frame(0, encode_method("connection.blocked", reason=reason)))

    def ended(self) -> None:
        self.paused = False
        if self._telling is not None:
            self._telling.cancel()
