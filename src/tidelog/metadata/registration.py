"""A broker's registration: a key that exists as long as the broker keeps its lease alive.

A process that was killed and is started again replaces its old registration at once: the new process has the lock on the
same data, on a machine that stayed up, so the old process cannot run any more.  A process with other data waits until the
lease ends, and is refused if the lease does not end."""

from __future__ import annotations

import asyncio
import logging

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.image import Image
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.store import (
    ABSENT,
    Compare,
    Lease,
    LeaseEnded,
    MetadataStore,
    Put,
    StoredEntry,
    Unanswered,
)
from tidelog.types import NodeId

log = logging.getLogger("tidelog.metadata")

TAKEN_MS = 3_000  # a registration that outlives its lease by this much belongs to another running process
RETRY_S = 0.1
CLOCK_DRIFT = 10  # the broker trusts its lease for a tenth less than the lease lasts
HEARTBEATS = 4  # renewals of a lease in the time that it lasts


def same_home(entry: StoredEntry, home: str) -> bool:
    """True if a broker's key was written by a process with the same data, since the machine's last boot."""
    return home != "" and BrokerRecord.decode(entry.value).home == home


def _taken(node: NodeId) -> errors.TidelogError:
    return errors.DuplicateBrokerRegistration(
        f"Broker {node} is already registered by another process: give this broker another node.id."
    )


async def await_place(store: MetadataStore, node: NodeId, home: str, clock: Clock, lease_ms: int) -> None:
    """Returns once no other process is registered as `node`, before this process changes anything as `node`.  A process
    that runs elsewhere, or ran on other data, keeps the registration for as long as its lease."""
    deadline = clock.monotonic_ms() + lease_ms + TAKEN_MS
    while True:
        entry = await store.get(broker_key(node))
        if entry is None or same_home(entry, home):
            return
        if clock.monotonic_ms() >= deadline:
            raise _taken(node)
        await asyncio.sleep(RETRY_S)


