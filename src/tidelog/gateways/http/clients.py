"""Clients of this broker for the gateways: what they do then follows the same path as what any other client does, to
whichever broker leads.  Opened at first use, closed when idle and when the HTTP port stops.

Where HTTP requests need a login, every user has clients of their own: they log in to the cluster on behalf of the user,
and each broker decides what this user may do.  Elsewhere all requests share two anonymous clients."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from tidelog.errors import ClusterAuthorizationFailed
from tidelog.gateways.http import identity
from tidelog.net.on_behalf import MECHANISM, Behalf

if TYPE_CHECKING:
    from tidelog.aio import Admin, Producer

CLIENT_ID = "tidelog-http"
TIMEOUT_MS = 10_000
USERS_MAX = 64
IDLE_S = 60.0
CLOSE_AFTER_S = 30.0
"""How long clients that made way stay open, for what is under way on them."""


@dataclass(frozen=True, slots=True)
class Loopback:
    """How gateways connect to the cluster where HTTP requests need a login."""

    sign: Callable[[Behalf], str]
    tls: Callable[[], ssl.SSLContext | None]


class _UserClients:
    """Of one user; of everybody without logins."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.admin: Admin | None = None
        self.producer: Producer | None = None
        self.used_s = monotonic()

    async def close(self) -> None:
        admin, self.admin = self.admin, None
        producer, self.producer = self.producer, None
        for client in (producer, admin):
            if client is not None:
                await client.close()


class GatewayClients:
    def __init__(self, bootstrap: str, loopback: Loopback | None = None) -> None:
        """`loopback`: None where HTTP requests need no login."""
        self.bootstrap = bootstrap
        self._loopback = loopback
        self._users: OrderedDict[Behalf | None, _UserClients] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    async def admin(self) -> Admin:
        """Not yours to close."""
        clients = self._of_user()
        if clients.admin is None:
            async with clients.opening:
                if clients.admin is None:
                    clients.admin = await self._open_admin()
        return clients.admin

    async def producer(self) -> Producer:
        """Idempotent, acks=all.  Not yours to close."""
        clients = self._of_user()
        if clients.producer is None:
            async with clients.opening:
                if clients.producer is None:
                    clients.producer = await self._open_producer()
        return clients.producer

    def options(self) -> dict[str, Any]:
        """The options of every client of a gateway: its addresses and its identity."""
        if self._loopback is None:
            return {"bootstrap_servers": self.bootstrap}
        from tidelog.gateways.http.loopback_login import OnBehalf

        behalf, sign = _asking(), self._loopback.sign
        security = OnBehalf(context=self._loopback.tls(), mechanism=MECHANISM, token=lambda: sign(behalf))
        return {"bootstrap_servers": self.bootstrap, "security": security}

    def _of_user(self) -> _UserClients:
        key = None if self._loopback is None else _asking()
        clients = self._users.get(key)
        if clients is None:
            clients = self._users[key] = _UserClients()
            if len(self._users) > USERS_MAX:
                self._retire(*self._users.popitem(last=False))
            if self._loopback is not None and self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().create_task(
                    self._close_idle(), context=identity.as_broker()
                )
        clients.used_s = monotonic()
        self._users.move_to_end(key)
        return clients

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_S / 4)
            before_s = monotonic() - IDLE_S
            for key, clients in list(self._users.items()):
                if clients.used_s < before_s:
                    self._retire(key, self._users.pop(key))

    def _retire(self, _: Behalf | None, clients: _UserClients) -> None:
        async def close_later() -> None:
            try:
                await asyncio.sleep(CLOSE_AFTER_S)
            finally:
                async with clients.opening:
                    await clients.close()

        task = asyncio.get_running_loop().create_task(close_later(), context=identity.as_broker())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _open_admin(self) -> Admin:
        aio = await asyncio.to_thread(_load)
        admin: Admin = aio.Admin(**self.options(), client_id=CLIENT_ID, request_timeout_ms=TIMEOUT_MS)
        await admin.start()
        return admin

    async def _open_producer(self) -> Producer:
        aio = await asyncio.to_thread(_load)
        producer: Producer = aio.Producer(
            **self.options(),
            client_id=CLIENT_ID,
            request_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=2 * TIMEOUT_MS,
            enable_metrics_push=False,  # this broker's metrics are at /metrics
        )
        await producer.start()
        return producer

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        for task in tuple(self._closing):
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        users = list(self._users.values())
        self._users.clear()
        for clients in users:
            await clients.close()


def _asking() -> Behalf:
    behalf = identity.behalf()
    if behalf is None:
        # A path that no guard has passed: nobody's rights are the only safe ones.
        raise ClusterAuthorizationFailed("this request has no login")
    return behalf


def _load():  # type: ignore[no-untyped-def]
    from tidelog import aio

    return aio
