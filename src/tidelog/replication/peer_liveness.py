"""Notices that another broker's process has ended, long before its session (the lease in the metadata store) expires.

When a process ends, its connections break, and its machine refuses new ones.  This broker keeps one idle connection to
every other broker.  When a connection breaks and the address refuses new ones, this broker deletes the registration, as
the end of the lease would.  It judges only a broker that it has reached before: an address that it could never reach may
belong to a healthy broker.  A broker that is judged wrongly (a firewall refuses in its name) registers again; swaps and
epochs alone decide about leaders, so a mistake loses nothing.  A silent, frozen or isolated broker keeps its registration
until its lease ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from tidelog import errors
from tidelog.metadata.image.image import BrokerImage, Image
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.store import Compare, Delete, MetadataStore
from tidelog.net.requester import Requester, Unreachable
from tidelog.types import NodeId

log = logging.getLogger("tidelog.peer_liveness")

CALLS = 3  # before a broker is taken for gone
BETWEEN_CALLS_S = 0.02
AGAIN_S, AGAIN_S_MAX = 0.05, 1.0


class PeerAddresses(Protocol):
    async def connect(self, node: NodeId) -> Requester: ...


class PeerLiveness:
    def __init__(self, node: NodeId, peers: PeerAddresses, store: MetadataStore) -> None:
        self._node = node
        self._peers = peers
        self._store = store
        self._watched: dict[tuple[NodeId, str], asyncio.Task[None]] = {}

    def learned(self, image: Image) -> None:
        """The brokers that there are now."""
        there = {
            (broker.node_id, broker.incarnation): broker
            for broker in image.brokers.values()
            if broker.node_id != self._node
        }
        for key in [key for key in self._watched if key not in there]:
            self._watched.pop(key).cancel()
        for key, broker in there.items():
            if key not in self._watched:
                self._watched[key] = asyncio.get_running_loop().create_task(self._watch(broker))

    async def _watch(self, broker: BrokerImage) -> None:
        """Until it is gone; cancelled when its registration is."""
        pause_s = AGAIN_S
        while True:
            try:
                connection = await self._peers.connect(broker.node_id)
            except errors.TidelogError:
                # One that has just registered may not answer yet, and can die the moment after.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
                continue
            pause_s = AGAIN_S
            try:
                await connection.ended()
            finally:
                connection.close()
            if await self._refuses(broker.node_id):
                await self._tell(broker)
                await asyncio.sleep(AGAIN_S_MAX)

    async def _refuses(self, node: NodeId) -> bool:
        for call in range(CALLS):
            if call:
                await asyncio.sleep(BETWEEN_CALLS_S)
            try:
                (await self._peers.connect(node)).close()
                return False
            except Unreachable as problem:
                if not isinstance(problem.__cause__, ConnectionRefusedError):
                    return False
            except errors.TidelogError:
                return False
        return True

    async def _tell(self, broker: BrokerImage) -> None:
        key = broker_key(broker.node_id)
        try:
            place, control = await self._store.get(key), await self._store.get(CONTROLLER)
            if place is None or BrokerRecord.decode(place.value).incarnation != broker.incarnation:
                return  # somebody was faster, or it is back
            gone = [(key, place.revision)]
            if control is not None and control.value == b"%d" % broker.node_id:
                gone.append((CONTROLLER, control.revision))
            done = await self._store.txn(
                [Compare(*registration) for registration in gone], [Delete(name) for name, _ in gone]
            )
        except errors.TidelogError as problem:
            log.info(
                "broker %d seems to be gone, and its registration could not be deleted: %s",
                broker.node_id,
                problem,
            )
            return
        if done is not None:
            log.warning("broker %d has ended: its address refuses connections", broker.node_id)

    async def stop(self) -> None:
        tasks, self._watched = list(self._watched.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
