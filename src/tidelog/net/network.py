"""The interface of networks, which make sockets, and the machine's own network.

A socket is any object with the methods of `Socket` whose `fileno()` the running loop accepts in `add_reader` and
`add_writer`.  `tidelog.testing` has an in-memory network whose sockets work on its virtual loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Protocol

LISTEN_BACKLOG = 1024


class Socket(Protocol):
    """A non-blocking socket: `BlockingIOError` means not now, an empty read means that the peer has closed."""

    def fileno(self) -> int: ...
    def recv_into(self, buffer: Any, nbytes: int = 0) -> int: ...
    def send(self, data: Any) -> int: ...
    def sendmsg(self, buffers: Sequence[Any]) -> int: ...
    def setsockopt(self, level: int, option: int, value: int) -> None: ...
    def getpeername(self) -> Any: ...
    def getsockname(self) -> Any: ...
    def close(self) -> None: ...


class ListeningSocket(Protocol):
    def fileno(self) -> int: ...
    def accept(self) -> tuple[Socket, Any]:
        """The next waiting connection, already non-blocking; `BlockingIOError` if there is none."""
        ...

    def getsockname(self) -> Any: ...
    def close(self) -> None: ...


class Network(Protocol):
    def listen(self, host: str, port: int) -> ListeningSocket:
        """Listens on a port; port 0 picks a free port, which `getsockname()` tells."""
        ...

    async def connect(self, host: str, port: int) -> Socket: ...


class _Listening:
    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self.fileno = inner.fileno
        self.getsockname = inner.getsockname
        self.close = inner.close

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = self._inner.accept()
        accepted.setblocking(False)
        if accepted.family in (socket.AF_INET, socket.AF_INET6):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted, address


def listen(host: str, port: int) -> socket.socket:
    """A non-blocking listening socket; an error names the address."""
    listening: socket.socket | None = None
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, proto)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(LISTEN_BACKLOG)
    except OSError as problem:
        if listening is not None:
            listening.close()
        raise OSError(problem.errno, f"Cannot listen on {host}:{port}: {problem.strerror}") from problem
    return listening


class SystemNetwork:
    """The machine's TCP stack."""

    def listen(self, host: str, port: int) -> ListeningSocket:
        return _Listening(listen(host, port))

    async def connect(self, host: str, port: int) -> Socket:
        loop = asyncio.get_running_loop()
        last: OSError | None = None
        for family, kind, proto, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            connecting = socket.socket(family, kind, proto)
            connecting.setblocking(False)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await loop.sock_connect(connecting, address)
            except OSError as problem:
                connecting.close()
                last = problem
            except BaseException:
                connecting.close()
                raise
            else:
                return connecting
        raise last or OSError(f"no address found for {host}")
