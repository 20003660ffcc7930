"""Requests to an etcd cluster, over one connection at a time; the client leaves an endpoint that does not answer.

gRPC's own balancing is not used, because it stays with a frozen member.  A call waits one second at most, then the client
changes to the next endpoint, with all its watches.  Every request carries `hasleader`, so that a member that has lost the
majority refuses the request at once.  A call may reach etcd twice; its caller must make that harmless."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import grpc
import grpc.aio

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.store import Unanswered

TRY_MS = 1_000
PATIENCE_MS = 10_000
PAUSE_MS = 100  # pause after every endpoint has been tried; it doubles each time
PAUSE_MS_MAX = 1_000
REFUSED_MAX = 3  # tokens in a row that etcd may refuse

_OPTIONS = (
    # etcd is never behind the proxy that the environment names for web pages.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", TRY_MS),
    ("grpc.max_reconnect_backoff_ms", TRY_MS),
    # A member that restarts at an address must not be judged by the connection to the earlier process.
    ("grpc.use_local_subchannel_pool", 1),
)
_LOST = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.ABORTED,
}
_OLD_TOKEN = ("invalid auth token", "revision of auth store is old")


class EtcdRefused(errors.UnknownServerError):
    """etcd has refused the request; `reason` is etcd's own text."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(f"etcd refuses the request: {reason}{hint}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """How to reach etcd.  `ca`, `cert` and `key`: the contents of PEM files; with `ca` the connection is encrypted."""

    endpoints: tuple[str, ...]
    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None
    user: str | None = None
    password: str = ""


class EtcdAnswer(NamedTuple):
    """`tries` above 1: an earlier try may have had its effect, too."""

    data: bytes
    tries: int


class EtcdLink:
    """The connection to one endpoint."""

    def __init__(self, endpoint: str, channel: Any) -> None:
        self.endpoint = endpoint
        self.channel = channel
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the client has changed to another endpoint: users of this link must leave it, too."""

    async def ask(self, method: str, request: bytes, metadata: Any) -> bytes:
        with _cut_off():
            answer: bytes = await self.channel.unary_unary(method)(
                request, timeout=TRY_MS / 1000, metadata=metadata
            )
        return answer

    async def ask_stream(self, method: str, request: bytes, metadata: Any) -> bytes:
        """Sends one request and reads one answer, on a method that streams both."""
        call = self.channel.stream_stream(method)([request], timeout=TRY_MS / 1000, metadata=metadata)
        try:
            with _cut_off():
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise EtcdLost(f"{await call.code()}: {await call.details()}")
        finally:
            call.cancel()
        assert isinstance(answer, bytes)
        return answer


class EtcdLost(Exception):
    """The member did not answer, or cannot answer: another member may."""


@contextmanager
def _cut_off() -> Iterator[None]:
    """Turns the cancellation of a call by a closed channel into EtcdLost.  Otherwise the caller could not distinguish it
    from its own cancellation, and its task would end: this happens when a process was stalled for longer than the calls
    on a link may take."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise EtcdLost("the connection was closed before the answer came") from None