class Registration:
    def __init__(
        self, store: MetadataStore, node: NodeId, record: BrokerRecord, clock: Clock, lease_ms: int = 2_000
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._record = record
        self._lease_ms = lease_ms
        self._lease: Lease | None = None
        self._unsure = False  # the store did not answer: it is unknown which keys are bound to the lease
        self._hurry = asyncio.Event()
        self._proven_until_ms = 0
        self._was_proven = True
        self._learned_revision = -1
        self.epoch = -1
        self.control_revision: int | None = None
        """The revision at which this broker became the controller; None if it is not the controller, as far as it knows."""

    async def register(self) -> int:
        """Registers the broker and returns its epoch, which is larger than any before: the revision of the registration."""
        deadline = self._clock.monotonic_ms() + self._lease_ms + TAKEN_MS
        while True:
            try:
                return await self._register()
            except LeaseEnded:
                self._lease = None  # the store does not know it any more: the process stood still, or a backup was restored
                if self._clock.monotonic_ms() >= deadline:
                    raise errors.RequestTimedOut(
                        "the leases of this broker end before it is registered"
                    ) from None
            except errors.DuplicateBrokerRegistration:
                # Where the store is slow, the place may have become free between two requests of one try.
                if self._clock.monotonic_ms() >= deadline and await self._is_taken():
                    raise
                await asyncio.sleep(RETRY_S)

    def is_proven(self) -> bool:
        """True if the lease certainly lasts, by this broker's own clock.  Otherwise another broker may lead the partitions
        that this broker leads, and only records that the ISR confirms may be acknowledged.  A new lease proves nothing
        until the broker has the metadata of that moment: other leaders may have been elected before."""
        if self._unsure or self._learned_revision < self.epoch:
            return False
        return self._clock.monotonic_ms() < self._proven_until_ms

    def _proven(self, asked_ms: int, lease: Lease) -> None:
        """The store counts a lease from a moment after the request, by a clock that may run a little faster."""
        self._proven_until_ms = asked_ms + lease.ttl_ms - lease.ttl_ms // CLOCK_DRIFT

    async def _register(self) -> int:
        self.control_revision = None
        if self._lease is not None:
            await self._lease.end()
        asked_ms = self._clock.monotonic_ms()
        self._lease = await self._store.lease(self._lease_ms)
        try:
            epoch = await self._enter(self._lease)
            self._proven(asked_ms, self._lease)
            return epoch
        except Unanswered:
            self._unsure = True
            raise

    async def _enter(self, lease: Lease) -> int:
        place = Compare(broker_key(self._node), await self._own_place())
        me = Put(place.key, self._record.encode(), lease.id)
        control = Put(CONTROLLER, b"%d" % self._node, lease.id)
        free, epoch = await self._free_control(), None
        if free is not None:
            epoch = await self._store.txn([place, Compare(CONTROLLER, free)], [me, control])
        if epoch is not None:
            self.control_revision = epoch
        else:
            # Another broker is the controller.
            epoch = await self._store.txn([place], [me])
        if epoch is None:
            await lease.end()
            raise _taken(self._node)
        self.epoch = epoch
        self._unsure = False
        return epoch

    async def _own_place(self) -> int:
        """The revision of the registration that an earlier process of this broker left; ABSENT if there is none."""
        entry = await self._store.get(broker_key(self._node))
        return entry.revision if entry is not None and same_home(entry, self._record.home) else ABSENT

    async def _is_taken(self) -> bool:
        """True if a process with other data, or on another boot of the machine, holds the registration."""
        entry = await self._store.get(broker_key(self._node))
        return entry is not None and not same_home(entry, self._record.home)

    async def _free_control(self) -> int | None:
        """Like `_own_place`, for the controller's key; None if another broker holds the key."""
        entry = await self._store.get(CONTROLLER)
        if entry is None:
            return ABSENT
        return entry.revision if entry.value == b"%d" % self._node else None

    def learned(self, image: Image) -> None:
        """Called with every change of the registered brokers.  If other brokers removed this broker's registration, as they
        do when nothing listens at its address, the broker registers again.  If another process holds the registration,
        this process cannot get it back."""
        self._learned_revision = image.revision
        if self._record.leaving or image.revision < self.epoch or self.epoch < 0:
            return
        registered = image.brokers.get(self._node)
        if registered is None:
            self._unsure = True
            self._hurry.set()
        elif registered.incarnation != self._record.incarnation:
            raise errors.DuplicateBrokerRegistration(
                f"Another process runs as broker {self._node}, with a copy of this broker's data: stop one of them."
            )

    async def take_control(self) -> None:
        """Becomes the controller, if there is none.  An answer for a lease that was replaced meanwhile is ignored: the
        registration with the new lease has taken the key, or has seen which broker holds it."""
        lease = self._lease
        if lease is None:
            return
        put = Put(CONTROLLER, b"%d" % self._node, lease.id)
        try:
            taken = await self._store.txn([Compare(CONTROLLER, ABSENT)], [put])
        except LeaseEnded:
            if self._lease is lease:
                self.control_revision = None  # `keep` takes a new lease
        except Unanswered:
            # If this broker held the key without knowing it, the cluster would never have a controller.
            self._unsure = True
            raise
        else:
            if taken is not None and self._lease is lease:
                # Otherwise a broker holds the key: perhaps this one, whose watch does not show it yet.
                self.control_revision = taken

    async def leave(self) -> None:
        """Asks the controller to elect other leaders for the partitions that this broker leads; until then the broker goes
        on serving."""
        lease = self._lease
        if lease is not None:
            self._record = self._record._replace(leaving=True)
            put = Put(broker_key(self._node), self._record.encode(), lease.id)
            try:
                stored = await self._store.txn([Compare(broker_key(self._node), self.epoch)], [put])
            except LeaseEnded:
                return  # and with it the registration
            self.epoch = stored or self.epoch

    async def keep(self) -> None:
        """Renews the lease until cancelled.  A broker that lost its lease in a long pause registers again, under a new
        epoch.  While the store cannot be reached, the broker goes on leading, but acknowledges nothing that the in-sync
        replicas have not confirmed; other brokers may take over once the lease has ended."""
        away = False
        while True:
            await self._heartbeat_due()
            try:
                await self._renew()
                away = False
            except LeaseEnded:
                self._lease = None
            except errors.DuplicateBrokerRegistration:
                raise
            except errors.TidelogError as problem:
                if not away:
                    log.warning("The metadata store cannot be reached: %s", problem)
                away = True
            self._log_proof()

    async def _renew(self) -> None:
        asked_ms, lease = self._clock.monotonic_ms(), self._lease
        if self._unsure or lease is None or not await lease.keep_alive():
            await self.register()
        else:
            self._proven(asked_ms, lease)

    def _log_proof(self) -> None:
        proven = self.is_proven()
        if proven != self._was_proven:
            self._was_proven = proven
            if proven:
                log.warning("The lease of broker %d is certain again.", self._node)
            else:
                log.warning(
                    "Broker %d cannot prove that its lease lasts: until the metadata store answers, it acknowledges "
                    "only records that the in-sync replicas have, as with acks=all.",
                    self._node,
                )

    async def _heartbeat_due(self) -> None:
        try:
            async with asyncio.timeout(self._lease_ms / HEARTBEATS / 1000):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    async def end(self) -> None:
        """Ends the lease, so that other brokers see at once that this broker is gone."""
        if self._lease is not None:
            try:
                await self._lease.end()
            except Unanswered as problem:
                log.warning("The registration stays until its lease ends: %s", problem)
