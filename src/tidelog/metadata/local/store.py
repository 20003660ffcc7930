"""The metadata store of the brokers of one machine: a client of `local.server`.

The client repeats a call whose connection breaks, except a transaction: it may have happened, so it is Unanswered.  A watch
has its own connection, reads nothing ahead, and resumes after the last revision that it yielded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from tidelog import errors
from tidelog.metadata.local import messages
from tidelog.metadata.local.sockets import connect, read_message
from tidelog.metadata.store import (
    Changes,
    Compare,
    Operation,
    RolledBack,
    Snapshot,
    StoredEntry,
    Unanswered,
    check_size,
)

OPERATIONS_MAX = 10_000
BYTES_MAX = 4 << 20
PATIENCE_MS = 10_000
CHECK_MS = 10_000
AGAIN_MS = 50
END_MS = 1_500  # a lease ends by itself: it is not worth a long wait


class ConnectionLost(Exception):
    """The server has gone, or was restarted, before it answered."""


class LocalStore:
    operations_max = OPERATIONS_MAX
    bytes_max = BYTES_MAX

    def __init__(self, path: str) -> None:
        self.path = path
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link: Link | None = None
        self._leases: dict[int, LocalLease] = {}
        self._under_way: set[asyncio.Task[int | None]] = set()
        self._watches: set[asyncio.StreamWriter] = set()

    async def check(self) -> None:
        """Raises an error if no store can be reached."""
        try:
            await self.call("get", {"key": "cluster"}, patience_ms=CHECK_MS)
        except Unanswered as problem:
            raise errors.KafkaStorageError(
                f"{problem}: start the store with `tidelog metadata serve`, or correct tidelog.metadata"
            ) from None

    async def get(self, key: str) -> StoredEntry | None:
        fields = await self.call("get", {"key": key})
        return None if fields is None else messages.read_entry(fields)

    async def range(self, prefix: str) -> Snapshot:
        return messages.read_snapshot(await self.call("range", {"prefix": prefix}))

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        assert len(compare) <= OPERATIONS_MAX and len(then) <= OPERATIONS_MAX
        check_size(compare, then, BYTES_MAX)
        task = asyncio.ensure_future(self.call("txn", messages.txn_fields(compare, then), again=False))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        # Shielded, so that a transaction continues when its caller is cancelled.
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[int | None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn when the caller is gone

    async def lease(self, ttl_ms: int) -> LocalLease:
        fields = await self.call("lease", {"ttl_ms": ttl_ms})
        lease = LocalLease(self, fields["id"], fields["ttl_ms"])
        self._leases[lease.id] = lease
        return lease

    def lease_ended(self, lease: LocalLease) -> None:
        self._leases.pop(lease.id, None)

    async def close(self) -> None:
        """Ends the leases and the watches; a lease that cannot be ended ends by itself."""
        if self.closing.done():
            return
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=END_MS / 1000)
        for lease in list(self._leases.values()):
            try:
                await lease.end()
            except Unanswered:
                break  # the server has gone: the others would only wait as long again
        await self.abandon()

    async def abandon(self) -> None:
        """Closes the connections for good, and leaves the leases to themselves."""
        if not self.closing.done():
            self.closing.set_result(None)
        await self.disconnect()

    async def disconnect(self) -> None:
        """Closes the connections; calls and watches connect again."""
        for watch in self._watches:
            watch.close()
        if self._link is not None:
            await self._link.close()

    # Calls

    async def call(
        self, name: str, fields: dict[str, Any], again: bool = True, patience_ms: int = PATIENCE_MS
    ) -> Any:
        """The result.  `again`: the call may happen twice.  Unanswered after `patience_ms`."""
        try:
            async with asyncio.timeout(patience_ms / 1000):
                while True:
                    link = await self._connected()
                    try:
                        return await link.call(name, fields)
                    except ConnectionLost:
                        if not again:
                            raise Unanswered(
                                f"The metadata store at {self.path} ended before it answered."
                            ) from None
        except TimeoutError:
            raise Unanswered(
                f"The metadata store at {self.path} has not answered for {patience_ms / 1000:g} s"
            ) from None

    async def _connected(self) -> Link:
        while self._link is None or self._link.lost:
            if self.closing.done():
                raise errors.KafkaStorageError("The metadata store is closed.")
            try:
                reader, writer = await asyncio.open_unix_connection(sock=connect(self.path))
            except OSError:
                await asyncio.sleep(AGAIN_MS / 1000)
                continue
            if self._link is not None and not self._link.lost:
                writer.close()  # another call has connected meanwhile
            else:
                self._link = Link(reader, writer)
        return self._link

    # Watches

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        following = from_revision
        while not self.closing.done():
            try:
                reader, writer = await asyncio.open_unix_connection(sock=connect(self.path))
            except OSError:
                await asyncio.wait([self.closing], timeout=AGAIN_MS / 1000)
                continue
            self._watches.add(writer)
            try:
                writer.write(messages.encode({"call": "watch", "prefix": prefix, "from": following}))
                while not self.closing.done():
                    answer = await read_message(reader, messages.ANSWER_BYTES_MAX)
                    if "error" in answer:
                        raise messages.read_error(answer)
                    changes = messages.read_changes(answer)
                    if changes.changes:
                        following = changes.revision + 1
                        yield changes
                    elif changes.revision < following - 1:
                        raise _restored(changes.revision, following - 1)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # the server has gone: go on at the next one
            finally:
                self._watches.discard(writer)
                writer.close()


def _restored(revision: int, newest_seen: int) -> RolledBack:
    return RolledBack(
        f"The metadata store is at revision {revision} and was at {newest_seen}: it was restored from a backup.  Restart "
        "this broker: it will compare its logs with the metadata."
    )


class Link:
    """One connection, shared by all calls that are under way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.lost = False
        self._reading = asyncio.ensure_future(self._read())

    async def call(self, name: str, fields: dict[str, Any]) -> Any:
        """The result; ConnectionLost when there will be no answer."""
        if self.lost:
            raise ConnectionLost
        self._last_id += 1
        request_id = self._last_id
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(messages.encode({"id": request_id, "call": name, **fields}))
            return await answer
        finally:
            self._answers.pop(request_id, None)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while True:
                message = await read_message(self._reader, messages.ANSWER_BYTES_MAX)
                answer = self._answers.pop(message["id"], None)
                if answer is None or answer.done():
                    continue  # its caller has given up
                if "error" in message:
                    answer.set_exception(messages.read_error(message))
                else:
                    answer.set_result(message["result"])
        except (asyncio.IncompleteReadError, OSError, messages.BadMessage, KeyError):
            pass
        finally:
            self.lost = True
            self._writer.close()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionLost())


class LocalLease:
    def __init__(self, store: LocalStore, lease_id: int, ttl_ms: int) -> None:
        self.id = lease_id
        self.ttl_ms = ttl_ms
        self._store = store
        self._ended = False

    async def keep_alive(self) -> bool:
        if self._ended:
            return False
        # If no answer comes within the lease's time, the lease has ended, whatever a later answer says.
        patience_ms = min(self.ttl_ms, PATIENCE_MS)
        if not await self._store.call("keep alive", {"lease": self.id}, patience_ms=patience_ms):
            self._over()
        return not self._ended

    async def end(self) -> None:
        if not self._ended:
            await self._store.call("end lease", {"lease": self.id}, patience_ms=END_MS)
            self._over()

    def _over(self) -> None:
        self._ended = True
        self._store.lease_ended(self)
