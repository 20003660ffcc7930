"""The sockets of the simulated network: two one-way byte streams with bounded buffers, cut and joined at random.

The bytes that a socket accepts leave in segments.  Each segment arrives after the line's latency, in order, as far as the
receiver has room.  Segments wait while the line is cut or the receiver's machine is off.  `tidelog.testing.network` makes
the sockets."""

from __future__ import annotations

import socket as system
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.network import VirtualHost

Address = tuple[str, int]


class VirtualSocket:
    """One end of a connection."""

    def __init__(self, host: VirtualHost, local: Address, remote: Address) -> None:
        self.host = host
        self.peer: VirtualSocket  # set by `pair`
        self._network = host.network
        self._local = local
        self._remote = remote
        self._fd = host.network.loop.open_descriptor(self)
        self._out = bytearray()  # accepted, not yet arrived
        self._in = bytearray()  # arrived, not yet read
        self._out_bytes_max = host.network.buffer_bytes
        self._in_bytes_max = host.network.buffer_bytes
        self._moving = False
        self._closed = False
        self._ended = False  # the peer's end of stream has arrived
        self._end_sent = False
        self._reset = False

    def __repr__(self) -> str:
        return f"{self._local[0]}:{self._local[1]} to {self._remote[0]}:{self._remote[1]}"

    # The methods of `tidelog.net.network.Socket`.

    def fileno(self) -> int:
        return self._fd

    def recv_into(self, buffer: Any, nbytes: int = 0) -> int:
        self._check_open()
        if not self._in:
            if self._reset:
                raise ConnectionResetError(f"{self}: connection reset by peer")
            if self._ended:
                return 0
            raise BlockingIOError(f"{self}: nothing to read")
        into = memoryview(buffer).cast("B")
        count = min(nbytes or len(into), len(into), len(self._in))
        into[:count] = self._in[:count]
        del self._in[:count]
        self.peer._move()
        return count

    def send(self, data: Any) -> int:
        self._check_open()
        if self._reset:
            raise ConnectionResetError(f"{self}: connection reset by peer")
        view = memoryview(data).cast("B")
        space = self._out_bytes_max - len(self._out)
        if space <= 0 and len(view):
            raise BlockingIOError(f"{self}: no room in the send buffer")
        count = min(space, len(view))
        if count > 1 and self._network.chance(self._network.short_send_chance):
            count = self._network.random.randint(1, count)
        self._out += view[:count]
        self._move()
        return count

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        return self.send(b"".join(buffers))

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Makes buffers smaller than the network's, but not larger; other options have no effect."""
        if level == system.SOL_SOCKET and option == system.SO_SNDBUF:
            self._out_bytes_max = min(value, self._network.buffer_bytes)
        elif level == system.SOL_SOCKET and option == system.SO_RCVBUF:
            self._in_bytes_max = min(value, self._network.buffer_bytes)

    def getpeername(self) -> Address:
        return self._remote

    def getsockname(self) -> Address:
        return self._local

    def close(self) -> None:
        """Sends the accepted bytes, then the end of the stream; if bytes are left unread, the peer gets a reset, as on
        Linux."""
        if self._closed:
            return
        unread = bool(self._in)
        self._close()
        if unread:
            self._send_reset()
        self._move()

    # For the loop.

    def readable(self) -> bool:
        return bool(self._in) or self._ended or self._reset

    def writable(self) -> bool:
        return self._reset or len(self._out) < self._out_bytes_max

    # For the network.

    @property
    def alive(self) -> bool:
        return not self._closed and not self._reset

    def vanish(self) -> None:
        """The machine lost power: nothing is sent, not even the end of the stream."""
        self._unwatch()
        if not self._closed:
            self._close()
        self._forget()

    def reset(self) -> None:
        """Breaks the connection: this end notices at once, the other end after the latency."""
        self._send_reset()
        self.reset_arrived()

    def killed(self) -> None:
        """The process ended, and the system closes the socket."""
        self._unwatch()
        self.close()

    def reset_arrived(self) -> None:
        self._reset = True
        self._in.clear()
        self._news()
        self._forget()

    def resume(self) -> None:
        """The line may be whole again."""
        self._move()

    def _move(self) -> None:
        """Schedules the next segment, if there is one and none is on its way."""
        ending = self._closed and not self._end_sent
        has_room = self.peer._closed or len(self.peer._in) < self.peer._in_bytes_max
        if self._moving or self._reset or not (self._out or ending) or (self._out and not has_room):
            return
        self._moving = True
        self._network.later(self._arrive)

    def _arrive(self) -> None:
        self._moving = False
        peer = self.peer
        if self._reset or not self._network.passes(self.host, peer.host):
            return  # `resume` starts it again
        if peer._closed:
            peer._send_reset()  # the peer's machine no longer knows the connection
            return
        if self._out:
            space = min(len(self._out), peer._in_bytes_max - len(peer._in))
            count = self._network.segment_bytes(space) if space > 0 else 0
            if not peer._reset:
                peer._in += self._out[:count]
                peer._news()
            del self._out[:count]
        elif self._closed:
            peer._ended = True
            peer._news()
            self._forget()
        self._move()

    def _send_reset(self) -> None:
        """Sends a reset.  If the line is cut, the reset is lost, and the peer learns it from its next segment."""
        self._network.later(self._reset_peer)
        self._forget()

    def _reset_peer(self) -> None:
        if self._network.passes(self.host, self.peer.host):
            self.peer.reset_arrived()

    def _news(self) -> None:
        self._network.loop.became_readable(self._fd)

    def _forget(self) -> None:
        """Nothing more will be sent from here."""
        self._out.clear()
        self._end_sent = True
        if self._closed:
            self.host.sockets.pop(self, None)

    def _unwatch(self) -> None:
        self._network.loop.remove_reader(self._fd)
        self._network.loop.remove_writer(self._fd)

    def _close(self) -> None:
        self._closed = True
        self._in.clear()
        if self._reset:
            self._forget()
        fd, self._fd = self._fd, -1
        self._network.loop.close_descriptor(fd)

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(9, f"{self}: this socket is closed")


class VirtualListener:
    def __init__(self, host: VirtualHost, local: Address, backlog_max: int) -> None:
        self.host = host
        self._local = local
        self._backlog_max = backlog_max
        self._waiting: deque[VirtualSocket] = deque()
        self._fd = host.network.loop.open_descriptor(self)

    def __repr__(self) -> str:
        return f"listening on {self._local[0]}:{self._local[1]}"

    def fileno(self) -> int:
        return self._fd

    def accept(self) -> tuple[VirtualSocket, Address]:
        if self._fd < 0:
            raise OSError(9, f"{self}: this socket is closed")
        if not self._waiting:
            raise BlockingIOError(f"{self}: no connection waits")
        accepted = self._waiting.popleft()
        return accepted, accepted.getpeername()

    def getsockname(self) -> Address:
        return self._local

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        del self.host.listeners[self._local[1]]
        for never_accepted in self._waiting:
            never_accepted.reset()
            never_accepted.close()
        self._waiting.clear()
        self.host.network.loop.close_descriptor(fd)

    def killed(self) -> None:
        self.host.network.loop.remove_reader(self._fd)
        self.close()

    def readable(self) -> bool:
        return bool(self._waiting)

    def writable(self) -> bool:
        return False

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self._backlog_max

    def arrived(self, connection: VirtualSocket) -> None:
        self._waiting.append(connection)
        self.host.network.loop.became_readable(self._fd)


def pair(near: VirtualSocket, far: VirtualSocket) -> None:
    near.peer, far.peer = far, near
    for end in (near, far):
        end.host.sockets[end] = None
