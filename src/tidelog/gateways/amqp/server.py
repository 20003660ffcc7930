"""The listeners of AMQP: their connections, and what ends with a connection or with a run of this broker."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

from tidelog.broker.services import Services
from tidelog.broker.session import Session
from tidelog.config import BrokerConfig
from tidelog.config.amqp import amqp_listeners, amqp_logs_in
from tidelog.gateways.amqp.active_consumers import ActiveConsumers
from tidelog.gateways.amqp.alarms import Alarms
from tidelog.gateways.amqp.connection import ENDING, AmqpConnection
from tidelog.gateways.amqp.connection_bounds import StrangersOfAmqp, UnfinishedMessages
from tidelog.gateways.amqp.consumer import QueueConsumer
from tidelog.gateways.amqp.dead_letter_routes import DeadLetterRoutes
from tidelog.gateways.amqp.replies import AmqpError, ConnectionFault
from tidelog.gateways.amqp.services import AmqpServices
from tidelog.gateways.amqp.topology.arguments import EXPIRES, SINGLE_ACTIVE
from tidelog.gateways.amqp.topology.declarations import Declarations
from tidelog.gateways.amqp.topology.model import AmqpQueue, use_key
from tidelog.gateways.amqp.topology.store import EXCLUSIVE, TopologyStore
from tidelog.gateways.http.handshakes import HandshakeListener
from tidelog.gateways.http.tls import NewestContext
from tidelog.logs import SparingLog
from tidelog.metadata.store import Delete, MetadataStore, Put
from tidelog.net.network import listen
from tidelog.net.tls_files import TlsContext
from tidelog.storage.dirs.log_dir import LogDirectory

log = logging.getLogger("tidelog.amqp")
sparing = SparingLog(log)

GRACE_S = 2.0
SWEEP_S = 5.0
EXPIRE_S = 0.2
ALARM_S = 0.5


class AmqpServer:
    """`bind`, then `start`, then `stop`."""

    def __init__(self, throttle_ms: Callable[[str], int]) -> None:
        """`throttle_ms`: 0 if a new connection of this address may stay, or after how long it is to be closed."""
        self._throttle_ms = throttle_ms
        self._listening: dict[str, socket.socket] = {}
        self._tls: dict[str, ssl.SSLContext] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open: dict[AmqpConnection, None] = {}
        self._per_host: Counter[str] = Counter()
        self.services: AmqpServices
        self.dead_letters: DeadLetterRoutes
        self.active: ActiveConsumers
        self.alarms: Alarms
        self._stopping = False
        self._home = ""
        self._used_s: dict[tuple[str, str], float] = {}
        self._strangers = StrangersOfAmqp(lambda: self._config)
        self.unfinished = UnfinishedMessages(lambda: self._config)

    def bind(self, config: Callable[[], BrokerConfig]) -> dict[str, tuple[str, int]]:
        """Takes the ports: listener name -> (host, real port)."""
        bound = {}
        for listener in amqp_listeners(config().listeners):
            listening = listen(listener.host, listener.port)
            if config().security[listener.name].encrypts:
                files = TlsContext(lambda name=listener.name: config().security[name].tls)  # type: ignore[misc]
                files.get()  # a certificate that cannot be read stops the start
                self._tls[listener.name] = NewestContext.of(files)
                listening = HandshakeListener.of(listening)
            self._listening[listener.name] = listening
            bound[listener.name] = (listener.host, int(listening.getsockname()[1]))
        return bound

    @property
    def _config(self) -> BrokerConfig:
        return self.services.broker.config()

    async def start(self, broker: Services, store: MetadataStore, home: str) -> None:
        """`home`: names this run of this broker."""
        self._home = home
        topology = TopologyStore(store)
        declarations = Declarations(topology, broker.controller, home)
        self.dead_letters = DeadLetterRoutes(topology, broker)
        broker.queues.route_dead_letters(self.dead_letters.of)
        self.services = AmqpServices(broker, topology, declarations, broker.image().cluster_id)
        self.spawn(topology.run())
        await topology.ready.wait()
        self.spawn(self._sweep())
        self.spawn(self._expire())
        self.active = ActiveConsumers(topology, self.services.consumers, home, self._live)
        self.spawn(self.active.run())
        self.alarms = Alarms(
            lambda: broker.queues.pending_bytes,
            lambda: [partial(_free_bytes, where) for where in broker.log_dirs.online()],
            lambda: self._config.tidelog_amqp_disk_free_bytes_min,
        )
        self.spawn(self._follow_alarms())
        loop = asyncio.get_running_loop()
        for name, listening in self._listening.items():
            self._servers.append(
                await loop.create_server(
                    partial(self._connected, name),
                    sock=listening,
                    ssl=self._tls.get(name),
                )
            )

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        for listening in self._listening.values():
            listening.close()

    async def stop(self) -> None:
        """Clients are told, and what they have not acknowledged goes back to the queues."""
        self._stopping = True
        self.stop_listening()
        for connection in list(self._open):
            connection.fail(ConnectionFault(320, "broker forced connection closure with reason 'shutdown'"))
        deadline = asyncio.get_running_loop().time() + GRACE_S
        while self._open and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self._open):
            connection.drop()
        ending = [task for task in self._tasks if task.get_name() == ENDING]
        if ending:
            await asyncio.wait(ending, timeout=GRACE_S)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str = "") -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_ended)

    def _spawned_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a task of the AMQP listener failed", exc_info=problem)

    # Connections

    def _connected(self, listener: str) -> AmqpConnection:
        random = self.services.broker.random
        return AmqpConnection(self, self.services, listener, str(UUID(int=random.getrandbits(128))))

    def open_session(self, connection: AmqpConnection, peer: str) -> Session:
        protocol = self._config.security[connection.listener].protocol
        return self.services.broker.gate.open(connection.listener, peer, protocol)

    @property
    def stalled_ms(self) -> int:
        return self._config.tidelog_connection_stalled_ms

    def came(self, connection: AmqpConnection, address: Any) -> None:
        """Ends the connection if the listener or the address has as many as it may have, or they come too fast."""
        listening = self._listening[connection.listener]
        if isinstance(listening, HandshakeListener):
            listening.established(address)
        if not self._has_place(connection):
            connection.abort()
        elif throttle_ms := self._throttle_ms(connection.host):
            host = connection.host
            sparing.warning(
                host, "refusing an AMQP connection of %s: its connection_creation_rate is exceeded", host
            )
            # As in Kafka: a client that finds itself closed at once would come again at once.
            connection.read(False)
            asyncio.get_running_loop().call_later(throttle_ms / 1000, connection.abort)
        else:
            self._strangers.came(connection)

    def opened(self, connection: AmqpConnection) -> None:
        """The client has logged in and opened a virtual host."""
        self._strangers.left(connection)

    def _has_place(self, connection: AmqpConnection) -> bool:
        config, host = self._config, connection.host
        self._open[connection] = None
        self._per_host[host] += 1
        for bound, count, most in (
            ("max.connections", len(self._open), config.max_connections),
            (
                f"listener.name.{connection.listener.lower()}.max.connections",
                sum(other.listener == connection.listener for other in self._open),
                config.security[connection.listener].connections_max,
            ),
            ("max.connections.per.ip", self._per_host[host], config.connections_max_of(host)),
        ):
            if count > most:
                sparing.warning(
                    host, "refusing an AMQP connection of %s: %s (%d) is reached", host, bound, most
                )
                return False
        return True

    def logs_in(self, listener: str) -> bool:
        return amqp_logs_in(self._config, listener)

    @property
    def connections(self) -> list[AmqpConnection]:
        return list(self._open)

    async def ended(self, connection: AmqpConnection) -> None:
        """Exclusive queues end with their connection."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._strangers.left(connection)
        self._per_host[connection.host] -= 1
        if not self._per_host[connection.host]:
            del self._per_host[connection.host]
        gate = self.services.broker.gate
        gate.tenant_connections.ended(connection.session)
        gate.quotas.ended(connection.session)
        connection.session.ended()
        vhost = connection.declarer.vhost
        for queue in list(self.services.topology.vhost(vhost).queues.values()):
            if queue.exclusive == connection.id:
                await self._delete(vhost, queue)

    async def _follow_alarms(self) -> None:
        while True:
            if self.alarms.look():
                if self.alarms.active:
                    log.warning("connections that publish are blocked: %s", self.alarms.reason)
                else:
                    log.info("connections that publish are no longer blocked")
                for connection in self.connections:
                    connection.pacing.alarms_changed()
            await asyncio.sleep(ALARM_S)

    # Queues

    def used(self, vhost: str, queue: AmqpQueue) -> None:
        """A client has to do with the queue now, so that it does not expire."""
        if EXPIRES in queue.arguments:
            self._used_s[vhost, queue.name] = asyncio.get_running_loop().time()

    def uses_elsewhere(self, vhost: str, queue: AmqpQueue) -> list[bool]:
        """One for each other broker with consumers of the queue: whether its consumer has to be the only one."""
        uses = self.services.topology.vhost(vhost).uses.get(queue.name)
        if not uses:
            return []
        live = self._live()
        return [exclusive for home, exclusive in uses.items() if home != self._home and home in live]

    def _live(self) -> frozenset[str]:
        brokers = self.services.broker.image().brokers.values()
        return frozenset(broker.incarnation for broker in brokers)

    async def consumer_came(self, vhost: str, queue: AmqpQueue, consumer: QueueConsumer) -> None:
        """Other brokers learn of the first one here, and of one that wants to be alone."""
        self.services.consumers.add(vhost, queue.name, consumer)
        if consumer.exclusive or len(self.services.consumers.of(vhost, queue.name)) == 1:
            value = EXCLUSIVE if consumer.exclusive else b"shared"
            await self.services.topology.change([], [Put(use_key(vhost, queue.name, self._home), value)])
        if SINGLE_ACTIVE in queue.arguments:
            await self.active.claim(vhost, queue.name)

    async def delete_queue(self, vhost: str, queue: AmqpQueue) -> None:
        consumers = list(self.services.consumers.of(vhost, queue.name))
        await self.services.declarations.delete_queue(vhost, queue)
        for consumer in consumers:
            await consumer.queue_deleted()

    async def consumer_left(self, vhost: str, queue: AmqpQueue) -> None:
        """An auto-delete queue ends with its last consumer."""
        if self.services.consumers.of(vhost, queue.name):
            self.active.wake(vhost, queue.name)
            return
        if self._stopping:
            return
        topology = self.services.topology
        self.used(vhost, queue)
        if topology.vhost(vhost).queues.get(queue.name) != queue:
            return
        if queue.auto_delete and not self.uses_elsewhere(vhost, queue):
            await self._delete(vhost, queue)
        else:
            await topology.change([], [Delete(use_key(vhost, queue.name, self._home))])
            await self.active.leave(vhost, queue.name)

    async def _delete(self, vhost: str, queue: AmqpQueue) -> None:
        try:
            await self.delete_queue(vhost, queue)
        except (AmqpError, Exception) as problem:
            # The sweep of the next start deletes it.
            log.warning("queue %s could not be deleted now: %s", queue.name, problem)

    async def _sweep(self) -> None:
        """Deletes queues of runs that are over: their broker was killed, or could not delete them."""
        while True:
            try:
                await self.services.declarations.end_of_homes(self._live())
                await self.active.end_of_homes()
            except Exception as problem:
                log.warning("queues of earlier runs could not be deleted now: %s", problem)
            await asyncio.sleep(SWEEP_S)

    async def _expire(self) -> None:
        """Deletes queues with `x-expires` that nobody has used for so long; the broker that leads a queue looks."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(EXPIRE_S)
            now_s = loop.time()
            for vhost, queue in list(self.services.topology.expiring()):
                key = vhost, queue.name
                if self.services.consumers.of(*key) or self.uses_elsewhere(vhost, queue):
                    self._used_s[key] = now_s
                since_s = self._used_s.setdefault(key, now_s)
                if (now_s - since_s) * 1000 > queue.arguments[EXPIRES] and self._leads(queue):
                    await self._delete(vhost, queue)
                    self._used_s.pop(key, None)

    def _leads(self, queue: AmqpQueue) -> bool:
        broker = self.services.broker
        partition = broker.image().partition(queue.topic, 0)
        return partition is not None and partition.leader == broker.node_id


def _free_bytes(where: LogDirectory) -> int:
    return where.volume.disk.free_bytes(where.path)[1]
