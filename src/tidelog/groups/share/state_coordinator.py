"""The share coordinator: the shards of `__share_group_state` that this broker leads, and the persister over them.

When a shard's log has many more records than states, a snapshot of each state is written, and earlier records are
deleted.  The topic is not compacted, because an update does not hold the whole state."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.coordination.records import CoordinatorRecord
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.coordination.shard import Shard, Writer
from tidelog.groups.share import group_state
from tidelog.groups.share.group_state import (
    KINDS,
    ShareKey,
    ShareState,
    ShareStateMachine,
    StateWrite,
    TransactionMember,
)
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.replication.partitions import Partitions
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.shares")

STATE_TOPIC = "__share_group_state"
PRUNE_RECORDS_MIN = 20_000
PRUNE_RECORDS_A_STATE = 8
PRUNE_ENTRIES_A_BATCH = 100
RETRY_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # while the topic is created, or its shards are loaded

StateShard = Shard[ShareStateMachine]


def coordinator_key(key: ShareKey) -> str:
    """The key in FindCoordinator; the topic id is written as Kafka's text of a UUID."""
    topic = base64.urlsafe_b64encode(key.topic_id.bytes).rstrip(b"=").decode()
    return f"{key.group}:{topic}:{key.partition}"


def parse_coordinator_key(text: str) -> ShareKey:
    group, _, rest = text.rpartition(":")[0].rpartition(":")
    try:
        topic = base64.b64decode(rest + "==", altchars=b"-_", validate=True)
        key = ShareKey(group, UUID(bytes=topic), int(text.rpartition(":")[2]))
    except ValueError:
        key = None
    if key is None or not group.strip() or key.partition < 0:
        raise errors.InvalidRequest(f"{text!r}: the key of a share coordinator is group:topic-id:partition")
    return key


Enlist = Callable[[TransactionMember, TopicPartition], Awaitable[None]]
"""Makes a partition part of a transaction; when it returns, the producer may write to the partition at once."""


async def _no_transactions(transaction: TransactionMember, partition: TopicPartition) -> None:
    raise errors.CoordinatorNotAvailable("transactions are not served yet: try again")


