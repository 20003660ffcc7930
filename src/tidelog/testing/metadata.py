"""A metadata store for simulated clusters: one etcd in memory, and a connection to it for every broker.

Time is the loop's, and random numbers come from the seed.  Requests and answers take time; a broker can be cut off, or the
whole store be unreachable; a transaction may happen and its answer be lost, or happen long after its sender gave up.  The
store is a machine of its own: requests of a killed process still happen, and its leases end when their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from random import Random
from typing import Any, TypeVar

from tidelog import errors
from tidelog.metadata.store import (
    ABSENT,
    Changes,
    Compacted,
    Compare,
    Delete,
    KeyChange,
    LeaseEnded,
    Operation,
    Put,
    RolledBack,
    Snapshot,
    StoredEntry,
    Unanswered,
    check_size,
)
from tidelog.metadata.watch_history import WatchHistory
from tidelog.testing.loop import VirtualLoop
from tidelog.testing.metadata_requests import StoreRequest
from tidelog.testing.metadata_requests import Weather as Weather
from tidelog.testing.process import virtual_loop

T = TypeVar("T")

OPERATIONS_MAX = 127
BYTES_MAX = 1_500_000
CHANGES_KEPT_MAX = 1_000_000
START_REVISION = 1  # as a fresh etcd has
TRY_MS = 1_000
RESTORED_TTL_MS = 2_000


class VirtualMetadata:
    """The store itself.  `connect` gives each process its own connection."""

    def __init__(self, random: Random, weather: Weather | None = None) -> None:
        self.weather = weather or Weather()
        self._random = random
        self._loop: VirtualLoop = virtual_loop()
        self._entries: dict[str, tuple[bytes, int, int]] = {}  # value, revision, lease
        self._history = WatchHistory(START_REVISION, CHANGES_KEPT_MAX)
        self._leases: dict[int, _Term] = {}
        self._last_lease = 0
        self._compacted = 0
        self._away = False
        self._cut: set[str] = set()
        self._watches_stalled: set[str] = set()
        self.author = ""
        """The process whose request is being executed; empty when a lease ends."""
        self.observers: list[Callable[[Changes], None]] = []
        """Called at the instant of every change, whichever process made it, for scenarios that check every change."""
        self._renewed_ms: dict[
            str, tuple[int, int]
        ] = {}  # by process: when its lease was last renewed, and for how long
        self._waiting: list[asyncio.Future[None]] = []

    def connect(self, name: str) -> VirtualStore:
        """The store as the process `name` sees it; `cut_off` and `reconnect` use this name."""
        return VirtualStore(self, name)

    # Faults, for scenarios

    def go_away(self) -> None:
        """Makes the store unreachable, as without a majority: no answers, and no lease ends, until `come_back`."""
        self._away = True

    def come_back(self) -> None:
        """Makes the store reachable; all leases start again in full, as with a new leader of etcd."""
        self._away = False
        for term in self._leases.values():
            term.renew()
        self._wake()

    def cut_off(self, name: str) -> None:
        """Cuts the connection between the store and this process."""
        self._cut.add(name)

    def reconnect(self, name: str) -> None:
        self._cut.discard(name)
        self._wake()

    def stall_watch(self, name: str) -> None:
        """Stalls the watch of this process until `resume_watch`; its requests are still answered."""
        self._watches_stalled.add(name)

    def resume_watch(self, name: str) -> None:
        self._watches_stalled.discard(name)
        self._wake()

    def lease_ended_ms(self, name: str) -> int | None:
        """When the latest lease of this process ended, or will end without another renewal; None if it never had a lease."""
        renewed = self._renewed_ms.get(name)
        return None if renewed is None else sum(renewed)

    def work_of(self, name: str, work: Callable[[], T]) -> T:
        before, self.author = self.author, name
        try:
            return work()
        finally:
            self.author = before

    def compact(self, revision: int | None = None) -> None:
        """Drops the changes before that revision; None: all changes."""
        newest = self._history.revision + 1
        self._compacted = max(self._compacted, newest if revision is None else min(revision, newest))

    @property
    def revision(self) -> int:
        return self._history.revision

    def content(self) -> dict[str, bytes]:
        """The stored keys and values, for scenarios."""
        return {key: entry[0] for key, entry in sorted(self._entries.items())}

    def reaches(self, name: str) -> bool:
        return not self._away and name not in self._cut

    # Operations of the store, each at one instant

    def find(self, key: str) -> StoredEntry | None:
        stored = self._entries.get(key)
        return None if stored is None else StoredEntry(key, stored[0], stored[1])

    def select(self, prefix: str) -> Snapshot:
        entries = [
            StoredEntry(key, stored[0], stored[1])
            for key, stored in self._entries.items()
            if key.startswith(prefix)
        ]
        return Snapshot(self.revision, sorted(entries))

    def commit(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        for key, revision in compare:
            stored = self._entries.get(key)
            if (ABSENT if stored is None else stored[1]) != revision:
                return None
        for operation in then:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self._leases:
                raise LeaseEnded(f"Lease {operation.lease} of {operation.key!r} has ended.")
        return self._apply(then)

    def _apply(self, then: Sequence[Operation]) -> int:
        revision = self.revision + 1
        changes: list[KeyChange] = []
        for operation in then:
            if isinstance(operation, Put):
                self._entries[operation.key] = (operation.value, revision, operation.lease)
                changes.append(KeyChange(operation.key, operation.value))
                continue
            if isinstance(operation, Delete):
                gone = [operation.key] if operation.key in self._entries else []
            else:
                gone = sorted(key for key in self._entries if key.startswith(operation.prefix))
            for key in gone:
                del self._entries[key]
                changes.append(KeyChange(key, None))
        if not changes:
            return self.revision
        happened = Changes(revision, tuple(changes))
        self._history.happened(happened)
        for observer in self.observers:
            observer(happened)
        return revision

    def grant(self, ttl_ms: int) -> int:
        self._last_lease += 1
        self._leases[self._last_lease] = _Term(self, self._last_lease, ttl_ms, self._loop)
        self._renewed_ms[self.author] = self._loop.elapsed_ms(), ttl_ms
        return self._last_lease

    def renew(self, lease: int) -> bool:
        term = self._leases.get(lease)
        if term is not None:
            term.renew()
            self._renewed_ms[self.author] = self._loop.elapsed_ms(), term.ttl_ms
        return term is not None

    def revoke(self, lease: int) -> None:
        """Ends a lease and deletes the keys bound to it, in one revision."""
        term = self._leases.pop(lease, None)
        if term is not None:
            term.over()
            self._apply([Delete(key) for key, entry in sorted(self._entries.items()) if entry[2] == lease])

    def now(self) -> float:
        return self._loop.time()

    @property
    def is_away(self) -> bool:
        return self._away

    # Connections

    async def ask(self, name: str, work: Callable[[], T]) -> T:
        """For reads and leases, which can be requested again without harm."""
        ends = self._loop.time() + self.weather.patience_ms / 1000
        while True:
            left_ms = round((ends - self._loop.time()) * 1000)
            try:
                return await self.ask_once(name, work, min(TRY_MS, left_ms))
            except Unanswered:
                if left_ms <= TRY_MS:
                    raise

    async def ask_once(self, name: str, work: Callable[[], T], patience_ms: int) -> T:
        """Executes `work` at the store some time from now; Unanswered if no answer arrives in time."""
        answer: asyncio.Future[T] = self._loop.create_future()
        history = self._history

        def here() -> T:
            if history is not self._history:
                raise Unanswered("the store is gone: a backup was restored in its place")
            return work()

        StoreRequest(self, name, here, answer, self._loop.time() + patience_ms / 1000, self._random)
        done, _ = await asyncio.wait([answer], timeout=patience_ms / 1000)
        if not done:
            raise Unanswered(f"The metadata store did not answer {name} within {patience_ms} ms.")
        return answer.result()

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Calls `work` in the store's own context, so it runs even if the calling process is dead by then."""
        self._loop.call_later(delay_ms / 1000, work, context=self._loop.outside)

    async def follow(self, name: str, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        history = self._history
        async for changes in history.watch("", from_revision):
            if changes.revision == self.revision:
                await asyncio.sleep(self._random.randint(0, self.weather.delay_ms_max) / 1000)
            await self._reachable(name)
            if changes.revision < self._compacted:
                raise Compacted(
                    f"The store has no changes before revision {self._compacted}, and the watch asks for {changes.revision}."
                )
            if history is not self._history:
                break
            wanted = tuple(change for change in changes.changes if change.key.startswith(prefix))
            if wanted:
                yield Changes(changes.revision, wanted)
        raise RolledBack(f"The store is at revision {self.revision}, and was at {history.revision} before.")

    async def _reachable(self, name: str) -> None:
        """Returns when a change can reach the watch of this process."""
        while not self.reaches(name) or name in self._watches_stalled:
            returned: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(returned)
            await returned

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for returned in waiting:
            if not returned.done():
                returned.set_result(None)


class Backup:
    """A backup of the store at one moment."""

    def __init__(self, metadata: VirtualMetadata) -> None:
        self._metadata = metadata
        self._entries = dict(metadata._entries)
        self._revision = metadata.revision

    def restore(self) -> None:
        """All is as it was then, revisions too; leases of then begin anew, later ones are unknown.  Watches of before end
        with RolledBack, as they do on etcd, which is another cluster after a restore; requests that are under way to the
        old one do not reach it."""
        metadata = self._metadata
        for term in metadata._leases.values():
            term.over()
        metadata._entries = dict(self._entries)
        leases = {lease for _, _, lease in self._entries.values() if lease}
        metadata._leases = {
            lease: _Term(metadata, lease, RESTORED_TTL_MS, metadata._loop) for lease in leases
        }
        metadata._compacted = 0
        before, metadata._history = metadata._history, WatchHistory(self._revision, CHANGES_KEPT_MAX)
        before.close()
        metadata._wake()


class _Term:
    """The remaining time of a lease.  While the store is unreachable, the time does not count."""

    def __init__(self, store: VirtualMetadata, lease: int, ttl_ms: int, loop: VirtualLoop) -> None:
        self._store = store
        self._lease = lease
        self.ttl_ms = ttl_ms
        self._loop = loop
        self._timer = self._start()

    def _start(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self.ttl_ms / 1000, self._end, context=self._loop.outside)

    def renew(self) -> None:
        self._timer.cancel()
        self._timer = self._start()

    def over(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        if not self._store.is_away:
            self._store.revoke(self._lease)


class VirtualStore:
    """A MetadataStore, as one process sees it."""

    operations_max = OPERATIONS_MAX
    bytes_max = BYTES_MAX

    def __init__(self, metadata: VirtualMetadata, name: str) -> None:
        self._metadata = metadata
        self._name = name
        self._leases: dict[int, VirtualLease] = {}
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def get(self, key: str) -> StoredEntry | None:
        return await self.ask(lambda: self._metadata.find(key))

    async def range(self, prefix: str) -> Snapshot:
        return await self.ask(lambda: self._metadata.select(prefix))

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        assert len(compare) <= OPERATIONS_MAX and len(then) <= OPERATIONS_MAX
        check_size(compare, then, BYTES_MAX)
        compare, then = tuple(compare), tuple(then)
        self._check_open()
        patience_ms = self._metadata.weather.patience_ms
        return await self._metadata.ask_once(
            self._name, lambda: self._metadata.commit(compare, then), patience_ms
        )

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        stream = self._metadata.follow(self._name, prefix, from_revision)
        following: asyncio.Future[Changes] | None = None
        try:
            while not self._closed.done():
                following = asyncio.ensure_future(anext(stream))
                either: list[asyncio.Future[Any]] = [following, self._closed]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not self._closed.done():
                    yield following.result()
        finally:
            if following is not None and not following.done():
                following.cancel()
                await asyncio.wait([following])
            await stream.aclose()

    async def lease(self, ttl_ms: int) -> VirtualLease:
        lease = VirtualLease(self, await self.ask(lambda: self._metadata.grant(ttl_ms)), ttl_ms)
        self._leases[lease.id] = lease
        return lease

    async def close(self) -> None:
        if self._closed.done():
            return
        for lease in list(self._leases.values()):
            try:
                await lease.end()
            except Unanswered:
                pass  # the lease ends by itself
        self._closed.set_result(None)

    async def ask(self, work: Callable[[], T]) -> T:
        self._check_open()
        return await self._metadata.ask(self._name, work)

    def _check_open(self) -> None:
        if self._closed.done():
            raise errors.KafkaStorageError("The metadata store is closed.")

    async def renew(self, lease: int) -> bool:
        return await self.ask(lambda: self._metadata.renew(lease))

    async def revoke(self, lease: int) -> None:
        await self.ask(lambda: self._metadata.revoke(lease))
        self._leases.pop(lease, None)


class VirtualLease:
    def __init__(self, store: VirtualStore, lease_id: int, ttl_ms: int) -> None:
        self.id = lease_id
        self.ttl_ms = ttl_ms
        self._store = store

    async def keep_alive(self) -> bool:
        return await self._store.renew(self.id)

    async def end(self) -> None:
        await self._store.revoke(self.id)
