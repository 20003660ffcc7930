"""The connections of one client: at most one per address, made when first needed, made again when broken.

Dialling is shared: callers that want an address that is being dialled wait for the same attempt.  An address
that failed is tried again only after a wait that doubles with every failure.  `Cluster` owns the only
instance.
"""

from __future__ import annotations

import asyncio

import tidelog
from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.backoff import Backoff
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.environment import Environment
from tidelog.client.telemetry.connection_times import ConnectionTimes
from tidelog.net.requester import Requester, dial
from tidelog.net.sasl import authenticate

# How much of the time that a broker allows is used.
LIFETIME_SHARE = 0.8
RETIRE_LOOK_S = 0.1


class Connections:
    def __init__(self, environment: Environment, options: ConnectionOptions, times: ConnectionTimes) -> None:
        self._environment = environment
        self._options = options
        self._times = times
        self._tls = None if options.security is None else options.security.ssl_context()
        self._open: dict[Address, Requester] = {}
        self._dialling: dict[Address, asyncio.Task[Requester]] = {}
        self._backoffs: dict[Address, Backoff] = {}
        self._not_before_ms: dict[Address, float] = {}
        self._closed = False

    def ready(self, address: Address) -> Requester | None:
        """The open connection, if there is one now."""
        requester = self._open.get(address)
        if requester is not None and requester.broken is not None:
            del self._open[address]
            return None
        return requester

    def dial(self, address: Address) -> asyncio.Task[Requester]:
        """The attempt under way, or a new one; it ends in a connection or in `Unreachable`."""
        task = self._dialling.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._dial(address), name=f"dial {address}")
            self._dialling[address] = task
            task.add_done_callback(lambda done: self._dialled(address, done))
        return task

    async def get(self, address: Address) -> Requester:
        requester = self.ready(address)
        if requester is None:
            # Shielded: one waiter that gives up must not take the attempt away from the others.
            requester = await asyncio.shield(self.dial(address))
        return requester

    def failing(self, address: Address) -> bool:
        """The last attempt to reach it was in vain."""
        return address in self._not_before_ms

    def least_busy(self) -> Requester | None:
        ready = [connection for connection in map(self.ready, list(self._open)) if connection is not None]
        return min(ready, key=lambda connection: connection.in_flight, default=None)

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for requester in self._open.values():
            requester.close()
        self._open.clear()

    async def _dial(self, address: Address) -> Requester:
        wait_ms = self._not_before_ms.get(address, 0) - self._environment.clock.monotonic_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
        requester = await dial(
            self._environment.network,
            address.host,
            address.port,
            self._options.client_id,
            tidelog.__version__,
            connect_timeout_ms=self._options.connect_timeout_ms,
            request_timeout_ms=self._options.request_timeout_ms,
            tls=self._tls,
            authenticate=self._authenticate,
        )
        requester.answer_times = self._times.created(address, asyncio.get_running_loop().time())
        self._open[address] = requester
        if requester.lifetime_ms:
            # The broker will end it: better to leave before that, between two requests.
            wait_s = LIFETIME_SHARE * requester.lifetime_ms / 1000
            asyncio.get_running_loop().call_later(wait_s, self._retire, address, requester)
        return requester

    async def _authenticate(self, requester: Requester) -> None:
        if self._options.security is not None:
            await authenticate(requester, self._options.security)

    def _retire(self, address: Address, requester: Requester) -> None:
        """Gets no new requests, and ends when those under way are answered."""
        if self._open.get(address) is requester:
            del self._open[address]
        if requester.broken is not None:
            return
        if requester.in_flight and not self._closed:
            asyncio.get_running_loop().call_later(RETIRE_LOOK_S, self._retire, address, requester)
        else:
            requester.close()

    def _dialled(self, address: Address, task: asyncio.Task[Requester]) -> None:
        del self._dialling[address]
        if task.cancelled():
            return
        if task.exception() is None:
            self._backoffs.pop(address, None)
            self._not_before_ms.pop(address, None)
            return
        options = self._options
        backoff = self._backoffs.setdefault(
            address,
            Backoff(options.reconnect_backoff_ms, options.reconnect_backoff_max_ms, self._environment.random),
        )
        self._not_before_ms[address] = self._environment.clock.monotonic_ms() + backoff.failed()
