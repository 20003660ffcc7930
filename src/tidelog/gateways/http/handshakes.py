"""The listening socket of an HTTP port with TLS: it bounds the connections whose handshake is under way.

asyncio reports a connection when its handshake is over.  Until then neither the bound on connections nor that on silent ones
holds, and a client that never finishes would keep a descriptor.  So such a client has ten seconds, and the oldest make
way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

HANDSHAKE_S_MAX = 10.0
HANDSHAKES_MAX = 128


class HandshakeListener(socket.socket):
    """`accept` is called by asyncio's server, `established` by each connection that begins."""

    @classmethod
    def of(cls, listening: socket.socket) -> HandshakeListener:
        """Takes the socket over."""
        made = cls(fileno=listening.detach())
        made.setblocking(False)
        made._shaking = {}
        return made

    _shaking: dict[Any, socket.socket]
    """By the address of the client, the oldest first."""

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        if len(self._shaking) >= HANDSHAKES_MAX:
            self._end(next(iter(self._shaking)))
        self._shaking[address] = accepted
        asyncio.get_running_loop().call_later(HANDSHAKE_S_MAX, self._overdue, address, accepted)
        return accepted, address

    def established(self, address: Any) -> None:
        self._shaking.pop(address, None)

    def _overdue(self, address: Any, accepted: socket.socket) -> None:
        if self._shaking.get(address) is accepted:
            self._end(address)

    def _end(self, address: Any) -> None:
        # asyncio owns the socket: it closes it when it sees the end of the stream.
        with contextlib.suppress(OSError):
            self._shaking.pop(address).shutdown(socket.SHUT_RDWR)
