"""Delayed messages: kept in `__delayed_records` until they are due, then published where they belong.

Whoever leads a partition of that topic reads it once, keeps an index of what waits, and publishes what is due.  A message
is done when its delivery is on all in-sync replicas: a crash between delivery and note delivers it twice, never not at
all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.clock import Clock
from tidelog.coordination.internal_topic import InternalTopic, TopicShape, partition_for
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.queues.delay_index import DelayIndex
from tidelog.queues.delayed_records import (
    DELAYED_TOPIC,
    OFFSETS_A_RECORD,
    DelayedMessage,
    delayed,
    done,
    read_delayed,
    read_done,
)
from tidelog.queues.message import Position, Published, QueueMessage
from tidelog.record.reader import read_records
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.fetched_log import fetch_bytes

log = logging.getLogger("tidelog.queues")

PARTITIONS = 8
READ_BYTES = 1 << 20
DELIVERED_AT_ONCE = 500
RETRY_S = 1.0
DELETED_FROM = 20_000  # records of a partition, before finished ones are deleted while others wait

Publish = Callable[[str, int, QueueMessage], "asyncio.Future[Published]"]


class Delays:
    def __init__(
        self, controller: Controller, partitions: Partitions, publish: Publish, clock: Clock
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._publish = publish
        self._clock = clock
        self._topic = InternalTopic(DELAYED_TOPIC, controller, self._shape)
        self._keepers: dict[int, tuple[_DelayedPartition, asyncio.Task[None]]] = {}
        self._stopping = False

    def _shape(self) -> TopicShape:
        config = self._controller.config()
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "max.message.bytes": str(max(config.topic_defaults.max_message_bytes * 2, 4 << 20)),
        }
        return TopicShape(PARTITIONS, config.share_coordinator_state_topic_replication_factor, configs)

    async def keep(self, topic: str, index: int, message: QueueMessage, due_ms: int) -> Position:
        """Returns what names the message while it waits; it is on all in-sync replicas then."""
        if topic not in self._controller.image.topics:
            raise errors.UnknownTopicOrPartition(f"topic '{topic}' does not exist")
        count = await self._topic.ensure()
        return await self._publish(
            DELAYED_TOPIC, partition_for(topic, count), delayed(due_ms, topic, index, message)
        )

    async def keep_record(self, topic: str, index: int, due_ms: int, record: Record) -> None:
        """A delayed record that a producer has sent to the queue itself."""
        message = QueueMessage(record.value, record.key, record.headers, record.timestamp)
        await self.keep(topic, index, message, due_ms)

    async def cancel(self, position: Position) -> None:
        """It is not delivered any more, unless it is delivered already."""
        await self._publish(DELAYED_TOPIC, position[0], done([position[1]]))

    async def waiting(self, topic: str, messages_max: int) -> list[tuple[Position, DelayedMessage]]:
        """Messages for the topic, of which the first ones are due first.  Only the broker that keeps them knows."""
        count = self._topic.count(self._controller.image)
        if count is None:
            return []
        index = partition_for(topic, count)
        keeper = self._keepers.get(index)
        if keeper is None:
            raise errors.NotLeaderOrFollower(f"{DELAYED_TOPIC}-{index} is led by another broker")
        return await keeper[0].waiting(topic, messages_max)

    # Following leadership

    def start(self) -> None:
        self._follow()

    def apply(self, update: Update) -> None:
        if DELAYED_TOPIC in update.topics:
            self._follow()

    def _follow(self) -> None:
        topic = self._controller.newest.topics.get(DELAYED_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            if (
                partition.leader != self._partitions.node
                or partition.index in self._keepers
                or self._stopping
            ):
                continue
            try:
                hosted = self._partitions.led_here(DELAYED_TOPIC, partition.index)
            except errors.TidelogError as problem:
                log.warning("%s-%d cannot be kept: %s", DELAYED_TOPIC, partition.index, problem)
                continue
            keeper = _DelayedPartition(hosted, self._publish, self._clock)
            task = asyncio.get_running_loop().create_task(keeper.run())
            self._keepers[partition.index] = keeper, task
            task.add_done_callback(partial(self._ended, partition.index))

    def _ended(self, index: int, task: asyncio.Task[None]) -> None:
        del self._keepers[index]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s-%d is not kept any more", DELAYED_TOPIC, index, exc_info=problem)
        self._follow()  # led again meanwhile, perhaps

    async def stop(self) -> None:
        self._stopping = True
        tasks = [task for _, task in self._keepers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _DelayedPartition:
    """What one partition keeps, as long as this broker leads it, and as long as the same ranges of its log are damaged."""

    def __init__(self, partition: HostedPartition, publish: Publish, clock: Clock) -> None:
        self._partition = partition
        self._publish = publish
        self._clock = clock
        self._epoch = partition.state.epoch
        self._damaged = partition.log.damaged
        self._index = DelayIndex(partition.log.start)
        self._read_to = partition.log.start

    @property
    def _leads(self) -> bool:
        state = self._partition.state
        return self._partition.leader == state.node and state.epoch == self._epoch

    @property
    def _is_current(self) -> bool:
        """False when the index has to be read again: it leaves out what was damaged when it was read."""
        return self._leads and self._partition.log.damaged == self._damaged

    async def run(self) -> None:
        while self._is_current:
            try:
                await self._read()
                await self._deliver()
                self._delete_done()
                await self._wait()
            except errors.TidelogError as problem:
                log.warning("delayed messages of %s wait: %s", self._partition.name, problem)
                await asyncio.sleep(RETRY_S)

    async def _wait(self) -> None:
        if self._read_to < self._partition.state.committed:
            return
        next_ms = self._index.next_ms()
        timeout_s = None if next_ms is None else max(next_ms - self._clock.now_ms(), 0) / 1000
        if self._damaged:  # a repair wakes nobody
            timeout_s = RETRY_S if timeout_s is None else min(timeout_s, RETRY_S)
        wait = FetchWait(1)
        self._partition.fetch_waits[wait] = None
        try:
            await asyncio.wait([wait.future], timeout=timeout_s)
        finally:
            self._partition.fetch_waits.pop(wait, None)

    async def _read(self) -> None:
        """Brings the index up to what is committed."""
        committed = int(self._partition.state.committed)
        while self._is_current and self._read_to < committed:
            for damage in self._damaged:
                if damage.start <= self._read_to < damage.end:
                    log.error(
                        "%s: delayed messages from offset %d to %d are damaged: they wait until they are repaired",
                        self._partition.name,
                        damage.start,
                        damage.end,
                    )
                    self._read_to = min(damage.end, committed)
            data = await fetch_bytes(self._partition.log, self._read_to, READ_BYTES, committed)
            last = self._read_to
            for record in read_records(
                data or b"", self._read_to, check_crc=False
            ):  # `fetch_bytes` has checked them
                self._learn(record)
                last = record.offset + 1
            if last == self._read_to:
                return
            self._read_to = last
            await asyncio.sleep(0)

    def _learn(self, record: Record) -> None:
        try:
            message = read_delayed(record)
        except errors.InvalidRecord as problem:
            log.warning("%s: %s", self._partition.name, problem)
            return
        if message is not None:
            self._index.add(message.due_ms, record.offset)
        else:
            self._index.remove(read_done(record))

    async def _deliver(self) -> None:
        while self._is_current and (entries := self._index.due(self._clock.now_ms(), DELIVERED_AT_ONCE)):
            messages = await self._messages([entry.offset for entry in entries])
            waits = [
                self._publish(message.topic, message.partition, message.message)
                for message in messages.values()
            ]
            results = await asyncio.gather(*waits, return_exceptions=True)
            finished = [entry.offset for entry in entries if entry.offset not in messages]
            problem: BaseException | None = None
            for (offset, message), result in zip(messages.items(), results, strict=True):
                if isinstance(
                    result,
                    errors.UnknownTopicOrPartition | errors.RecordListTooLarge | errors.PolicyViolation,
                ):
                    log.warning("a delayed message for %s is given up: %s", message.topic, result)
                    finished.append(offset)
                elif isinstance(result, BaseException):
                    problem = result
                else:
                    finished.append(offset)
            await self._finish(finished)
            if problem is not None:
                raise problem

    async def _finish(self, offsets: list[int]) -> None:
        name, index = self._partition.name
        for at in range(0, len(offsets), OFFSETS_A_RECORD):
            chosen = offsets[at : at + OFFSETS_A_RECORD]
            await self._publish(name, index, done(chosen))
            self._index.remove(chosen)

    async def _messages(self, offsets: list[int]) -> dict[int, DelayedMessage]:
        """By offset, in the order of the offsets that were given; what the log does not have any more is left out."""
        read: dict[int, DelayedMessage] = {}
        for offset in sorted(offsets):
            if offset in read:
                continue
            data = await fetch_bytes(self._partition.log, offset, READ_BYTES // 16, self._read_to)
            for record in read_records(
                data or b"", offset, check_crc=False
            ):  # `fetch_bytes` has checked them
                message = read_delayed(record)
                if message is not None:
                    read[record.offset] = message
        return {offset: read[offset] for offset in offsets if offset in read}

    def _delete_done(self) -> None:
        """Everything below the first message that waits is of no use any more, unless damage hides messages."""
        start, records_log = self._partition.log.start, self._partition.log
        if self._damaged or records_log.damaged:
            return
        if records_log.next - start <= DELETED_FROM and len(self._index):
            return
        first = min((entry.offset for entry in self._index), default=self._read_to)
        first = min(first, int(self._partition.state.committed))
        if first > start:
            self._partition.delete_records(first)
            self._index.started(first)

    async def waiting(self, topic: str, messages_max: int) -> list[tuple[Position, DelayedMessage]]:
        waiting: list[tuple[Position, DelayedMessage]] = []
        for entry in sorted(self._index):
            if len(waiting) >= messages_max:
                break
            for message in (await self._messages([entry.offset])).values():
                if message.topic == topic:
                    waiting.append(((self._partition.index, entry.offset), message))
        return waiting
