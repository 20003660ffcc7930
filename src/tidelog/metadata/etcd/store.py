"""The metadata store of a cluster: etcd, version 3.4 or newer.

All keys are below a root that belongs to one cluster, so several clusters can share one etcd.  Keys that begin with "~"
there belong to the store itself (the slots of `etcd.writer`); users of the store do not see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from tidelog import errors
from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import PATIENCE_MS, EtcdClient, EtcdRefused
from tidelog.metadata.etcd.watch import watch
from tidelog.metadata.etcd.writer import EtcdWriter
from tidelog.metadata.store import (
    Changes,
    Compare,
    Delete,
    KeyChange,
    LeaseEnded,
    Operation,
    Put,
    Snapshot,
    StoredEntry,
    TooLarge,
    Unanswered,
    check_size,
)

# By default etcd accepts 128 comparisons and operations in a transaction and 1.5 MiB in a request; the store needs some.
OPERATIONS_MAX = 127
BYTES_MAX = (1536 - 64) << 10
VERSION_MIN = (3, 4)
PAGE = 2_000
END_MS = 1_500  # a lease ends by itself: it is not worth a long wait

OWN = b"~"


class EtcdStore:
    operations_max = OPERATIONS_MAX
    bytes_max = BYTES_MAX

    def __init__(self, client: EtcdClient, root: str, writer: str) -> None:
        """`root` ends with a slash; `writer`: a name that no other running process has."""
        self._client = client
        self._root = root.encode()
        self._writer = EtcdWriter(client, b"%s%swriters/%s/" % (self._root, OWN, writer.encode()))
        self._leases: dict[int, EtcdLease] = {}
        self._under_way: dict[asyncio.Task[int | None], None] = {}

    async def check_version(self) -> None:
        """Raises an error if etcd cannot be reached or is too old."""
        try:
            status = messages.read_status((await self._client.call(messages.STATUS, b"")).data)
        except EtcdRefused as problem:
            if "permission denied" not in problem.reason:
                raise
            return  # etcd tells its version only to administrators
        major, minor, *_ = (*status.version.split("."), "0", "0")
        if (int(major), int(minor)) < VERSION_MIN:
            raise errors.UnsupportedVersion(
                f"etcd at {self._client.endpoints} is version {status.version}: "
                f"{'.'.join(map(str, VERSION_MIN))} or newer is needed."
            )

    async def get(self, key: str) -> StoredEntry | None:
        answer = await self._client.call(messages.RANGE, messages.range_request(self._key(key)))
        entries = messages.read_range(answer.data).entries
        return self._entry(entries[0]) if entries else None

    async def range(self, prefix: str) -> Snapshot:
        while True:
            try:
                return await self._range(prefix)
            except EtcdRefused as problem:
                # etcd has compacted the revision of the first page meanwhile: read all pages again.
                if "has been compacted" not in problem.reason:
                    raise

    async def _range(self, prefix: str) -> Snapshot:
        start, end = self._span(prefix)
        entries: list[StoredEntry] = []
        revision = 0
        while True:
            request = messages.range_request(start, end, PAGE, revision)
            page = messages.read_range((await self._client.call(messages.RANGE, request)).data)
            revision = revision or page.revision
            entries += map(self._entry, page.entries)
            if not page.more:
                return Snapshot(revision, entries)
            start = page.entries[-1].key + b"\0"

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        assert len(compare) <= OPERATIONS_MAX and len(then) <= OPERATIONS_MAX
        check_size(compare, then, BYTES_MAX)
        task = asyncio.ensure_future(self._txn(compare, then))
        self._under_way[task] = None
        task.add_done_callback(self._done)
        # Shielded, so that the writer learns the outcome even if the caller is cancelled.
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[int | None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn when the caller is gone

    async def _txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        compares = [messages.compare_revision(self._key(key), revision) for key, revision in compare]
        operations = list(map(self._operation, then))
        try:
            if not compare and not any(isinstance(operation, Put) for operation in then):
                # A delete may happen twice, and a delete of nothing must not make a revision.
                request = messages.txn_request((), operations, ())
                return messages.read_txn((await self._client.call(messages.TXN, request)).data).revision
            return await self._writer.write(compares, operations)
        except EtcdRefused as problem:
            if "lease not found" in problem.reason:
                raise LeaseEnded(f"A lease of {_keys(then)} has ended.") from None
            if "too large" in problem.reason:
                raise TooLarge(f"{problem}: the change is larger than --max-request-bytes of etcd.") from None
            raise

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        start, end = self._span(prefix)
        skip = len(self._root)
        async with aclosing(watch(self._client, start, end, from_revision)) as revisions:
            async for events in revisions:
                changes = tuple(KeyChange(event.key[skip:].decode(), event.value) for event in events)
                yield Changes(events[0].revision, changes)

    async def lease(self, ttl_ms: int) -> EtcdLease:
        request = messages.lease_grant_request(-(-ttl_ms // 1000))
        answer = messages.read_lease((await self._client.call(messages.LEASE_GRANT, request)).data)
        lease = EtcdLease(self._client, answer.id, answer.ttl_s * 1000)
        self._leases[lease.id] = lease
        lease.ended.add_done_callback(lambda _: self._leases.pop(lease.id, None))
        return lease

    async def close(self) -> None:
        """Ends the leases and the watches; a lease that cannot be revoked ends by itself."""
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=END_MS / 1000)
        ends = [lease.end() for lease in list(self._leases.values())]
        for outcome in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Unanswered | EtcdRefused):
                raise outcome
        await self._client.close()

    # Keys

    def _key(self, key: str) -> bytes:
        return self._root + key.encode()

    def _span(self, prefix: str) -> tuple[bytes, bytes]:
        """The first key below the prefix, and the first key after all keys below the prefix."""
        start = self._key(prefix)
        if not prefix:
            return start, start + OWN
        return start, _behind(start)

    def _entry(self, stored: messages.KeyValue) -> StoredEntry:
        return StoredEntry(stored.key[len(self._root) :].decode(), stored.value, stored.revision)

    def _operation(self, operation: Operation) -> bytes:
        if isinstance(operation, Put):
            return messages.put_operation(self._key(operation.key), operation.value, operation.lease)
        if isinstance(operation, Delete):
            return messages.delete_operation(self._key(operation.key))
        return messages.delete_operation(*self._span(operation.prefix))


class EtcdLease:
    def __init__(self, client: EtcdClient, lease_id: int, ttl_ms: int) -> None:
        self.id = lease_id
        self.ttl_ms = ttl_ms
        self._client = client
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the client knows that the lease has ended."""

    async def keep_alive(self) -> bool:
        if self.ended.done():
            return False
        request = messages.lease_request(self.id)
        # If no answer comes within the lease's time, the lease has ended, whatever a later answer says.
        answer = await self._client.call(
            messages.LEASE_KEEP_ALIVE, request, min(self.ttl_ms, PATIENCE_MS), streamed=True
        )
        if messages.read_lease(answer.data).ttl_s <= 0:
            self._over()
        return not self.ended.done()

    async def end(self) -> None:
        if self.ended.done():
            return
        try:
            await self._client.call(messages.LEASE_REVOKE, messages.lease_request(self.id), END_MS)
        except EtcdRefused as problem:
            if "lease not found" not in problem.reason:
                raise
        self._over()

    def _over(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _behind(prefix: bytes) -> bytes:
    """The first key that is larger than all keys that begin with `prefix`."""
    # Prefixes are UTF-8, where no byte is 0xff.
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def _keys(then: Sequence[Operation]) -> str:
    return ", ".join(
        repr(operation.key) for operation in then if isinstance(operation, Put) and operation.lease
    )
