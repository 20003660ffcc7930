"""A broker's place in the cluster: a key that lives as long as the broker keeps its lease alive.

A process that was killed and is started again takes the place of its last life at once: it has the lock on the same
data, on a machine that stayed up, so the other one cannot be there any more.  Whoever has other data waits for the
lease to end, and is refused when it does not."""

from __future__ import annotations

import asyncio
import logging

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.image import Image
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.store import ABSENT, Compare, Entry, Lease, LeaseEnded, MetadataStore, Put, Unanswered
from tidelog.types import NodeId

log = logging.getLogger("tidelog.metadata")

TAKEN_MS = 3_000  # beyond its lease, a broker that is still there is another one
RETRY_S = 0.1
CLOCK_DRIFT = 10  # a lease is trusted for a tenth less than it lasts
HEARTBEATS = 4  # how often a lease is renewed in the time it lasts


def same_home(found: Entry, home: str) -> bool:
    """Whether a broker's key was written by a process with the same data, on the machine as it runs now."""
    return home != "" and BrokerRecord.decode(found.value).home == home


def _taken(node: NodeId) -> errors.TidelogError:
    return errors.DuplicateBrokerRegistration(
        f"broker {node} is registered already: give this one another node.id"
    )


async def await_place(store: MetadataStore, node: NodeId, home: str, clock: Clock, lease_ms: int) -> None:
    """Before anything is changed in the name of `node`: nobody else has it.  One that runs elsewhere, or ran on other
    data, keeps it for as long as its lease."""
    deadline = clock.monotonic_ms() + lease_ms + TAKEN_MS
    while True:
        found = await store.get(broker_key(node))
        if found is None or same_home(found, home):
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
        self._unsure = False  # the store gave no answer: nobody knows which keys are bound to the lease
        self._hurry = asyncio.Event()
        self._proven_until_ms = 0
        self._was_proven = True
        self._learned_revision = -1
        self.epoch = -1
        self.control_revision: int | None = None
        """When this broker became the controller; None when it is not, as far as it knows."""

    async def register(self) -> int:
        """The broker's epoch, larger than any before; it is the revision too that makes the broker known."""
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
                if self._clock.monotonic_ms() >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)

    def is_proven(self) -> bool:
        """Whether the lease surely lasts, by this broker's own clock.  While it does not, another broker may lead what
        this one leads, and only what the in-sync set confirms may be acknowledged.  A lease that was taken anew proves
        nothing until the broker knows the metadata of that moment: others may have been elected before."""
        if self._unsure or self._learned_revision < self.epoch:
            return False
        return self._clock.monotonic_ms() < self._proven_until_ms

    def _proven(self, asked_ms: int, lease: Lease) -> None:
        """The store counts a lease from a moment after it was asked for, by a clock that may run a little faster."""
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
        """The revision of what an earlier life of this broker left, or that there is nothing."""
        found = await self._store.get(broker_key(self._node))
        return found.revision if found is not None and same_home(found, self._record.home) else ABSENT

    async def _free_control(self) -> int | None:
        """As `_own_place`, of the controller's key; None when another broker has it."""
        found = await self._store.get(CONTROLLER)
        if found is None:
            return ABSENT
        return found.revision if found.value == b"%d" % self._node else None

    def learned(self, image: Image) -> None:
        """Every change of the brokers.  A place that others took from this broker, as they do when they find nobody at
        its address, is taken anew; one that another process has is lost for good."""
        self._learned_revision = image.revision
        if self._record.leaving or image.revision < self.epoch or self.epoch < 0:
            return
        found = image.brokers.get(self._node)
        if found is None:
            self._unsure = True
            self._hurry.set()
        elif found.incarnation != self._record.incarnation:
            raise errors.DuplicateBrokerRegistration(
                f"another process runs as broker {self._node}, with a copy of this one's data: stop one of them"
            )

    async def take_control(self) -> None:
        """Becomes the controller, if nobody is.  What is answered for a lease that was replaced meanwhile counts for
        nothing: the registration with the new one has taken the key, or seen who has it."""
        lease = self._lease
        if lease is None:
            return
        put = Put(CONTROLLER, b"%d" % self._node, lease.id)
        try:
            taken = await self._store.txn([Compare(CONTROLLER, ABSENT)], [put])
        except LeaseEnded:
            if self._lease is lease:
                self.control_revision = None  # `keep` takes a new one
        except Unanswered:
            # Were the key ours without our knowing it, nobody would ever be the controller.
            self._unsure = True
            raise
        else:
            if taken is not None and self._lease is lease:
                # Else somebody has it: perhaps this broker, which has not been told yet.
                self.control_revision = taken

    async def leave(self) -> None:
        """Tells the controller to let others lead what this broker leads; it goes on serving until they do."""
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
        """For ever.  A lease lost in a long pause is taken anew, under a new epoch.  While the store cannot be reached
        this broker goes on leading, but acknowledges nothing that the in-sync sets have not confirmed; others may take
        over once its lease is over."""
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
                    log.warning("the metadata store cannot be reached: %s", problem)
                away = True
            self._tell()

    async def _renew(self) -> None:
        asked_ms, lease = self._clock.monotonic_ms(), self._lease
        if self._unsure or lease is None or not await lease.keep_alive():
            await self.register()
        else:
            self._proven(asked_ms, lease)

    def _tell(self) -> None:
        proven = self.is_proven()
        if proven != self._was_proven:
            self._was_proven = proven
            if proven:
                log.warning("the lease of broker %d is certain again", self._node)
            else:
                log.warning(
                    "broker %d cannot prove that its lease lasts: it acknowledges only what the in-sync replicas "
                    "have, as with acks=all, until the metadata store answers",
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
        """Others learn at once that this broker is gone."""
        if self._lease is not None:
            try:
                await self._lease.end()
            except Unanswered as problem:
                log.warning("the registration ends only with its lease: %s", problem)
