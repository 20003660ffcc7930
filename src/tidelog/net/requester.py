"""The requesting side of one connection: requests leave in the order they are submitted, and answers are matched to their
requests by correlation id.

A request that is not answered within its timeout breaks the whole connection, because answers come in order, and the
requests after it would wait as long.  When a connection breaks, every waiter gets an error and the socket is closed, so
neither a cancelled nor a dropped waiter keeps anything open.  `client` and `replication` send their requests through
this module.
"""

from __future__ import annotations

import asyncio
import os
import socket as sockets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any, ClassVar, Protocol, Self, TypeVar

from tidelog import errors
from tidelog._speed.log.pooled_buffer import PooledBuffer
from tidelog.net.network import Network, Socket
from tidelog.net.tls import TlsSocket
from tidelog.wire import frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

LENGTH_BYTES = 4
READ_BUFFER_BYTES = 64 * 1024
RESPONSE_BYTES_MAX = 512 * 1024 * 1024
IN_FLIGHT_MAX = 64
PIECE_BYTES = 1024 * 1024
BUFFERS_MAX = 64  # of one system call
SOFTWARE_NAME = "tidelog"


class Request(Protocol):
    """A request.  If it has a method `parts(version)`, the parts are sent without being copied together."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]

    def encode(self, version: int) -> bytes: ...


class Response(Protocol):
    @classmethod
    def decode(cls, data: Any, version: int, at: int = 0) -> Self: ...


R = TypeVar("R", bound=Response)


class Unreachable(errors.NetworkException):
    """No connection could be made; the message names the addresses, the reasons and what to check."""

    reason: str = "no connection"
    hint: str = "is it running?"

    @classmethod
    def of(cls, peer: str, reason: str, hint: str) -> Unreachable:
        problem = cls(f"cannot reach a broker at {peer}: {reason}; {hint}")
        problem.reason, problem.hint = reason, hint
        return problem


def reason_of(problem: OSError) -> str:
    """Why a connection failed, in words that follow a colon."""
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused"
    if isinstance(problem, sockets.gaierror):
        return "the host name is not known"
    if problem.errno is not None:
        return os.strerror(problem.errno).lower()
    return str(problem) or type(problem).__name__.lower()


class AnswerTimes(Protocol):
    def add(self, now_s: float, took_ms: float) -> None:
        """An answer has come `took_ms` after its request."""
        ...


class _Waiting:
    __slots__ = ("api", "began_s", "future", "read", "timer", "version")

    def __init__(
        self,
        api: int,
        version: int,
        future: asyncio.Future[Any],
        read: Callable[[Any, int, int], Any],
        timer: asyncio.TimerHandle,
        began_s: float,
    ) -> None:
        self.api = api
        self.began_s = began_s
        self.version = version
        self.future = future
        self.read = read
        self.timer = timer


class Requester:
    """Belongs to the running loop; call `close`, or the requester stays registered with the loop."""

    def __init__(
        self,
        socket: Socket,
        peer: str,
        client_id: str,
        *,
        request_timeout_ms: int,
        in_flight_max: int = IN_FLIGHT_MAX,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self.peer = peer
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        self.lifetime_ms = 0
        """How long the broker keeps this connection open, counted from its opening; 0: without limit."""
        self.broken: errors.TidelogError | None = None
        self.throttled = 0
        """Answers that asked this side to wait before its next request."""
        self.answer_times: AnswerTimes | None = None
        """Where the times of answers are counted."""
        self._throttled_until = 0.0
        self._throttle: asyncio.TimerHandle | None = None
        self._socket = socket
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._in_flight_max = in_flight_max
        self._response_bytes_max = response_bytes_max
        self._loop = asyncio.get_running_loop()
        self._correlation = 0
        self._waiting: dict[int, _Waiting] = {}
        self._places: deque[asyncio.Future[None]] = deque()
        self._ends: list[asyncio.Future[None]] = []
        self._out: deque[tuple[memoryview, asyncio.Future[None] | None]] = deque()
        self._buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._piece = 1
        self._held = False
        self._watching = False
        self._buffered = socket if isinstance(socket, TlsSocket) else None
        self._loop.add_reader(socket.fileno(), self._readable)

    # Sending requests

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self._in_flight_max

    def version_of(self, request: type[Request], most: int | None = None) -> int:
        """The highest version of an API that both sides support, at most `most`."""
        name = request.__name__.removesuffix("Request")
        served = self.versions.get(request.API_KEY)
        if served is None:
            raise errors.UnsupportedVersion(f"{self.peer} does not serve {name}: it needs a newer broker")
        ours = request.VERSIONS
        version = min(served[1], ours[1], ours[1] if most is None else most)
        if version < max(served[0], ours[0]):
            raise errors.UnsupportedVersion(
                f"{self.peer} serves {name} in versions {served[0]}-{served[1]}, and this client supports "
                f"{ours[0]}-{ours[1] if most is None else most}: upgrade the older of the two"
            )
        return version

    async def ask(
        self,
        request: Request,
        response: type[R],
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Waits for a place among the requests in flight, then for the answer."""
        while self.broken is None and not self.has_room:
            await self._place()
        return await self.submit(request, response, version=version, timeout_ms=timeout_ms)

    def submit(
        self,
        request: Request,
        response: type[R],
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[R]:
        """Sends the request now, ahead of everything submitted later; check `has_room` before.

        If the connection is broken, the future gets the error; this method raises nothing."""
        chosen = self.version_of(type(request), None) if version is None else version
        return self._exchange(request, chosen, response.decode, timeout_ms)

    def tell(self, request: Request, *, version: int | None = None) -> asyncio.Future[None]:
        """Sends a request that is never answered; the future is done when its bytes have left this process."""
        chosen = self.version_of(type(request), None) if version is None else version
        sent: asyncio.Future[None] = self._loop.create_future()
        if self.broken is not None:
            sent.set_exception(self.broken)
            return sent
        self._write(self._framed(request, chosen), sent)
        return sent

    async def negotiate(self, software_version: str) -> None:
        """Asks which API versions the broker serves.  A broker that does not support our version of ApiVersions answers in
        version 0 and, since Kafka 2.4, adds the versions that it supports."""
        newest = ApiVersionsRequest.VERSIONS[1]
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=software_version
        )
        answer = await self._exchange(request, newest, _read_api_versions, None)
        if answer.error_code == errors.UnsupportedVersion.code:
            served = {api.api_key: api.max_version for api in answer.api_keys}
            version = min(served.get(ApiVersionsRequest.API_KEY, 0), newest)
            answer = await self._exchange(request, version, _read_api_versions, None)
        if answer.error_code != errors.NONE:
            raise errors.by_code(answer.error_code)()
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def close(self) -> None:
        self._break(errors.NetworkException(f"the connection to {self.peer} was closed by this side"))

    async def ended(self) -> None:
        """Returns when the connection is broken, by either side."""
        if self.broken is None:
            end: asyncio.Future[None] = self._loop.create_future()
            self._ends.append(end)
            await end

    async def _place(self) -> None:
        place: asyncio.Future[None] = self._loop.create_future()
        self._places.append(place)
        try:
            await place
        except asyncio.CancelledError:
            # The wake-up goes to the next waiter in line.
            if place.done() and not place.cancelled():
                self._wake_next()
            raise

    def _wake_next(self) -> None:
        while self._places:
            place = self._places.popleft()
            if not place.done():
                place.set_result(None)
                return

    def _framed(self, request: Request, version: int) -> list[bytes | memoryview]:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        header = frame.RequestHeader(request.API_KEY, version, self._correlation, self._client_id)
        # `isinstance` with a protocol class would cost more than everything else in this method.
        in_parts: Callable[[int], list[bytes | memoryview]] | None = getattr(request, "parts", None)
        if in_parts is None:
            return [frame.encode_request(header, request.encode(version))]
        parts = in_parts(version)
        start = frame.encode_request(header, parts[0])
        size = len(start) - LENGTH_BYTES + sum(map(len, parts[1:]))
        return [size.to_bytes(LENGTH_BYTES, "big") + start[LENGTH_BYTES:], *parts[1:]]

    def _exchange(
        self, request: Request, version: int, read: Callable[[Any, int, int], Any], timeout_ms: int | None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.broken is not None:
            future.set_exception(self.broken)
            return future
        data = self._framed(request, version)
        wait_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        name = type(request).__name__.removesuffix("Request")
        leaves_s = max(0.0, self._throttled_until - self._loop.time()) if self._throttle is not None else 0.0
        timer = self._loop.call_later(leaves_s + wait_ms / 1000, self._timed_out, name, wait_ms)
        began_s = self._loop.time()
        self._waiting[self._correlation] = _Waiting(request.API_KEY, version, future, read, timer, began_s)
        self._write(data, None)
        return future

    def _timed_out(self, name: str, wait_ms: int) -> None:
        self._break(errors.RequestTimedOut(f"{self.peer} did not answer {name} within {wait_ms} ms"))

    # Writing

    def _write(self, data: list[bytes | memoryview], sent: asyncio.Future[None] | None) -> None:
        idle = not self._out
        for part in data[:-1]:
            self._out.append((memoryview(part), None))
        self._out.append((memoryview(data[-1]), sent))
        if idle and not self._held and self._throttle is None:
            self._write_out()

    def hold(self) -> None:
        """Delays sending: requests that are submitted until `let_go` leave together."""
        self._held = not self._out

    def let_go(self) -> None:
        if self._held:
            self._held = False
            if self._out and self._throttle is None:
                self._write_out()

    def _throttled_for(self, throttle_ms: int) -> None:
        """The broker wants no requests for so long, and would not read them: they leave afterwards."""
        self.throttled += 1
        until = self._loop.time() + throttle_ms / 1000
        if self._throttle is not None:
            if until <= self._throttled_until:
                return
            self._throttle.cancel()
        elif self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket.fileno())
        self._throttled_until = until
        self._throttle = self._loop.call_at(until, self._throttle_over)

    def _throttle_over(self) -> None:
        self._throttle = None
        if self._out and not self._held:
            self._write_out()

    def _write_out(self) -> None:
        self._writable()
        if self._out:
            self._loop.add_writer(self._socket.fileno(), self._writable)
            self._watching = True

    def _writable(self) -> None:
        while self._out:
            try:
                if len(self._out) == 1:
                    count = self._socket.send(self._out[0][0])
                else:
                    count = self._socket.sendmsg([data for data, _ in islice(self._out, BUFFERS_MAX)])
            except (BlockingIOError, InterruptedError):
                return
            except OSError as problem:
                self._break(self._lost(problem))
                return
            while self._out and count >= len(self._out[0][0]):
                data, sent = self._out.popleft()
                count -= len(data)
                if sent is not None and not sent.done():
                    sent.set_result(None)
            if count:
                data, sent = self._out[0]
                self._out[0] = (data[count:], sent)
                return
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket.fileno())

    # Reading

    def _readable(self) -> None:
        into = self._buffer[self._filled :] if self._large is None else self._large[self._large_filled :]
        try:
            count = self._socket.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._break(self._lost(problem))
            return
        if count == 0:
            self._break(errors.NetworkException(f"{self.peer} closed the connection"))
            return
        if self._buffered is not None and self._buffered.pending:
            # Bytes that are already decrypted do not make the socket readable.
            self._loop.call_soon(self._readable_again)
        if self._large is None:
            self._filled += count
            self._cut()
            return
        self._large_filled += count
        left = len(self._large) - self._large_filled
        if left:
            self._wake_at(left)
            return
        whole, self._large = self._large, None
        self._wake_at(1)
        self._answered(whole.toreadonly())

    def _wake_at(self, left: int) -> None:
        """Sets how many bytes make the socket readable: otherwise a large answer is read in many small pieces, each of which
        costs a turn of the loop."""
        piece = min(left, PIECE_BYTES)
        if piece != self._piece and self._buffered is None:
            self._piece = piece
            self._socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVLOWAT, piece)

    def _readable_again(self) -> None:
        if self.broken is None:
            self._readable()

    def _cut(self) -> None:
        """Handles every complete frame in the buffer; a frame that does not fit is read into its own memory."""
        at, filled = 0, self._filled
        while self.broken is None and filled - at >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[at : at + LENGTH_BYTES], "big", signed=True)
            if not LENGTH_BYTES <= size <= self._response_bytes_max:
                self._break(errors.NetworkException(f"{self.peer} announced an answer of {size} bytes"))
                return
            body = at + LENGTH_BYTES
            if body + size <= filled:
                self._answered(bytes(self._buffer[body : body + size]))
                at = body + size
                continue
            if LENGTH_BYTES + size > len(self._buffer):
                self._large = memoryview(PooledBuffer(size))
                self._large_filled = filled - body
                self._large[: self._large_filled] = self._buffer[body:filled]
                self._wake_at(size - self._large_filled)
                at = filled
            break
        self._buffer[: filled - at] = bytes(self._buffer[at:filled])
        self._filled = filled - at

    def _answered(self, data: bytes | memoryview) -> None:
        correlation = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
        waiting = self._waiting.pop(correlation, None)
        if waiting is None:
            self._break(
                errors.NetworkException(f"{self.peer} sent an answer ({correlation}) without a request")
            )
            return
        waiting.timer.cancel()
        self._wake_next()
        if self.answer_times is not None:
            now_s = self._loop.time()
            self.answer_times.add(now_s, 1000 * (now_s - waiting.began_s))
        if waiting.future.done():
            return
        try:
            _, body_at = frame.decode_response_header(waiting.api, waiting.version, data)
            answer = waiting.read(data, waiting.version, body_at)
        except (errors.TidelogError, ValueError) as problem:
            broken = errors.NetworkException(f"{self.peer} sent an answer that cannot be read: {problem}")
            waiting.future.set_exception(broken)
            self._break(broken)
        else:
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._throttled_for(throttle_ms)
            waiting.future.set_result(answer)

    # Breaking

    def _lost(self, problem: OSError) -> errors.TidelogError:
        return errors.NetworkException(f"the connection to {self.peer} broke: {reason_of(problem)}")

    def _break(self, problem: errors.TidelogError) -> None:
        if self.broken is not None:
            return
        self.broken = problem
        if self._throttle is not None:
            self._throttle.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        waiting, self._waiting = list(self._waiting.values()), {}
        for waiter in waiting:
            waiter.timer.cancel()
            _fail(waiter.future, problem)
        for _, sent in self._out:
            if sent is not None:
                _fail(sent, problem)
        self._out.clear()
        while self._places:
            self._wake_next()
        for end in self._ends:
            if not end.done():
                end.set_result(None)


