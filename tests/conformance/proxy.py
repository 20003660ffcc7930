"""A TCP proxy between a client and a broker that tests make silent, slow or absent.

It does not advertise itself: a client that is to stay behind it connects to a broker whose advertised address
is the proxy's (`advertised.listeners`)."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", port))
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._servers: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._silent = False
        self._losing = False
        self._ended = False
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._thread.join()
        for one in [self._listening, *self._peers]:
            one.close()

    def fall_silent(self) -> None:
        """Half-open: the connections stay, nothing passes any more; new ones are accepted and stay silent."""
        self._silent = True

    def lose_answers(self) -> None:
        """What a client says arrives; every connection breaks with the broker's next answer."""
        self._losing = True

    def speak(self) -> None:
        self._silent = self._losing = False

    def cut(self) -> None:
        """Every connection breaks."""
        with self._lock:
            for one in list(self._peers):
                self._drop(one)

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(0.02):
                with self._lock:
                    self._ready(key.fileobj)  # type: ignore[arg-type]

    def _ready(self, one: socket.socket) -> None:
        if one is self._listening:
            client, _ = self._listening.accept()
            server = socket.create_connection(self._target)
            self.connections += 1
            self._servers.add(server)
            for side, other in ((client, server), (server, client)):
                self._peers[side] = other
                self._selector.register(side, selectors.EVENT_READ)
            return
        if self._silent or one not in self._peers:
            return
        try:
            data = one.recv(1 << 16)
            if data and not (self._losing and one in self._servers):
                self._peers[one].sendall(data)
                return
        except OSError:
            pass
        self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        for side in (one, self._peers.get(one)):
            if side is not None and side in self._peers:
                del self._peers[side]
                self._servers.discard(side)
                self._selector.unregister(side)
                side.close()
