"""The active controller: elects leaders, on the one broker that holds the controller's key.

Every broker runs an ActiveController.  When the key is free, the broker tries to take it, bound to the broker's lease.
While the broker holds the key, it stores what `elections` decides after every change, adds replicas to internal topics that
were created while few brokers ran, and gives leadership back to preferred replicas from time to time.  Every write is
conditional on the controller's key and on the states from which it was decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.metadata import records
from tidelog.metadata.elections import elections
from tidelog.metadata.elections.elections import NextState, due
from tidelog.metadata.elections.leaderless import LeaderlessLog
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image
from tidelog.metadata.internal_replicas import replication_factors, widened
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
        self._stale: set[str] = set()  # topics that changed since they were last checked
        self._all_stale = True
        self._in_charge = False
        self._news = asyncio.Event()
        self._news.set()
        self._balance_at_ms = 0
        self._leaderless = LeaderlessLog()

    def learned(self, update: Update) -> None:
        """Called with every update of the metadata, after the broker has applied it."""
        if update.brokers or update.topic_configs or update.broker_configs:
            self._all_stale = True
        self._stale.update(update.topics)
        self._news.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._wait()
            try:
                await self._check()
            except TidelogError as problem:
                log.warning("The controller cannot change the metadata now and will try again: %s", problem)
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

    async def _check(self) -> None:
        image = self._image()
        if image.controller is None:
            await self._registration.take_control()
            return  # the watch shows which broker is the controller now
        in_charge = image.controller == self._node and self._registration.control_revision is not None
        if in_charge and not self._in_charge:
            log.info("Broker %d is the controller now.", self._node)
            self._all_stale = True
            self._balance_at_ms = self._clock.monotonic_ms() + self._balance_ms()
        self._in_charge = in_charge
        if not in_charge:
            self._leaderless.forget()
            return
        await self._elect(image)
        await self._widen_internal_topics(image)
        if self._clock.monotonic_ms() >= self._balance_at_ms:
            self._balance_at_ms = self._clock.monotonic_ms() + self._balance_ms()
            if self._config().auto_leader_rebalance_enable:
                await self._write(list(preferred(image)))

    def _balance_ms(self) -> int:
        return self._config().leader_imbalance_check_interval_seconds * 1000

    async def _elect(self, image: Image) -> None:
        names = None if self._all_stale else sorted(self._stale)
        topics = image.topics.values() if names is None else map(image.topics.get, names)
        self._all_stale = False
        self._stale = set()
        states = list(due(image, filter(None, topics), self._unclean))
        self._log_leaderless(image, names, states)
        await self._write(states)

    async def _widen_internal_topics(self, image: Image) -> None:
        states = list(widened(image, replication_factors(self._config())))
        for name in sorted({image.names[state.topic_id] for state in states}):
            log.info("%s gets more replicas: it was created while fewer brokers ran.", name)
        await self._write(states)

    def _log_leaderless(
        self, image: Image, names: Collection[str] | None, states: Iterable[NextState]
    ) -> None:
        """Logs which partitions wait for which brokers, once per change."""
        elected = {
            TopicPartition(image.names[state.topic_id], state.index)
            for state in states
            if state.record.leader is not None
        }
        for notice in self._leaderless.checked(image, names, elected):
            log.log(logging.INFO if notice.over else logging.WARNING, notice.text)

    async def _write(self, states: Sequence[NextState]) -> None:
        # One comparison is needed for the controller's key.
        size = self._store.operations_max - 1
        for at in range(0, len(states), size):
            batch = states[at : at + size]
            if await self._swap(batch) is None and len(batch) > 1:
                # Another broker has changed one of the states meanwhile, which the watch will show: the others are
                # stored one by one.
                for state in batch:
                    await self._swap([state])

    async def _swap(self, states: Sequence[NextState]) -> int | None:
        control = self._registration.control_revision
        if control is None:
            return None
        compare = [
            Compare(records.partition_key(state.topic_id, state.index), state.revision) for state in states
        ]
        then = [records.put_partition(state.topic_id, state.index, state.record) for state in states]
        return await self._store.txn([Compare(records.CONTROLLER, control), *compare], then)


def preferred(image: Image) -> Iterable[NextState]:
    """The next states of partitions whose preferred replica could lead and does not."""
    live = frozenset(broker.node_id for broker in image.live_brokers)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader != partition.replicas[0] and elections.can_be_preferred(partition, live):
                record = elections.elect_preferred(partition, live)
                yield NextState(topic.id, partition.index, record, partition.revision)
