"""Listens for Kafka clients and keeps their connections within bounds.

One sweep for all connections closes those that were idle for too long: there is no timer for each."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from tidelog import errors
from tidelog._speed.wire.poller import Poller
from tidelog.access.principals import NoRuleApplies, SslPrincipalMapper, distinguished_name
from tidelog.broker.bounds.connection_quotas import ConnectionQuotas
from tidelog.broker.bounds.fair_threads import FairThreads
from tidelog.broker.bounds.stalled_readers import StalledReaders
from tidelog.broker.bounds.unauthenticated_connections import (
    UnauthenticatedConnection,
    UnauthenticatedConnections,
)
from tidelog.broker.connection import ClientConnection
from tidelog.broker.router import Router
from tidelog.broker.session import ANONYMOUS, Session
from tidelog.config import BrokerConfig
from tidelog.config.amqp import kafka_listeners
from tidelog.config.listener_security import ListenerSecurity
from tidelog.logs import SparingLog
from tidelog.net.network import ListeningSocket, Network
from tidelog.net.tls import TlsSocket
from tidelog.net.tls_files import TlsContext

SCRATCH_BYTES = 256 * 1024
IDLE_TICKS = 10  # sweeps in one connections.max.idle.ms
ACCEPTS_A_TURN = 8  # each takes a tenth of a millisecond, or more
ACCEPT_PAUSE_S = 0.2
HANDSHAKE_S_MAX = 10.0
TOO_SOON_MAX = 1000  # connections that are held until they are closed, because their address made too many

WATCH_S = 1.0

log = logging.getLogger("tidelog.server")
sparing = SparingLog(log)

TLS = "TLS"


class Server:
    def __init__(
        self, config: Callable[[], BrokerConfig], network: Network, router: Router, descriptors_max: int
    ) -> None:
        """`config` is asked each time: bounds on connections can change while the broker runs.  `descriptors_max` is
        what connections may take of the open files allowed."""
        self._config = config
        self._network = network
        self._router = router
        self._gate = router.gate
        self._descriptors_max = descriptors_max
        self._scratch = bytearray(SCRATCH_BYTES)
        self._listening: dict[str, ListeningSocket] = {}
        self._connections: dict[ClientConnection, None] = {}  # in the order they came
        self.opened = 0
        self.refused: Counter[str] = Counter()  # by the bound that was reached
        self._per_host: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._rates = ConnectionQuotas(router.gate.quotas)
        self._too_soon: dict[Any, asyncio.TimerHandle] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._poller: Poller | None = None
        self._tls: dict[str, TlsContext] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._strangers = UnauthenticatedConnections(config, max(1, descriptors_max // 2))
        self._not_logged_in: dict[ClientConnection, UnauthenticatedConnection] = {}
        self._handshake_steps = FairThreads("tls", lambda: config().tidelog_login_connections_max)
        self._stalled = StalledReaders()
        self._watch: asyncio.TimerHandle | None = None

    def bind(self) -> dict[str, tuple[str, int]]:
        """Takes the ports, without answering yet: listener name -> (host, real port)."""
        bound = {}
        for listener in kafka_listeners(self._config().listeners):
            if self._security(listener.name).encrypts:
                context = TlsContext(lambda name=listener.name: self._security(name).tls)  # type: ignore[misc]
                context.get()  # a certificate that cannot be read stops the start
                self._tls[listener.name] = context
            listening = self._network.listen(listener.host, listener.port)
            self._listening[listener.name] = listening
            bound[listener.name] = (listener.host, int(listening.getsockname()[1]))
        return bound

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for name, listening in self._listening.items():
            loop.add_reader(listening.fileno(), self._accept, name, listening)
        self._schedule_sweep()
        self._schedule_watch()

    def stop_listening(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._listening.values():
            loop.remove_reader(listening.fileno())
            listening.close()
        self._listening.clear()

    async def stop(self, grace_ms: int) -> None:
        """Requests under way are answered if that takes no longer than `grace_ms`; then every connection is closed."""
        self.stop_listening()
        for timer in (self._sweep, self._watch):
            if timer is not None:
                timer.cancel()
        self._strangers.stop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_ms / 1000
        for connection in tuple(self._connections):
            connection.drain()
        self._router.drain()
        while any(connection.in_flight for connection in self._connections) and loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in tuple(self._connections):
            connection.close()
        for accepted, timer in self._too_soon.items():
            timer.cancel()
            accepted.close()
        self._too_soon.clear()
        for handshake in self._handshakes:
            handshake.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        if self._poller is not None:
            self._poller.close()

    @property
    def connections(self) -> Collection[ClientConnection]:
        """The connections that are open now; callers do not change the collection."""
        return self._connections

    def _accept(self, name: str, listening: ListeningSocket) -> None:
        config, security = self._config(), self._security(name)
        for _ in range(ACCEPTS_A_TURN):
            if self._per_listener[name] >= security.connections_max:
                self._pause_accepting(name, listening)  # clients wait in the backlog
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                # The process is at its limits: clients wait in the backlog.  The listener stays readable, so that
                # looking again at once would be all that the broker does.
                log.error("cannot accept connections for a while: %s", problem)
                self._pause_accepting(name, listening)
                return
            self._admit(name, accepted, address)
            throttle_ms = self._rates.accepted(name, config, security, self._now_ms())
            if throttle_ms:
                self._pause_accepting(name, listening, throttle_ms / 1000)
                return

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _pause_accepting(
        self, name: str, listening: ListeningSocket, pause_s: float = ACCEPT_PAUSE_S
    ) -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            if self._listening.get(name) is listening:
                loop.add_reader(listening.fileno(), self._accept, name, listening)

        loop.remove_reader(listening.fileno())
        loop.call_later(pause_s, again)

    def _admit(self, name: str, accepted: Any, address: Any) -> None:
        host, peer = str(address[0]), f"{address[0]}:{address[1]}"
        config = self._config()
        refusal = self._refusal(name, host, config)
        if refusal is not None:
            bound, why = refusal
            sparing.warning(host, "refusing a connection of %s to listener %s: %s", host, name, why)
            self.refused[bound] += 1
            accepted.close()
            return
        throttle_ms = self._rates.came_from(host, self._now_ms())
        if throttle_ms:
            self._close_later(accepted, host, throttle_ms)
            return
        if config.socket_send_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
        if config.socket_receive_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        security = self._security(name)
        if not security.encrypts and not security.has_login:
            self._connect(name, accepted, peer, security)
            return
        stranger = self._strangers.came(name, host, peer)
        if not security.encrypts:
            self._connect(name, accepted, peer, security, None, stranger)
            return
        handshake = asyncio.get_running_loop().create_task(self._encrypt(stranger, accepted, security))

        def close(bound: str, why: str) -> None:
            self._tell_closed(bound, host, f"{peer} (listener {name}, TLS handshake)", why)
            handshake.cancel()

        stranger.close = close
        self._per_host[host] += 1
        self._per_listener[name] += 1
        self._handshakes.add(handshake)
        handshake.add_done_callback(lambda done: self._encrypted(done, host, name))

    def _close_later(self, accepted: Any, host: str, throttle_ms: int) -> None:
        """As in Kafka: a client that finds itself closed at once would come again at once."""
        sparing.warning(host, "refusing a connection of %s: its connection_creation_rate is exceeded", host)
        self.refused["connection_creation_rate"] += 1
        if len(self._too_soon) >= TOO_SOON_MAX:
            accepted.close()
            return

        def close() -> None:
            del self._too_soon[accepted]
            accepted.close()

        self._too_soon[accepted] = asyncio.get_running_loop().call_later(throttle_ms / 1000, close)

    def _security(self, listener: str) -> ListenerSecurity:
        return self._config().security.get(listener) or ListenerSecurity()

    async def _encrypt(
        self, stranger: UnauthenticatedConnection, accepted: Any, security: ListenerSecurity
    ) -> None:
        stream, name, peer = None, stranger.listener, stranger.peer
        try:
            stream = TlsSocket(accepted, self._tls[name].get(), None, server=True)
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                await stream.handshake(partial(self._handshake_steps.run, stranger.host))
            principal = _principal(stream, security)
        except (OSError, NoRuleApplies) as problem:  # of TLS, too
            self._strangers.left(stranger)
            self.refused["TLS handshake"] += 1
            why = (
                f"no TLS handshake within {HANDSHAKE_S_MAX:.0f} s"
                if isinstance(problem, TimeoutError)
                else problem
            )
            sparing.warning(stranger.host, "refusing a connection of %s to listener %s: %s", peer, name, why)
            session = Session(self._gate.rules, name, peer, security.protocol)
            self._gate.audit.login_refused(session, TLS, None, str(why))
            accepted.close()
        except BaseException:
            self._strangers.left(stranger)
            accepted.close()
            raise
        else:
            if not security.has_login:
                self._strangers.left(stranger)
            self._connect(name, stream, peer, security, principal, stranger if security.has_login else None)

    def _encrypted(self, handshake: asyncio.Task[None], host: str, listener: str) -> None:
        self._handshakes.discard(handshake)
        self._left(host, listener)
        if not handshake.cancelled() and (problem := handshake.exception()) is not None:
            log.error("a TLS handshake failed", exc_info=problem)

    def _connect(
        self,
        name: str,
        stream: Any,
        peer: str,
        security: ListenerSecurity,
        principal: str | None = None,
        stranger: UnauthenticatedConnection | None = None,
    ) -> None:
        config = self._config()
        session = self._gate.open(name, peer, security.protocol, principal or ANONYMOUS)
        try:
            self._gate.tenant_connections.took(session, self._gate.tenant(session))
        except errors.PolicyViolation as problem:
            self._tell_closed("connections_max", _host(peer), peer, str(problem))
            stream.close()
            return
        if principal is not None and not security.has_login:
            self._gate.audit.logged_in(session, TLS)
        connection = ClientConnection(
            self._watcher(stream),
            stream,
            self._scratch,
            config.socket_request_max_bytes,
            config.tidelog_connection_requests_max,
            router=self._router,
            session=session,
            ended=self._ended,
            logged_in=self._logged_in,
        )
        self._connections[connection] = None
        self.opened += 1
        self._per_host[_host(session.peer)] += 1
        self._per_listener[name] += 1
        if stranger is None:
            self._keep_within_bounds(name)
        else:
            self._not_logged_in[connection] = stranger
            stranger.close = lambda bound, why: self._close(connection, bound, why)
            connection.bound(security.sasl_message_bytes_max, self._strangers.queued)
        connection.start()

    def _logged_in(self, connection: ClientConnection) -> None:
        stranger = self._not_logged_in.pop(connection, None)
        if stranger is None:
            return  # it logged in again, or has ended
        self._strangers.left(stranger)
        connection.bound(self._config().socket_request_max_bytes, self._router.queued)
        self._keep_within_bounds(connection.listener)

    def _keep_within_bounds(self, name: str) -> None:
        """A broker that came and is known takes the place of the client that has been idle for longest, as in Kafka."""
        config = self._config()
        if self._count > config.max_connections and _is_for_brokers(name, config):
            self._make_place(name)

    def _make_place(self, name: str) -> bool:
        """For a broker, on a listener of its own; false if nobody of another listener is there."""
        bound, why = "max.connections", f"a broker on listener {name} takes its place"
        stranger = self._strangers.oldest(but_not_of=name)
        if stranger is not None:
            self._strangers.left(stranger)
            stranger.close(bound, why)
            return True
        others = (connection for connection in self._connections if connection.listener != name)
        idle = max(others, key=lambda connection: connection.idle_ticks, default=None)
        if idle is not None:
            self._close(idle, bound, why)
        return idle is not None

    def _close(self, connection: ClientConnection, bound: str, why: str) -> None:
        self._tell_closed(bound, _host(connection.session.peer), connection.shown, why)
        connection.close()

    def _tell_closed(self, bound: str, host: str, who: str, why: str) -> None:
        self.refused[bound] += 1
        sparing.warning(host, "closing the connection of %s: %s", who, why)

    @property
    def _count(self) -> int:
        return len(self._connections) + len(self._handshakes)

    def _refusal(self, name: str, host: str, config: BrokerConfig) -> tuple[str, str] | None:
        """The bound that is reached, and what to tell of it.  `max.connections` does not keep brokers away: they take a
        place when it is known who they are."""
        count, of_brokers = self._count, _is_for_brokers(name, config)
        if count >= config.max_connections and not of_brokers:
            return "max.connections", f"max.connections ({config.max_connections}) is reached"
        most = config.connections_max_of(host)
        if self._per_host[host] >= most:
            return "max.connections.per.ip", f"max.connections.per.ip ({most}) is reached"
        if count >= self._descriptors_max and not (of_brokers and self._make_place(name)):
            return (
                "ulimit",
                f"{self._descriptors_max} are open, and the rest of the open files allowed is for data: raise ulimit -n",
            )
        return None

    def _watcher(self, accepted: Any) -> Poller | asyncio.AbstractEventLoop:
        """Sockets that are not the system's are known to their own loop only."""
        loop = asyncio.get_running_loop()
        if not isinstance(accepted.inner if isinstance(accepted, TlsSocket) else accepted, socket.socket):
            return loop
        if self._poller is None:
            self._poller = Poller(loop)
        return self._poller

    def _ended(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
        stranger = self._not_logged_in.pop(connection, None)
        if stranger is not None:
            self._strangers.left(stranger)
        self._router.connection_ended(connection)
        # Not `session.host`: that is the host of the user where a broker connects on behalf of one.
        self._left(_host(connection.session.peer), connection.session.listener)

    def _left(self, host: str, listener: str) -> None:
        self._per_listener[listener] -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _schedule_sweep(self) -> None:
        every_ms = self._config().connections_max_idle_ms / IDLE_TICKS
        if every_ms > 0:
            self._sweep = asyncio.get_running_loop().call_later(every_ms / 1000, self._swept)

    def _swept(self) -> None:
        for connection in tuple(self._connections):
            connection.idle_ticks += 1
            if connection.idle_ticks > IDLE_TICKS and not connection.unanswered:
                connection.close()
        self._schedule_sweep()

    def _schedule_watch(self) -> None:
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._watched)

    def _watched(self) -> None:
        queued = self._router.queued
        if queued.unsent or self._strangers.queued.unsent:
            now_s, stalled_ms = (
                asyncio.get_running_loop().time(),
                self._config().tidelog_connection_stalled_ms,
            )
            too_much = queued.unsent - queued.most
            for connection, bound, why in self._stalled.to_close(
                tuple(self._connections), now_s, stalled_ms, too_much
            ):
                self._close(connection, bound, why)
        self._schedule_watch()


def _is_for_brokers(listener: str, config: BrokerConfig) -> bool:
    """As in Kafka: only if clients have a listener of their own."""
    return listener == config.inter_broker_listener and len(kafka_listeners(config.listeners)) > 1


def _host(peer: str) -> str:
    return peer.rpartition(":")[0]


def _principal(stream: TlsSocket, security: ListenerSecurity) -> str | None:
    """The principal in the client's certificate; None without a certificate."""
    subject = stream.peer_subject()
    if subject is None:
        return None
    mapper = SslPrincipalMapper(security.principal_mapping_rules)
    return f"User:{mapper.name_of(distinguished_name(subject))}"
