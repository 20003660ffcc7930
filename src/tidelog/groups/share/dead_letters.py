"""Dead letters: copies records that a share group has given up to the topic that `share.dead.letter.topic` names.

The copy is committed before the original is archived, so no record is lost; a crash in between makes a second copy.
While the topic cannot be written, the records are kept, count against the partition's lock limit, and are tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.clock import Clock
from tidelog.groups.share.expiry import due_of, own_ttl_ms
from tidelog.groups.share.in_flight import InFlightRun, LetterReason
from tidelog.groups.share.led_partition import LedSharePartition, deliveries_max
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.metadata.controller import Controller
from tidelog.metadata.topics.names import INTERNAL
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.record.builder import BatchBuilder
from tidelog.record.reader import read_batches
from tidelog.replication.partition import HostedPartition
from tidelog.storage.fetched_log import fetch_bytes

log = logging.getLogger("tidelog.shares")

PREFIX = "tidelog.dead.letter."
RETRY_S_MIN = 0.5
RETRY_S_MAX = 30.0
READ_BYTES = 1 << 20
BATCH_BYTES = 512 << 10


class DeadLetter(NamedTuple):
    """A record that a group has given up."""

    topic: str
    partition: int
    group: str
    reason: LetterReason
    deliveries: int
    record: Record


DeadLetterRoute = Callable[[Sequence[DeadLetter]], Awaitable[None]]
"""Returns when the letters are on all in-sync replicas of where they belong.  It is called again after an error."""


DelayRecord = Callable[[str, int, int, Record], Awaitable[None]]


def no_route(topic: str, group: str) -> DeadLetterRoute | None:
    return None


class ShareDeadLetters:
    def __init__(self, controller: Controller, elsewhere: RemotePartitions, clock: Clock) -> None:
        self._controller = controller
        self._elsewhere = elsewhere
        self._clock = clock
        self.delay: DelayRecord | None = None
        """Keeps a record, by topic, partition and due time, until it is due."""
        self.routes: Callable[[str, str], DeadLetterRoute | None] = no_route
        """By topic and group: a door's way for dead letters, instead of the group's dead letter topic."""

    def wake(self, led: LedSharePartition) -> None:
        if led.copying is None and led.current:
            led.copying = asyncio.get_running_loop().create_task(self._copy_all(led))

    async def _copy_all(self, led: LedSharePartition) -> None:
        wait_s = RETRY_S_MIN
        try:
            while led.current and (runs := led.state.letters()):
                try:
                    await self._copy(led, runs[0])
                    wait_s = RETRY_S_MIN
                except errors.TidelogError as problem:
                    log.error("%s: a dead letter cannot be copied, and is kept: %s", led.key, problem)
                    await asyncio.sleep(wait_s)
                    wait_s = min(wait_s * 2, RETRY_S_MAX)
        finally:
            led.copying = None

    async def _copy(self, led: LedSharePartition, run: InFlightRun) -> None:
        """Copies the run's first records, as many as fit into one batch."""
        first, last = run.first, run.last
        name = led.config().share_dead_letter_topic
        route = self.routes(led.partition.topic, led.key.group)
        count = await self._count(led, name) if name and route is None else 0
        records, last = await _records(led.partition, first, last)
        letters = [self._letter(led, run, record) for record in records]
        await self._delay(led, [letter for letter in letters if letter.reason is LetterReason.DELAYED])
        letters = [letter for letter in letters if letter.reason is not LetterReason.DELAYED]
        if letters and route is not None:
            await route(letters)
        elif letters and name:
            copies = [self._copy_of(letter) for letter in letters]
            await self._append(name, led.key.partition % count, copies)
        await led.submit(led.state.copied(first, last))

    async def _delay(self, led: LedSharePartition, letters: list[DeadLetter]) -> None:
        delay_ms = led.partition.log.config.queue_delay_ms
        waits = []
        for letter in letters:
            due_ms = due_of(letter.record, delay_ms)
            if due_ms is not None and self.delay is not None:
                waits.append(self.delay(letter.topic, letter.partition, due_ms, letter.record))
        await asyncio.gather(*waits)

    async def _count(self, led: LedSharePartition, name: str) -> int:
        """The topic's number of partitions; creates the topic if it does not exist."""
        if name == led.partition.topic or name in INTERNAL:
            raise errors.InvalidConfig(
                f"share.dead.letter.topic of group {led.key.group} cannot be {name}: name another topic"
            )
        topic = self._controller.image.topics.get(name)
        if topic is None:
            await self._create(name)
            topic = self._controller.image.topics.get(name)
            if topic is None:
                raise errors.UnknownTopicOrPartition(f"dead letter topic {name!r} does not exist")
        return len(topic.partitions)

    async def _create(self, name: str) -> None:
        config = self._controller.config()
        if not config.auto_create_topics_enable:
            raise errors.UnknownTopicOrPartition(
                f"dead letter topic {name!r} does not exist, and auto.create.topics.enable is false: create the topic"
            )
        wanted = TopicSpec(name, config.num_partitions, config.default_replication_factor)
        (made,) = await self._controller.create_topics([wanted])
        if isinstance(made, errors.TidelogError) and not isinstance(made, errors.TopicAlreadyExists):
            raise made

    def _letter(self, led: LedSharePartition, run: InFlightRun, record: Record) -> DeadLetter:
        reason = run.reason
        if reason is None:  # it was given up before a restart
            used_up = run.deliveries >= deliveries_max(led.config())
            reason = LetterReason.USED_UP if used_up else LetterReason.REJECTED
            if not run.deliveries:
                expires = led.partition.log.config.queue_ttl_ms >= 0 or own_ttl_ms(record) is not None
                reason = LetterReason.EXPIRED if expires else LetterReason.TOO_MANY
                if led.terms().delays and due_of(record, led.partition.log.config.queue_delay_ms) is not None:
                    reason = LetterReason.DELAYED
        return DeadLetter(
            led.partition.topic, led.partition.index, led.key.group, reason, run.deliveries, record
        )

    def _copy_of(self, letter: DeadLetter) -> Record:
        record = letter.record
        values = {
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "group": letter.group,
            "delivery-count": letter.deliveries,
            "reason": letter.reason.value,
        }
        headers = tuple((PREFIX + name, str(value).encode()) for name, value in values.items())
        # The timestamp is that of the copy, so that the topic's retention counts from now.
        return Record(0, self._clock.now_ms(), record.key, record.value, (*record.headers, *headers))

    async def _append(self, topic: str, index: int, letters: list[Record]) -> None:
        builder = BatchBuilder()
        for letter in letters:
            builder.add(letter.key, letter.value, letter.timestamp, letter.headers)
        await self._elsewhere.append(topic, index, builder.build(), self._clock.now_ms())


async def _records(partition: HostedPartition, first: int, last: int) -> tuple[list[Record], int]:
    """Those from `first` on that make one batch, and up to which offset they reach; what the log does not have any
    more is passed over."""
    records_log = partition.log
    first = max(first, records_log.start)
    if first > last:
        return [], last
    data = await fetch_bytes(records_log, first, READ_BYTES, records_log.end)
    if data is None:
        raise errors.OffsetOutOfRange(
            f"{partition.name} ends at offset {records_log.end}, but a member has acquired offset {first}"
        )
    # Decompression may take long, so it does not run on the loop.
    return await asyncio.to_thread(_first_batch, data, first, last)


def _first_batch(data: bytes | memoryview, first: int, last: int) -> tuple[list[Record], int]:
    records: list[Record] = []
    size, reached = 0, first - 1
    for batch in read_batches(data, check_crc=False):  # `fetch_bytes` has checked them
        for record in [] if batch.header.control else batch.records(first, last):
            size += len(record.key or b"") + len(record.value or b"")
            if records and size > BATCH_BYTES:
                return records, records[-1].offset
            records.append(record)
        reached = batch.header.last_offset
        if reached >= last:
            break
    return records, min(reached, last)
