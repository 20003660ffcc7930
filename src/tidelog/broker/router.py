"""From a frame to its answer: picks the handler, checks the version, encodes what comes back.

The hot requests (Produce, Fetch) are decoded natively and answered without a task where nothing has to be waited
for.  All others are decoded before the frame's bytes are reused; what a handler cannot answer at once runs as a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tidelog._speed.wire.connection import Answer
from tidelog._speed.wire.request_header import request_header
from tidelog._speed.wire.shortcut import ProduceShortcut
from tidelog.broker.bounds.fair_threads import FairQueue
from tidelog.broker.bounds.quota_manager import measured
from tidelog.broker.bounds.request_memory import queued_bytes_max
from tidelog.broker.gate import SASL_AUTHENTICATE
from tidelog.broker.handlers.all_topics import all_topics, asks_for_many
from tidelog.broker.handlers.fetch import fetch
from tidelog.broker.handlers.produce.produce import produce, settle_delayed
from tidelog.broker.routes import (
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    PLAIN,
    PRODUCE,
    ROUTES,
    TWO_PHASE,
    Route,
)
from tidelog.broker.services import Context, Services, answer_at_once
from tidelog.broker.session import Session
from tidelog.groups.held_heartbeats import HeldAnswer
from tidelog.metadata.topics.names import INTERNAL
from tidelog.wire.error_codes import error_codes
from tidelog.wire.frame import encode_response, response_start
from tidelog.wire.message import Message

if TYPE_CHECKING:
    from tidelog.broker.connection import ClientConnection

Handler = Callable[[Any, Context], Message | HeldAnswer[Any] | Awaitable[Message]]
Plain = Callable[[memoryview, int, int, int, Session, Services], bytes | Coroutine[Any, Any, bytes] | None]
"""A handler for the common case of a request: (frame, where its body begins, version, correlation id, session, services).
None when nothing was done, and the other handler has to look."""
Pending = Answer | asyncio.Future[Any] | None
METADATA = 3
SHARE_FETCH = 78
LONG_BYTES = 64 << 10
"""Longer requests are decoded on a thread: each element takes a microsecond or more, in which nobody else is served."""
CODES_A_TURN = 1000
MANY_WAITING_MAX = 1_000
"""Questions about all of very many topics that wait for each other."""
REFUSED_LOGIN_S = 0.05
"""A client has this long to read that its login was refused before the connection is closed."""


class RequestEnvelope(NamedTuple):
    """What encoding the answer to a request takes."""

    route: Route
    version: int
    correlation_id: int
    client_id: str | None
    connection: ClientConnection
    throttle_ms: int


class Router:
    def __init__(self, services: Services) -> None:
        self._services = services
        self.counters = services.counters
        self.gate = services.gate
        self._quotas = services.gate.quotas
        self.shortcut = ProduceShortcut(
            services.partitions.held,
            services.clock.now_ms,
            lambda: services.partitions.lease_proven(),  # set when the broker has registered
            partial(settle_delayed, services),
            INTERNAL,
        )
        self._bytes_max = services.config().tidelog_request_bytes_max
        self.queued = services.queued
        self.queued.most = queued_bytes_max(services.config().queued_max_request_bytes)
        self._ready: dict[int, tuple[Callable[..., Any], Handler, Plain | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._many = FairQueue(1, lambda: MANY_WAITING_MAX)

    def route(
        self, connection: ClientConnection, frame: memoryview, api_key: int, version: int, correlation_id: int
    ) -> Pending:
        route = ROUTES.get(api_key)
        if route is None:
            raise ValueError(f"API {api_key} is not served here")
        session = connection.session
        if not session.admitted:
            self.gate.admit(session, api_key, route.name)
        if not route.min_version <= version <= route.max_version and not self._is_two_phase(route, version):
            return self._other_version(route, connection, version, correlation_id)
        client_id, at = request_header(frame, version >= route.flexible_from)
        session.client_id = client_id
        if session.pipelining.expired_s is not None and api_key != HEARTBEAT:
            session.pipelining.asked(api_key, asyncio.get_running_loop().time())
        limited = self._quotas.active
        if api_key == PRODUCE:
            throttle_ms = self._charge_produce(connection, len(frame)) if limited else 0
            return produce(frame, at, version, correlation_id, connection, self._services, throttle_ms)
        if len(frame) > self._bytes_max:
            # What they are about is looked at piece by piece, while nobody else is served.
            raise ValueError(
                f"{route.name} of {len(frame)} bytes: tidelog.request.bytes.max is {self._bytes_max}"
            )
        if api_key == FETCH:
            return fetch(frame, at, version, correlation_id, connection, self._services)
        throttle_ms = self._quotas.charge_request(session, api_key) if limited else 0
        envelope = RequestEnvelope(route, version, correlation_id, client_id, connection, throttle_ms)
        if len(frame) > LONG_BYTES and api_key != SASL_AUTHENTICATE:
            long = self._answer_long(envelope, bytearray(frame), at)
            return self._run(long, long)
        decode, handle, plain = self._ready.get(api_key) or self._load(route)
        if plain is not None and not throttle_ms:
            answer = plain(frame, at, version, correlation_id, session, self._services)
            if answer is not None:
                return answer if isinstance(answer, bytes) else self._run(answer, answer)
        # Bytes after the last field are passed over, as Kafka does: some clients send a few.
        request, _ = decode(frame, version, at)
        context = self._context(connection, version)
        if self.gate.authorizes(session):
            handle = self._guarded(route, handle)
        if self.gate.audit.enabled:
            handle = _recorded(route, handle)
        if api_key == METADATA and asks_for_many(request, context):
            return self._run_measured(self._about_many(envelope, handle, request, context), session)
        pending = handle(request, context)
        if isinstance(pending, Message):
            return self._encoded(envelope, pending)
        if isinstance(pending, HeldAnswer):
            return self._held(pending, envelope)
        task = self._run_measured(self._answer(envelope, pending), session, pending)
        if api_key == SASL_AUTHENTICATE:
            # Before the connection hears of it: the next request meets what the login has made of the session.
            task.add_done_callback(partial(self._login_answered, connection))
        return task

    def _charge_produce(self, connection: ClientConnection, size: int) -> int:
        throttle_ms = self._quotas.charge_produce(connection.session, size)
        if throttle_ms:
            connection.throttle(throttle_ms)
        return throttle_ms

    def _login_answered(self, connection: ClientConnection, _: asyncio.Task[bytes]) -> None:
        if connection.session.admitted:
            connection.logged_in()
        if connection.session.login_refused:
            connection.drain()
            asyncio.get_running_loop().call_later(REFUSED_LOGIN_S, connection.close)

    def _guarded(self, route: Route, handle: Handler) -> Handler:
        from tidelog.broker.authorization.table import GUARDS

        guard = GUARDS[route.name]
        return lambda request, context: guard(request, context, handle)

    def _context(self, connection: ClientConnection, version: int, holds: bool = True) -> Context:
        holds = holds and not connection.session.pipelining.one_by_one
        return Context(
            self._services,
            version,
            connection.session,
            partial(connection.hold, connection.frames) if holds else answer_at_once,
        )

    async def _answer_long(self, envelope: RequestEnvelope, frame: bytearray, at: int) -> bytes:
        """As the others, but a thread decodes the request and encodes the answer, which may have very many elements."""
        route, version, correlation_id, client_id, connection, _ = envelope
        self.queued.take(len(frame))
        try:
            decode, handle, _ = self._ready.get(route.api_key) or self._load(route)
            request, _ = await asyncio.to_thread(decode, memoryview(frame), version, at)
            if self.gate.authorizes(connection.session):
                handle = self._guarded(route, handle)
            if self.gate.audit.enabled:
                handle = _recorded(route, handle)
            pending = handle(request, self._context(connection, version, holds=False))
        finally:
            self.queued.give_back(len(frame))
        response: Message = pending if isinstance(pending, Message) else await pending
        if self._quotas.active:
            self._throttle(envelope, response)
        codes, answer = await asyncio.to_thread(_encode_long, route, version, correlation_id, response)
        for number, code in enumerate(codes, 1):
            self.counters.failed(route.api_key, code, client_id)
            if number % CODES_A_TURN == 0:
                await asyncio.sleep(0)
        return answer

    def _held(self, held: HeldAnswer[Any], envelope: RequestEnvelope) -> Pending:
        def encoded(response: Message) -> bytes:
            if held.expired:
                envelope.connection.session.pipelining.expired(asyncio.get_running_loop().time())
            return self._encoded(envelope, response)

        return cast("asyncio.Future[bytes]", held.turned(encoded))  # as much of one as a connection needs

    async def _about_many(
        self, envelope: RequestEnvelope, handle: Handler, request: Any, context: Context
    ) -> list[bytes]:
        route, version, correlation_id, client_id, connection, _ = envelope

        def failed(codes: Iterable[int]) -> None:
            for code in codes:
                self.counters.failed(route.api_key, code, client_id)

        await self._many.enter(connection.session.host)
        try:
            response, pieces = await all_topics(request, context, cast(Any, handle), failed)
        finally:
            self._many.leave()
        if self._quotas.active:
            self._throttle(envelope, response)
        answer = pieces.finish(response)
        size = sum(map(len, answer))
        return [response_start(route.api_key, version, correlation_id, size), *answer]

    def _run_measured(
        self, answer: Coroutine[Any, Any, Any], session: Session, *pending: Awaitable[Any]
    ) -> asyncio.Task[Any]:
        if self._quotas.active and self._quotas.measures(session):
            return self._run(measured(answer, session), answer, *pending)
        return self._run(answer, *pending)

    def _run(self, answer: Coroutine[Any, Any, bytes], *pending: Awaitable[Any]) -> asyncio.Task[bytes]:
        """`pending`: what `answer` waits for."""
        task = asyncio.get_running_loop().create_task(answer)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(partial(self._answered, pending))
        return task

    def _answered(self, pending: tuple[Awaitable[Any], ...], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            for awaited in pending:
                if isinstance(awaited, Coroutine):
                    # The connection ended before the task had begun, and Python complains of what never ran.
                    awaited.close()

    def drain(self) -> None:
        """Answers now what waits for something that may not come: the broker stops."""
        self._services.partitions.wake_fetches()
        self._services.classic_groups.drain()
        self._services.consumer_groups.drain()
        self._services.streams_groups.drain()
        self._services.shares.drain()

    def connection_ended(self, connection: ClientConnection) -> None:
        self._services.shares.connection_ended(connection.session.peer)
        self.counters.clients.ended(connection)
        tenant = self.gate.tenant(connection.session)
        if tenant is not None:
            self.counters.tenants.of(tenant.name).add(connection)
        self.gate.tenant_connections.ended(connection.session)
        self._quotas.ended(connection.session)
        connection.session.ended()

    async def _answer(self, envelope: RequestEnvelope, pending: Awaitable[Message]) -> bytes:
        return self._encoded(envelope, await pending)

    def _encoded(self, envelope: RequestEnvelope, response: Message) -> bytes:
        route, version, correlation_id, client_id, _, _ = envelope
        for code in error_codes(response):
            self.counters.failed(route.api_key, code, client_id)
        if self._quotas.active:
            self._throttle(envelope, response)
        return encode_response(route.api_key, version, correlation_id, response.encode(version))

    def _throttle(self, envelope: RequestEnvelope, response: Any) -> None:
        """Mutes the connection if a quota was exceeded, and tells the client for how long."""
        told_ms = getattr(response, "throttle_time_ms", None)
        throttle_ms = max(envelope.throttle_ms, told_ms or 0)
        if envelope.route.api_key == SHARE_FETCH:
            size = len(response.encode(envelope.version))
            throttle_ms = max(throttle_ms, self._quotas.charge_fetch(envelope.connection.session, size))
        if throttle_ms:
            envelope.connection.throttle(throttle_ms)
            if told_ms is not None:
                response.throttle_time_ms = throttle_ms

    def _load(self, route: Route) -> tuple[Callable[..., Any], Handler, Plain | None]:
        message = import_module(f"tidelog.wire.messages.{route.message}")
        handlers = import_module(f"tidelog.broker.handlers.{route.module}")
        plain = PLAIN.get(route.name)
        ready = (
            getattr(message, f"{route.name}Request").decode_prefix,
            getattr(handlers, route.function),
            plain and getattr(import_module(f"tidelog.broker.handlers.{plain[0]}"), plain[1]),
        )
        self._ready[route.api_key] = ready
        return ready

    def _is_two_phase(self, route: Route, version: int) -> bool:
        is_served = self._services.config().transaction_two_phase_commit_enable
        return is_served and (route.api_key, version) == TWO_PHASE

    def _other_version(
        self, route: Route, connection: ClientConnection, version: int, correlation_id: int
    ) -> bytes:
        """A client asks for versions in a version of its own first: only that is answered, so that it can step back."""
        if route.api_key != API_VERSIONS:
            raise ValueError(
                f"{route.name} version {version} is not served: {route.min_version} to {route.max_version} are"
            )
        from tidelog.broker.handlers.api_versions import unsupported_version

        return encode_response(API_VERSIONS, 0, correlation_id, unsupported_version().encode(0))


def _recorded(route: Route, handle: Handler) -> Handler:
    """With what the request changes in the audit trail."""
    from tidelog.broker.audit.admin_changes import CHANGES, recorded

    return recorded(route.name, handle) if route.name in CHANGES else handle


def _encode_long(
    route: Route, version: int, correlation_id: int, response: Message
) -> tuple[list[int], bytes]:
    codes = list(error_codes(response))
    return codes, encode_response(route.api_key, version, correlation_id, response.encode(version))
