"""A broker's place in the cluster: a key that lives as long as the broker keeps its lease alive."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.store import ABSENT, Compare, Lease, LeaseEnded, MetadataStore, Put
from tidelog.types import NodeId

# The defaults of broker.session.timeout.ms and broker.heartbeat.interval.ms, which cannot be changed yet.
SESSION_MS = 9000
HEARTBEAT_MS = 2000


class Registration:
    def __init__(self, store: MetadataStore, node: NodeId, record: BrokerRecord) -> None:
        self._store = store
        self._node = node
        self._record = record
        self._lease: Lease | None = None

    async def register(self) -> int:
        """The broker's epoch, larger than any before; it is the revision too that makes the broker known."""
        self._lease = await self._store.lease(SESSION_MS)
        key = broker_key(self._node)
        me = Put(key, self._record.encode(), self._lease.id)
        control = Put(CONTROLLER, b"%d" % self._node, self._lease.id)
        epoch = await self._store.txn([Compare(key, ABSENT), Compare(CONTROLLER, ABSENT)], [me, control])
        if epoch is None:
            # Another broker is the controller.
            epoch = await self._store.txn([Compare(key, ABSENT)], [me])
        if epoch is None:
            await self._lease.end()
            raise errors.DuplicateBrokerRegistration(
                f"broker {self._node} is registered already: give this one another node.id"
            )
        return epoch

    async def keep(self) -> None:
        """For ever.  A lease lost in a long pause is taken anew, under a new epoch."""
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            if self._lease is None or not await self._lease.keep_alive():
                try:
                    await self.register()
                except LeaseEnded:
                    continue

    async def end(self) -> None:
        """Others learn at once that this broker is gone."""
        if self._lease is not None:
            await self._lease.end()
