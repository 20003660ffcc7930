"""Serves one SQLite metadata store to the brokers of this machine, over a Unix socket.

The server adds nothing to what the store promises: a request is a call of the store.  A lease belongs to the server and
not to a connection, so a broker that connects again keeps its lease; its id is random, so that a lease of an earlier
process of the server is never taken for a new one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from random import SystemRandom
from typing import Any

from tidelog import errors
from tidelog.metadata.local import messages
from tidelog.metadata.local.sockets import listen, read_message
from tidelog.metadata.sqlite.store import SqliteLease, SqliteStore
from tidelog.metadata.store import Compacted, LeaseEnded, Operation, Put, TooLarge

log = logging.getLogger("tidelog.metadata")

REQUESTS_MAX = 64  # under way on one connection; more wait in its socket
LEASE_ID_BITS = 53  # of JSON's numbers

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class LocalServer:
    def __init__(self, store: SqliteStore, path: str) -> None:
        self._store = store
        self._path = path
        self._random = SystemRandom()
        self._leases: dict[int, SqliteLease] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.handlers: dict[str, Handler] = {
            "get": self._get,
            "range": self._range,
            "txn": self._txn,
            "lease": self._lease,
            "keep alive": self._keep_alive,
            "end lease": self._end_lease,
        }

    async def start(self) -> None:
        """Only the process that has opened the store may call this: it takes the socket away from any other."""
        self._server = await asyncio.start_unix_server(self._accepted, sock=listen(self._path))

    async def unused(self) -> None:
        """Returns when no broker is connected."""
        while self._connections:
            await asyncio.wait(self._connections)

    async def close(self) -> None:
        """Ends the connections; leases and the store are left to the caller."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is closing; asyncio reports a cancelled connection as a failure
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        free = asyncio.Semaphore(REQUESTS_MAX)
        async with asyncio.TaskGroup() as requests:
            while True:
                await free.acquire()
                try:
                    request = await read_message(reader, messages.REQUEST_BYTES_MAX)
                except (asyncio.IncompleteReadError, ConnectionError):
                    return  # the broker has gone
                except messages.BadMessage as problem:
                    log.warning("A connection to the metadata store is closed: %s", problem)
                    return
                if request.get("call") == "watch":
                    await self._watch(request, reader, writer)
                    return
                requests.create_task(self._serve(request, writer, free))

    async def _serve(
        self, request: dict[str, Any], writer: asyncio.StreamWriter, free: asyncio.Semaphore
    ) -> None:
        try:
            answer = await self._answer(request)
            writer.write(messages.encode({"id": request.get("id"), **answer}))
            await writer.drain()
        except ConnectionError:
            pass  # what was asked for has happened, as the seam allows
        finally:
            free.release()

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        handler = self.handlers.get(request.get("call", ""))
        if handler is None:
            text = f"This metadata store has no call {request.get('call')!r}: broker and store differ in version."
            return messages.error_fields(errors.KafkaStorageError(text))
        try:
            return {"result": await handler(request)}
        except (LeaseEnded, TooLarge, errors.KafkaStorageError) as problem:
            return messages.error_fields(problem)
        except (KeyError, TypeError, ValueError, messages.BadMessage) as problem:
            return messages.error_fields(errors.KafkaStorageError(f"A request cannot be read: {problem!r}"))

    # Calls

    async def _get(self, request: dict[str, Any]) -> Any:
        entry = await self._store.get(request["key"])
        return None if entry is None else messages.entry_fields(entry)

    async def _range(self, request: dict[str, Any]) -> Any:
        return messages.snapshot_fields(await self._store.range(request["prefix"]))

    async def _txn(self, request: dict[str, Any]) -> Any:
        compare, then = messages.read_txn(request)
        return await self._store.txn(compare, list(map(self._with_lease, then)))

    def _with_lease(self, operation: Operation) -> Operation:
        if not isinstance(operation, Put) or not operation.lease:
            return operation
        lease = self._leases.get(operation.lease)
        if lease is None:
            raise LeaseEnded(f"lease {operation.lease} of {operation.key!r} has ended")
        return operation._replace(lease=lease.id)

    async def _lease(self, request: dict[str, Any]) -> Any:
        self._leases = {lease_id: lease for lease_id, lease in self._leases.items() if not lease.ended}
        lease = await self._store.lease(request["ttl_ms"])
        lease_id = self._random.getrandbits(LEASE_ID_BITS) | 1
        self._leases[lease_id] = lease
        return {"id": lease_id, "ttl_ms": lease.ttl_ms}

    async def _keep_alive(self, request: dict[str, Any]) -> Any:
        lease = self._leases.get(request["lease"])
        if lease is None:
            return False
        lasts = await lease.keep_alive()
        if not lasts:
            self._leases.pop(request["lease"], None)
        return lasts

    async def _end_lease(self, request: dict[str, Any]) -> Any:
        lease = self._leases.get(request["lease"])
        if lease is not None:
            await lease.end()
            self._leases.pop(request["lease"], None)
        return None

    async def _watch(
        self, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Tells the newest revision first, by which the broker notices a store that was restored from a backup."""
        revision = (await self._store.range("~")).revision
        writer.write(messages.encode({"revision": revision, "changes": []}))
        telling = asyncio.ensure_future(self._tell(request["prefix"], request["from"], writer))
        # The broker says nothing more: the read ends when it closes its end, and so does a watch without changes.
        closed = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([telling, closed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            closed.cancel()
            await asyncio.gather(telling, closed, return_exceptions=True)

    async def _tell(self, prefix: str, following: int, writer: asyncio.StreamWriter) -> None:
        watch = self._store.watch(prefix, following)
        async with aclosing(watch):
            try:
                async for changes in watch:
                    writer.write(messages.encode(messages.changes_fields(changes)))
                    await writer.drain()
            except Compacted as problem:
                writer.write(messages.encode(messages.error_fields(problem)))
                await writer.drain()
