"""Clients of this broker for the gateways: what they do then follows the same path as what any other client does, to
whichever broker leads.  Opened at first use, closed when the HTTP port stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.aio import Admin, Producer

CLIENT_ID = "tidelog-http"
TIMEOUT_MS = 10_000


class Clients:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._opening = asyncio.Lock()
        self._admin: Admin | None = None
        self._producer: Producer | None = None

    async def admin(self) -> Admin:
        """Not yours to close."""
        if self._admin is None:
            async with self._opening:
                if self._admin is None:
                    self._admin = await self._open_admin()
        return self._admin

    async def producer(self) -> Producer:
        """Idempotent, acks=all.  Not yours to close."""
        if self._producer is None:
            async with self._opening:
                if self._producer is None:
                    self._producer = await self._open_producer()
        return self._producer

    async def _open_admin(self) -> Admin:
        aio = await asyncio.to_thread(_load)
        admin: Admin = aio.Admin(
            bootstrap_servers=self.bootstrap, client_id=CLIENT_ID, request_timeout_ms=TIMEOUT_MS
        )
        await admin.start()
        return admin

    async def _open_producer(self) -> Producer:
        aio = await asyncio.to_thread(_load)
        producer: Producer = aio.Producer(
            bootstrap_servers=self.bootstrap,
            client_id=CLIENT_ID,
            request_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=2 * TIMEOUT_MS,
        )
        await producer.start()
        return producer

    async def close(self) -> None:
        admin, self._admin = self._admin, None
        producer, self._producer = self._producer, None
        for client in (producer, admin):
            if client is not None:
                await client.close()


def _load():  # type: ignore[no-untyped-def]
    from tidelog import aio

    return aio
