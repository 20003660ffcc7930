"""TLS over any socket of the network seam: the same non-blocking methods, with encryption.

The standard library's TLS object works on memory; this class moves bytes between the object and the socket.  Decrypted
bytes that nobody has read yet do not make the socket readable: a reader asks `pending` before it waits.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from tidelog.net.network import Socket

RECORD_BYTES_MAX = 64 * 1024  # how much is encrypted before it is sent
READ_BYTES = 64 * 1024


class _Scratch(threading.local):
    """What comes from a socket is handed on at once: a thread needs one buffer, whatever the number of its sockets."""

    def __init__(self) -> None:
        self.buffer = bytearray(READ_BYTES)


_scratch = _Scratch()


async def _at_once(step: Callable[[], None]) -> None:
    step()


class TlsSocket:
    def __init__(
        self, inner: Socket, context: ssl.SSLContext, host: str | None, server: bool = False
    ) -> None:
        self._inner = inner
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=host)
        self._encrypted = memoryview(b"")
        self._accepted = 0

    @property
    def inner(self) -> Socket:
        """The socket beneath, which carries what is encrypted."""
        return self._inner

    async def handshake(self, run: Callable[[Callable[[], None]], Awaitable[None]] = _at_once) -> None:
        """Raises `ssl.SSLError` or `OSError`; whoever called closes the socket then.  A step takes a millisecond or more of
        computing: `run` may leave it to another thread."""
        while True:
            try:
                await run(self._tls.do_handshake)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._readable()
                self._fill()
            except ssl.SSLError:
                await self._flush()  # the peer should hear why
                raise
            else:
                await self._flush()
                return

    def peer_subject(self) -> tuple[tuple[tuple[str, str], ...], ...] | None:
        """The subject of the peer's verified certificate; None if the peer has shown none."""
        certificate = self._tls.getpeercert()
        subject: tuple[tuple[tuple[str, str], ...], ...] | None = certificate and certificate.get("subject")  # type: ignore[assignment]
        return subject

    @property
    def pending(self) -> bool:
        """A read would not have to wait."""
        return self._tls.pending() > 0 or self._in.pending > 0

    def recv_into(self, buffer: Any, nbytes: int = 0) -> int:
        while True:
            try:
                # With a buffer it returns how much it has put there; its stubs know only the other form.
                return cast(int, self._tls.read(nbytes or len(buffer), buffer))
            except ssl.SSLWantReadError:
                self._try_flush()  # an answer to a message of the protocol itself, before there may be nothing to read
                self._fill()
            except ssl.SSLZeroReturnError:
                return 0
            except ssl.SSLEOFError:
                return 0

    def send(self, data: Any) -> int:
        """As much as was encrypted, once all of it has left; until then the same data must be offered again."""
        if not self._accepted:
            self._accepted = self._tls.write(memoryview(data)[:RECORD_BYTES_MAX])
        if not self._try_flush():
            raise BlockingIOError
        count, self._accepted = self._accepted, 0
        return count

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        return self.send(buffers[0])

    def fileno(self) -> int:
        """To wait for readiness.  What is sent to it directly, as by sendfile, leaves unencrypted."""
        return self._inner.fileno()

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._inner.setsockopt(level, option, value)

    def getpeername(self) -> Any:
        return self._inner.getpeername()

    def getsockname(self) -> Any:
        return self._inner.getsockname()

    def close(self) -> None:
        try:
            self._tls.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass  # it waits for the peer's goodbye, and nobody else does
        try:
            self._try_flush()
        except OSError:
            pass
        self._inner.close()

    def _fill(self) -> None:
        buffer = _scratch.buffer
        count = self._inner.recv_into(buffer)
        if count:
            self._in.write(memoryview(buffer)[:count])
        else:
            self._in.write_eof()

    def _try_flush(self) -> bool:
        """Whether everything encrypted has left."""
        while True:
            if not self._encrypted:
                self._encrypted = memoryview(self._out.read())
                if not self._encrypted:
                    return True
            try:
                self._encrypted = self._encrypted[self._inner.send(self._encrypted) :]
            except (BlockingIOError, InterruptedError):
                return False

    async def _flush(self) -> None:
        while not self._try_flush():
            await self._event(reading=False)

    async def _readable(self) -> None:
        await self._event(reading=True)

    async def _event(self, *, reading: bool) -> None:
        loop, number = asyncio.get_running_loop(), self._inner.fileno()
        ready: asyncio.Future[None] = loop.create_future()

        def happened() -> None:
            if not ready.done():
                ready.set_result(None)

        (loop.add_reader if reading else loop.add_writer)(number, happened)
        try:
            await ready
        finally:
            (loop.remove_reader if reading else loop.remove_writer)(number)