class EtcdClient:
    def __init__(self, access: EtcdAccess, clock: Clock, random: Random) -> None:
        self._access = access
        self._clock = clock
        self._at = random.randrange(len(access.endpoints))
        self._link: EtcdLink | None = None
        self._token: str | None = None
        self._signing_in = asyncio.Lock()
        self._leaving: dict[asyncio.Future[None], Any] = {}
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Ends the watches; calls in progress are lost."""
        if not self.closing.done():
            self.closing.set_result(None)
        if self._link is not None:
            self._link.left.cancel()
            await self._link.channel.close()
            self._link = None
        for leaving, channel in list(self._leaving.items()):
            leaving.cancel()
            await asyncio.wait([leaving])
            await channel.close()

    @property
    def endpoints(self) -> str:
        return ", ".join(self._access.endpoints)

    # The connection

    def link(self) -> EtcdLink:
        if self.closing.done():
            raise errors.KafkaStorageError("The metadata store is closed.")
        if self._link is None:
            endpoint = self._access.endpoints[self._at]
            self._link = EtcdLink(endpoint, self._connect(endpoint))
        return self._link

    def _connect(self, endpoint: str) -> Any:
        access = self._access
        if access.ca is None:
            return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(access.ca, access.key, access.cert)
        return grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)

    def leave(self, link: EtcdLink) -> None:
        """Changes to the next endpoint, unless another call already has."""
        if link is not self._link:
            return
        self._link = None
        self._at = (self._at + 1) % len(self._access.endpoints)
        link.left.set_result(None)
        # Other calls end by themselves within a second; to close the channel at once would look like a cancellation.
        closing = asyncio.ensure_future(link.channel.close(2 * TRY_MS / 1000))
        self._leaving[closing] = link.channel
        closing.add_done_callback(self._left)

    def _left(self, closing: asyncio.Future[None]) -> None:
        self._leaving.pop(closing, None)

    # Requests

    async def call(
        self, method: str, request: bytes, patience_ms: int = PATIENCE_MS, streamed: bool = False
    ) -> EtcdAnswer:
        """The first answer of any endpoint; EtcdRefused if etcd refuses, Unanswered if no endpoint answers in time."""
        attempt = EtcdAttempt(self, patience_ms)
        while True:
            link = self.link()
            ask = link.ask_stream if streamed else link.ask
            try:
                metadata = await self.metadata(link)
                return EtcdAnswer(await ask(method, request, metadata), attempt.tries + 1)
            except (grpc.aio.AioRpcError, EtcdLost) as problem:
                await attempt.failed(link, problem)

    async def metadata(self, link: EtcdLink) -> tuple[tuple[str, str], ...]:
        """The gRPC metadata of every request; signs in if there is no token."""
        needs_leader = ("hasleader", "true")
        access = self._access
        if access.user is None:
            return (needs_leader,)
        async with self._signing_in:
            if self._token is None:
                request = messages.authenticate_request(access.user, access.password)
                try:
                    answer = await link.ask(messages.AUTHENTICATE, request, (needs_leader,))
                    self._token = messages.read_token(answer)
                except grpc.aio.AioRpcError as problem:
                    if "authentication is not enabled" not in (problem.details() or ""):
                        raise
                    return (needs_leader,)
        return (needs_leader, ("token", self._token))

    def forget_token(self) -> None:
        self._token = None

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def rounds(self, tries: int) -> bool:
        """True if every endpoint has been tried equally often."""
        return tries % len(self._access.endpoints) == 0


class EtcdAttempt:
    """The tries of one call, and what to do after each failure."""

    def __init__(self, client: EtcdClient, patience_ms: int | None) -> None:
        self._client = client
        self._ends_ms = None if patience_ms is None else client.now_ms() + patience_ms
        self._refused = 0
        self._pause_ms = PAUSE_MS
        self.tries = 0

    async def failed(self, link: EtcdLink, problem: Exception) -> None:
        """Returns when it is time for the next try; raises if there is no other try."""
        self.tries += 1
        text = _text(problem)
        if isinstance(problem, grpc.aio.AioRpcError) and self._wants_token(problem, text):
            self._client.forget_token()
        else:
            self._client.leave(link)
        if self._ends_ms is not None and self._client.now_ms() >= self._ends_ms:
            raise Unanswered(
                f"etcd at {self._client.endpoints} did not answer: {text}: check that it runs and has a majority."
            )
        if self._client.rounds(self.tries):
            await asyncio.wait([self._client.closing], timeout=self._pause_ms / 1000)
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)

    def _wants_token(self, problem: grpc.aio.AioRpcError, text: str) -> bool:
        """True if a new token may help; EtcdRefused if neither another member nor a new token would."""
        code = problem.code()
        if code is grpc.StatusCode.UNAUTHENTICATED or any(phrase in text for phrase in _OLD_TOKEN):
            self._refused += 1
            if self._refused > REFUSED_MAX:
                raise EtcdRefused(text) from None
            return True
        busy = code is grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests" in text
        if code not in _LOST and not busy:
            raise EtcdRefused(text, _hint(text)) from None
        return False


def _text(problem: Exception) -> str:
    if isinstance(problem, grpc.aio.AioRpcError):
        return str(problem.details() or problem.code().name.lower())
    return str(problem)


_HINTS = {
    "authentication failed": ": check tidelog.metadata.user and tidelog.metadata.password",
    "user name is empty": ": set tidelog.metadata.user and tidelog.metadata.password",
    "permission denied": ": grant the user all keys below the prefix of tidelog.metadata",
    "space exceeded": ": compact and defragment it, then disarm its alarm",
}


def _hint(text: str) -> str:
    return next((hint for part, hint in _HINTS.items() if part in text), "")
