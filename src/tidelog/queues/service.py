"""Queues: publish, acquire, settle and browse, without a frame of any protocol.

A queue is a topic and a share group.  Its partitions may be led here or elsewhere: callers need not know.  Rights are
checked by the door through which a request came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from uuid import UUID

from tidelog import errors
from tidelog.groups.share.dead_letters import DeadLetterRoute
from tidelog.groups.share.group_state import ShareKey
from tidelog.groups.share.in_flight import FINISHED, RecordState
from tidelog.groups.share.led_partition import LedSharePartition
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.persister import SharePersister
from tidelog.groups.share.queue_keeper import QueueKeepers
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.queues.delays import Delays
from tidelog.queues.legs import LocalLeg, QueueReader, RemoteLeg
from tidelog.queues.message import BrowsedRecord, Position, Published, QueueDepth, QueueMessage
from tidelog.queues.publishing import Publisher
from tidelog.queues.session import Leaders, QueueLeg, QueueSession
from tidelog.record.reader import read_records
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.storage.fetched_log import fetch_bytes
from tidelog.types import NodeId

PURGED_AT_ONCE = 1_000
BROWSE_BYTES = 1 << 20


class Queues:
    def __init__(
        self,
        controller: Controller,
        partitions: Partitions,
        shares: SharePartitions,
        persister: SharePersister,
        elsewhere: RemotePartitions,
        peers: Peers,
        random: Random,
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._shares = shares
        self._persister = persister
        self._elsewhere = elsewhere
        self._peers = peers
        self._random = random
        self.keepers = QueueKeepers(controller, partitions, shares)
        self._publisher = Publisher(elsewhere, self._batch_bytes_max, shares.clock)
        self.delays = Delays(controller, partitions, self._publisher.publish, shares.clock)
        shares.letters.delay = self.delays.keep_record

    def _batch_bytes_max(self, topic: str) -> int:
        return self._controller.topic_config(topic).max_message_bytes

    def start(self) -> None:
        """Keeps the queues that this broker leads."""
        self.keepers.start()
        self.delays.start()

    def apply(self, update: Update) -> None:
        self.keepers.apply(update)
        self.delays.apply(update)

    @property
    def pending_bytes(self) -> int:
        """What was published and is not confirmed yet."""
        return self._publisher.pending_bytes

    def publish(self, topic: str, message: QueueMessage, partition: int = 0) -> asyncio.Future[Published]:
        """Done when all in-sync replicas have it.  Messages land in the order of the calls."""
        return self._publisher.publish(topic, partition, message)

    async def publish_later(
        self, topic: str, message: QueueMessage, due_ms: int, partition: int = 0
    ) -> Position:
        """The message is seen by nobody before `due_ms`, by the clock of the brokers.  Returns its name while it waits,
        when all in-sync replicas have it."""
        if due_ms <= self._shares.clock.now_ms():
            raise errors.InvalidRequest("the message is due already: publish it")
        return await self.delays.keep(topic, partition, message, due_ms)

    def session(self, topic: str, group: str, *, partitions: Sequence[int] | None = None) -> QueueSession:
        """A consumer of the topic's partitions, or of those that are named."""
        topic_id = self._topic_id(topic)
        reader = QueueReader(group, str(UUID(int=self._random.getrandbits(128))), topic_id)
        chosen = None if partitions is None else frozenset(partitions)
        return QueueSession(
            partial(self._leaders, topic, topic_id, chosen), partial(self._leg, reader), self._shares.clock
        )

    def _leg(self, reader: QueueReader, node: NodeId, parts: tuple[int, ...]) -> QueueLeg:
        if node == self._partitions.node:
            return LocalLeg(self._shares, reader, parts)
        return RemoteLeg(partial(self._peers.connect, node), reader, parts)

    def _topic_id(self, topic: str) -> UUID:
        image = self._controller.image.topics.get(topic)
        if image is None:
            raise errors.UnknownTopicOrPartition(f"topic '{topic}' does not exist")
        return image.id

    def _leaders(self, topic: str, topic_id: UUID, chosen: frozenset[int] | None) -> Leaders:
        if self._topic_id(topic) != topic_id:
            raise errors.UnknownTopicOrPartition(f"topic '{topic}' was deleted")
        leaders: dict[NodeId, list[int]] = {}
        for partition in self._controller.image.topics[topic].partitions:
            if partition.leader is not None and (chosen is None or partition.index in chosen):
                leaders.setdefault(partition.leader, []).append(partition.index)
        return {node: tuple(parts) for node, parts in leaders.items()}

    def route_dead_letters(self, routes: Callable[[str, str], DeadLetterRoute | None]) -> None:
        """By topic and group: a door's own way for dead letters, on the broker that leads their partition."""
        self._shares.letters.routes = routes

    # Looking at a queue

    async def browse(
        self, topic: str, group: str, partition: int = 0, *, offset: int = 0, records_max: int = 100
    ) -> list[BrowsedRecord]:
        """Unfinished records from `offset` on, as many as one read of the log has.  Only the partition's leader can
        tell: others raise NotLeaderOrFollower."""
        led = await self._led(topic, group, partition)
        browsed: list[BrowsedRecord] = []
        at = max(offset, led.state.start)
        end = led.partition.readable_end(False)
        data = await fetch_bytes(led.partition.log, at, BROWSE_BYTES, end) if at < end else None
        for record in read_records(data or b"", at, check_crc=False):  # `fetch_bytes` has checked them
            runs = led.state.runs.over(record.offset, record.offset)
            run = runs[0] if runs else None
            if run is not None and (run.state in FINISHED or run.state is RecordState.ARCHIVING):
                continue
            if len(browsed) >= records_max:
                break
            browsed.append(
                BrowsedRecord(
                    record.offset,
                    0 if run is None else run.deliveries,
                    run is not None and run.state is RecordState.ACQUIRED,
                    record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                )
            )
        return browsed

    async def _led(self, topic: str, group: str, partition: int) -> LedSharePartition:
        return await self._shares.open(group, (self._topic_id(topic), partition))

    async def depth(self, topic: str, group: str) -> QueueDepth:
        """Of all partitions.  What is acquired from other brokers counts as ready."""
        topic_id = self._topic_id(topic)
        ready = acquired = 0
        for index in range(len(self._controller.image.topics[topic].partitions)):
            led = self._shares.led(group, (topic_id, index))
            if led is not None:
                counts = led.state.runs.counts()
                acquired += counts.acquired
                ready += max(led.partition.readable_end(False) - led.state.end, 0) + counts.available
                continue
            start, end = await self._elsewhere.bounds(topic, index)
            state = await self._persister.summary(ShareKey(group, topic_id, index))
            if state is not None:
                start = max(state.start + max(state.finished, 0), start)
            ready += max(end - start, 0)
        return QueueDepth(ready, acquired)

    async def purge(self, topic: str, group: str) -> int:
        """Finishes all records that nobody has acquired; returns how many there were."""
        session = self.session(topic, group)
        purged = 0
        try:
            while taken := await session.acquire(PURGED_AT_ONCE):
                await session.acknowledge([delivery.position for delivery in taken])
                purged += len(taken)
        finally:
            await session.close()
        return purged

    async def stop(self) -> None:
        await self.keepers.stop()
        await self.delays.stop()
        await self._publisher.stop()
        self._elsewhere.close()
