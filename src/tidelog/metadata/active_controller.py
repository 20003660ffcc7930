"""The controller's duties, done by whichever broker holds the controller's key.

Every broker has one of these.  When the key is free it tries to take it, bound to its own lease; while it has it, it
stores what `elections` decides after every change, and gives leadership back to preferred replicas from time to time.
Every write is conditional on still holding the key and on the states it was decided from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.metadata import elections, records
from tidelog.metadata.changes import Update
from tidelog.metadata.elections import NextState, due
from tidelog.metadata.image import Image
from tidelog.metadata.leaderless import LeaderlessLog
from tidelog.metadata.registration import Registration
from tidelog.metadata.store import Compare, MetadataStore
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.controller")

RETRY_S = 0.2


class ActiveController:
    def __init__(
        self,
        store: MetadataStore,
        node: NodeId,
        registration: Registration,
        image: Callable[[], Image],
        config: Callable[[], BrokerConfig],
        unclean: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        self._store = store
        self._node = node
        self._registration = registration
        self._image = image
        self._config = config
        self._unclean = unclean
        self._clock = clock
        self._stale: set[str] = set()  # topics that changed since they were looked at
        self._all_stale = True
        self._in_charge = False
        self._news = asyncio.Event()
        self._news.set()
        self._balance_at_ms = 0
        self._waits = LeaderlessLog()

    def learned(self, update: Update) -> None:
        """Every update of the metadata, after it was applied."""
        if update.brokers or update.topic_configs or update.broker_configs:
            self._all_stale = True
        self._stale.update(update.topics)
        self._news.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._wait()
            try:
                await self._look()
            except TidelogError as problem:
                log.warning("the metadata cannot be changed now: %s", problem)
                self._all_stale = True
                self._news.set()
                await asyncio.sleep(RETRY_S)

    async def _wait(self) -> None:
        wait_ms = max(self._balance_at_ms - self._clock.monotonic_ms(), 0) if self._in_charge else None
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _look(self) -> None:
        image = self._image()
        if image.controller is None:
            await self._registration.take_control()
            return  # whoever got it, the store will tell
        in_charge = image.controller == self._node and self._registration.control_revision is not None
        if in_charge and not self._in_charge:
            log.info("broker %d is the controller now", self._node)
            self._all_stale = True
            self._balance_at_ms = self._clock.monotonic_ms() + self._balance_ms()
        self._in_charge = in_charge
        if not in_charge:
            self._waits.forget()
            return
        await self._put_right(image)
        if self._clock.monotonic_ms() >= self._balance_at_ms:
            self._balance_at_ms = self._clock.monotonic_ms() + self._balance_ms()
            if self._config().auto_leader_rebalance_enable:
                await self._write(list(preferred(image)))

    def _balance_ms(self) -> int:
        return self._config().leader_imbalance_check_interval_seconds * 1000

    async def _put_right(self, image: Image) -> None:
        names = None if self._all_stale else sorted(self._stale)
        topics = image.topics.values() if names is None else map(image.topics.get, names)
        self._all_stale = False
        self._stale = set()
        states = list(due(image, filter(None, topics), self._unclean))
        self._tell_waits(image, names, states)
        await self._write(states)

    def _tell_waits(self, image: Image, names: Collection[str] | None, states: Iterable[NextState]) -> None:
        """Which partitions wait for which brokers, once per change."""
        elected = {
            TopicPartition(image.names[state.topic_id], state.index)
            for state in states
            if state.record.leader is not None
        }
        for news in self._waits.looked(image, names, elected):
            log.log(logging.INFO if news.over else logging.WARNING, news.text)

    async def _write(self, states: Sequence[NextState]) -> None:
        # One comparison is that of the controller's own key.
        size = self._store.operations_max - 1
        for at in range(0, len(states), size):
            some = states[at : at + size]
            if await self._swap(some) is None and len(some) > 1:
                # Somebody changed one of them meanwhile, and the store will tell: the others go one by one.
                for one in some:
                    await self._swap([one])

    async def _swap(self, states: Sequence[NextState]) -> int | None:
        control = self._registration.control_revision
        if control is None:
            return None
        compare = [Compare(records.partition_key(one.topic_id, one.index), one.revision) for one in states]
        then = [records.put_partition(one.topic_id, one.index, one.record) for one in states]
        return await self._store.txn([Compare(records.CONTROLLER, control), *compare], then)


def preferred(image: Image) -> Iterable[NextState]:
    """Partitions whose preferred leader could lead and does not: their next states."""
    live = frozenset(broker.node_id for broker in image.live_brokers)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader != partition.replicas[0] and elections.can_be_preferred(partition, live):
                record = elections.elect_preferred(partition, live)
                yield NextState(topic.id, partition.index, record, partition.revision)