class ShareStateCoordinator:
    """Also a `SharePersister`, for share partitions in the same process."""

    def __init__(self, node: NodeId, controller: Controller, partitions: Partitions, clock: Clock) -> None:
        self._controller = controller
        self._partitions = partitions
        self._clock = clock
        self.topic = InternalTopic(STATE_TOPIC, controller, self._shape)
        self.coordinator: CoordinatorRuntime[ShareStateMachine] = CoordinatorRuntime(
            self.topic,
            node,
            partitions,
            clock,
            KINDS,
            lambda: ShareStateMachine(self._decided),
            lambda: self._config.share_coordinator_state_topic_compression_codec,
        )
        self._pruning: dict[int, asyncio.Task[None]] = {}
        self.enlist: Enlist = _no_transactions
        self.decided: list[Callable[[ShareKey], None]] = []
        """Called with each key that a transaction acknowledged records of, when the transaction has ended."""

    # For handlers and share partitions

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        await self.topic.ensure()
        await self._change(
            key,
            lambda machine: group_state.initialize(machine, key, state_epoch, start, self._clock.now_ms()),
        )

    async def write(self, key: ShareKey, update: StateWrite) -> None:
        updates_max = self._config.share_coordinator_snapshot_update_records_per_snapshot
        await self._change(
            key, lambda machine: group_state.write(machine, key, update, updates_max, self._clock.now_ms())
        )

    async def join(self, key: ShareKey, update: StateWrite, transaction: TransactionMember) -> None:
        shard = await self._shard(key)
        group_state.join(
            shard.machine, key, update
        )  # what would be refused does not begin a transaction here
        await self.enlist(transaction, TopicPartition(STATE_TOPIC, shard.index))
        shard = self.coordinator.shard(coordinator_key(key))
        writer = Writer(transaction.producer_id, transaction.producer_epoch)
        appended = shard.append(group_state.join(shard.machine, key, update), writer)
        await shard.committed(appended, self._timeout_ms)

    def _decided(self, key: ShareKey) -> None:
        for tell in self.decided:
            tell(key)

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        await self.topic.ensure()
        states: list[ShareState] = []

        def decide(machine: ShareStateMachine) -> list[CoordinatorRecord]:
            state, entries = group_state.read(machine, key, leader_epoch)
            states[:] = [state]
            return entries or self._proof(machine, key)

        await self._change(key, decide)
        return states[0]

    async def delete(self, key: ShareKey) -> None:
        await self._change(key, lambda machine: group_state.delete(machine, key))

    async def summary(self, key: ShareKey) -> ShareState | None:
        if self.topic.count(self._controller.image) is None:
            return None  # no state was ever written
        states: list[ShareState | None] = []

        def decide(machine: ShareStateMachine) -> list[CoordinatorRecord]:
            states[:] = [machine.states.get(key)]
            return self._proof(machine, key)

        await self._change(key, decide)
        return states[0]

    def _proof(self, machine: ShareStateMachine, key: ShareKey) -> list[CoordinatorRecord]:
        """The records to commit before a state is answered: none, unless another coordinator may have a newer state."""
        if self.coordinator.lease_proven:
            return []
        return group_state.snapshots(machine, [key], self._clock.now_ms())

    async def _change(
        self, key: ShareKey, decide: Callable[[ShareStateMachine], list[CoordinatorRecord]]
    ) -> None:
        shard = await self._shard(key)
        appended = shard.append(decide(shard.machine))
        self._prune_if_due(shard)
        await shard.committed(appended, self._timeout_ms)

    async def _shard(self, key: ShareKey) -> StateShard:
        """The key's shard; waits a short time if the topic was just created, or if the shard is loading."""
        name = coordinator_key(key)
        for wait_s in RETRY_S:
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                return self.coordinator.shard(name)
            except (errors.CoordinatorLoadInProgress, errors.CoordinatorNotAvailable, errors.NotCoordinator):
                continue
        return self.coordinator.shard(name)

    # Housekeeping

    def _prune_if_due(self, shard: StateShard) -> None:
        partition = self._partitions.led_here(STATE_TOPIC, shard.index)
        records = partition.log.next - partition.log.start
        limit = max(PRUNE_RECORDS_MIN, PRUNE_RECORDS_A_STATE * len(shard.machine.states))
        if records > limit and shard.index not in self._pruning:
            task = asyncio.get_running_loop().create_task(self._prune(shard))
            self._pruning[shard.index] = task
            task.add_done_callback(lambda _: self._pruning.pop(shard.index, None))

    async def _prune(self, shard: StateShard) -> None:
        try:
            partition = self._partitions.led_here(STATE_TOPIC, shard.index)
            # Of a transaction that is open, no record may be deleted: its end is yet to be applied.
            before = min(partition.log.next, partition.last_stable)
            keys = list(shard.machine.states)
            for at in range(0, len(keys), PRUNE_ENTRIES_A_BATCH):
                # Records that are written meanwhile are behind `before`, too.
                chosen = keys[at : at + PRUNE_ENTRIES_A_BATCH]
                appended = shard.append(group_state.snapshots(shard.machine, chosen, self._clock.now_ms()))
                await shard.committed(appended, self._timeout_ms)
            partition.delete_records(before)
        except errors.TidelogError as problem:
            log.warning("cannot delete old records of %s-%d now: %s", STATE_TOPIC, shard.index, problem)

    def apply(self, update: Update) -> None:
        self.coordinator.apply(update)
        gone = frozenset(
            before.id
            for name in update.topics
            if (before := update.before.topics.get(name)) is not None
            and ((after := update.image.topics.get(name)) is None or after.id != before.id)
        )
        if gone:
            self._forget(gone)

    def _forget(self, topics: frozenset[UUID]) -> None:
        for shard in self.coordinator.shards():
            try:
                shard.append(group_state.deletions(shard.machine, topics))
            except errors.TidelogError as problem:
                log.warning("%s: cannot delete states of deleted topics now: %s", shard, problem)

    def start(self) -> None:
        self.coordinator.start(self._controller.image)

    async def stop(self) -> None:
        tasks = list(self._pruning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.coordinator.stop()

    @property
    def _config(self) -> BrokerConfig:
        return self._controller.config()

    @property
    def _timeout_ms(self) -> int:
        return self._config.share_coordinator_write_timeout_ms

    def _shape(self) -> TopicShape:
        config = self._config
        return TopicShape(
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "compression.type": "producer",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            },
        )