def _fail(future: asyncio.Future[Any], problem: errors.TidelogError) -> None:
    if not future.done():
        # Each waiter gets its own exception: a shared one would collect the tracebacks of all waiters.
        future.set_exception(type(problem)(str(problem)))
        # Retrieved, so that asyncio does not warn: a dropped waiter is not a bug, its owner may have closed the connection.
        future.exception()


def _read_api_versions(data: Any, version: int, at: int) -> ApiVersionsResponse:
    unsupported = int.from_bytes(data[at : at + 2], "big", signed=True) == errors.UnsupportedVersion.code
    return ApiVersionsResponse.decode(data, 0 if unsupported else version, at)


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _encrypted(socket: Socket, tls: ssl.SSLContext, host: str) -> Socket:
    wrapped = TlsSocket(socket, tls, host)
    try:
        await wrapped.handshake()
    except BaseException:
        socket.close()
        raise
    return wrapped


async def dial(
    network: Network,
    host: str,
    port: int,
    client_id: str,
    software_version: str,
    *,
    connect_timeout_ms: int,
    request_timeout_ms: int,
    tls: ssl.SSLContext | None = None,
    authenticate: Callable[[Requester], Awaitable[None]] | None = None,
) -> Requester:
    """Connects, negotiates the API versions and authenticates; `Unreachable` if that fails or takes longer than
    `connect_timeout_ms`."""
    peer = shown(host, port)
    requester: Requester | None = None
    try:
        async with asyncio.timeout(connect_timeout_ms / 1000):
            socket = await network.connect(host, port)
            if tls is not None:
                socket = await _encrypted(socket, tls, host)
            requester = Requester(socket, peer, client_id, request_timeout_ms=request_timeout_ms)
            await requester.negotiate(software_version)
            if authenticate is not None:
                await authenticate(requester)
            return requester
    except BaseException as problem:
        if requester is not None:
            requester.close()
        if isinstance(problem, TimeoutError | errors.RequestTimedOut):
            waited_ms = connect_timeout_ms if isinstance(problem, TimeoutError) else request_timeout_ms
            reason = f"no answer within {waited_ms} ms"
            raise Unreachable.of(peer, reason, "is the address right?") from problem
        if isinstance(problem, ssl.SSLError):
            reason = getattr(problem, "verify_message", "") or problem.reason or str(problem)
            raise Unreachable.of(
                peer, f"TLS failed: {reason}", "are its port, the authority and the certificate right?"
            ) from problem
        if isinstance(problem, OSError):
            unknown_host = isinstance(problem, sockets.gaierror)
            hint = "is the address right?" if unknown_host else "is it running?"
            raise Unreachable.of(peer, reason_of(problem), hint) from problem
        if isinstance(problem, errors.NetworkException):
            raise Unreachable.of(peer, str(problem), "is it a Kafka broker's port?") from problem
        raise
