"""A broker's place in the cluster: a key that lives as long as the broker keeps its lease alive."""

from __future__ import annotations

import asyncio
import logging

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.store import ABSENT, Compare, Lease, LeaseEnded, MetadataStore, Put, Unanswered
from tidelog.types import NodeId

log = logging.getLogger("tidelog.metadata")

TAKEN_MS = 3_000  # beyond its lease, a broker that is still there is another one
RETRY_S = 0.1
HEARTBEATS = 4  # how often a lease is renewed in the time it lasts


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
        self.epoch = -1
        self.control_revision: int | None = None
        """When this broker became the controller; None when it is not, as far as it knows."""

    async def register(self) -> int:
        """The broker's epoch, larger than any before; it is the revision too that makes the broker known.

        One that was killed and comes back finds itself registered until its old lease is over."""
        deadline = self._clock.monotonic_ms() + self._lease_ms + TAKEN_MS
        while True:
            try:
                return await self._register()
            except errors.DuplicateBrokerRegistration:
                if self._clock.monotonic_ms() >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _register(self) -> int:
        self.control_revision = None
        if self._lease is not None:
            await self._lease.end()
        self._lease = await self._store.lease(self._lease_ms)
        try:
            return await self._enter(self._lease)
        except Unanswered:
            self._unsure = True
            raise

    async def _enter(self, lease: Lease) -> int:
        key = broker_key(self._node)
        me = Put(key, self._record.encode(), lease.id)
        control = Put(CONTROLLER, b"%d" % self._node, lease.id)
        epoch = await self._store.txn([Compare(key, ABSENT), Compare(CONTROLLER, ABSENT)], [me, control])
        if epoch is not None:
            self.control_revision = epoch
        else:
            # Another broker is the controller.
            epoch = await self._store.txn([Compare(key, ABSENT)], [me])
        if epoch is None:
            await lease.end()
            raise errors.DuplicateBrokerRegistration(
                f"broker {self._node} is registered already: give this one another node.id"
            )
        self.epoch = epoch
        self._unsure = False
        return epoch

    async def take_control(self) -> None:
        """Becomes the controller, if nobody is."""
        lease = self._lease
        if lease is not None:
            put = Put(CONTROLLER, b"%d" % self._node, lease.id)
            try:
                self.control_revision = await self._store.txn([Compare(CONTROLLER, ABSENT)], [put])
            except LeaseEnded:
                self.control_revision = None  # `keep` takes a new one
            except Unanswered:
                # Were the key ours without our knowing it, nobody would ever be the controller.
                self._unsure = True
                raise

    async def leave(self) -> None:
        """Tells the controller to let others lead what this broker leads; it goes on serving until they do."""
        lease = self._lease
        if lease is not None:
            self._record = self._record._replace(leaving=True)
            put = Put(broker_key(self._node), self._record.encode(), lease.id)
            self.epoch = (
                await self._store.txn([Compare(broker_key(self._node), self.epoch)], [put]) or self.epoch
            )

    async def keep(self) -> None:
        """For ever.  A lease lost in a long pause is taken anew, under a new epoch.  While the store cannot be reached
        what this broker leads it leads on; others may take over once its lease is over."""
        away = False
        while True:
            await asyncio.sleep(self._lease_ms / HEARTBEATS / 1000)
            try:
                if self._unsure or self._lease is None or not await self._lease.keep_alive():
                    await self.register()
                away = False
            except LeaseEnded:
                self._lease = None
            except errors.DuplicateBrokerRegistration:
                raise
            except errors.TidelogError as problem:
                if not away:
                    log.warning("the metadata store cannot be reached: %s", problem)
                away = True

    async def end(self) -> None:
        """Others learn at once that this broker is gone."""
        if self._lease is not None:
            try:
                await self._lease.end()
            except Unanswered as problem:
                log.warning("the registration ends only with its lease: %s", problem)
