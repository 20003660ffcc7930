"""What `tidelog bench` does to a cluster: writes, reads, or both at a steady rate, with the client of the command line.

Memory does not grow with the number of records: times go to `Latencies`, the producer waits where the cluster is slow."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.bench.latencies import Latencies
from tidelog.cli.output import ProgressMeter
from tidelog.cli.session import CommandSession, Failure

if TYPE_CHECKING:
    from tidelog.aio import Consumer, Producer, TopicPartition

TOPIC_PREFIX = "tidelog-bench-"
POLL_MS = 200
POLL_RECORDS = 5_000
BUFFER_BYTES = (
    4 << 20
)  # more would only be a longer queue in this process, whose wait would count as the cluster's
REQUEST_BYTES = 32 << 20  # the broker says what is too large
LOOK_EVERY = 1_000
SEND_TIME = "tidelog-bench-sent"


class Records(NamedTuple):
    """What is written: how many, how large, how fast (0: as fast as possible)."""

    total: int
    size: int
    per_second: float


class Writing(NamedTuple):
    acks: str
    compression: str
    linger_ms: int
    batch_bytes: int


@dataclass(slots=True)
class LoadFigures:
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)
    failed: int = 0
    first_problem: str | None = None

    def acknowledged(self, began_s: float, size: int, _: object) -> None:
        self.records += 1
        self.bytes += size
        self.latencies.add((time.perf_counter() - began_s) * 1000)

    def refused(self, problem: object) -> None:
        self.failed += 1
        self.first_problem = self.first_problem or str(problem)

    def check(self, whole: int) -> None:
        """A figure of records that were not all written is no figure."""
        if self.failed or self.records < whole:
            missing = whole - self.records
            raise Failure(
                f"{missing:,} of {whole:,} records were not written: {self.first_problem or 'unknown'}"
            )


@asynccontextmanager
async def bench_topic(
    session: CommandSession, topic: str | None, partitions: int, replication_factor: int | None
) -> AsyncIterator[str]:
    """The topic that the user names, or one of our own, which is deleted at the end."""
    from tidelog.aio import NewTopic

    if topic is not None:
        yield topic
        return
    own = TOPIC_PREFIX + uuid.uuid4().hex[:12]
    async with session.admin() as admin:
        await admin.create_topics([NewTopic(own, partitions, replication_factor or -1)])
        try:
            yield own
        finally:
            await admin.delete_topics([own])


async def write(session: CommandSession, topic: str, records: Records, writing: Writing) -> LoadFigures:
    measured = LoadFigures()
    value = _value(records.size)
    progress = ProgressMeter("record", records.total)
    async with _producer(session, writing, records.size) as producer:
        await producer.partitions_for(topic)
        begun = time.perf_counter()
        for number in range(records.total):
            await _in_time(begun, number, records.per_second)
            began = time.perf_counter()
            sent = await producer.send_bytes(topic, value, None, (), None, None)
            sent.add_callback(measured.acknowledged, began, len(value)).add_errback(measured.refused)
            if number % LOOK_EVERY == 0:
                progress.update(measured.records)
                if measured.failed:
                    break
        await producer.flush()
        measured.seconds = time.perf_counter() - begun
    progress.clear()
    measured.check(records.total)
    return measured


async def read(session: CommandSession, topic: str, records_max: int) -> LoadFigures:
    """From the beginning to the present end, or until `records_max`."""
    measured = LoadFigures()
    async with _consumer(session) as consumer:
        chosen = await _assigned(consumer, topic)
        begins, ends = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
        left = {partition for partition in chosen if begins[partition] < ends[partition]}
        total = min(records_max, sum(ends[partition] - begins[partition] for partition in chosen))
        progress = ProgressMeter("record", total)
        begun = time.perf_counter()
        while left and measured.records < records_max:
            for record in await consumer.poll(POLL_MS, min(POLL_RECORDS, records_max - measured.records)):
                measured.records += 1
                measured.bytes += len(record.key or b"") + len(record.value or b"")
            left = {partition for partition in left if await consumer.position(partition) < ends[partition]}
            progress.update(measured.records)
        measured.seconds = time.perf_counter() - begun
    progress.clear()
    return measured


async def round_trip(session: CommandSession, topic: str, records: Records, writing: Writing) -> LoadFigures:
    """Each record's way from `send` to the consumer that reads it, both in this process, so one clock counts."""
    measured = LoadFigures()
    written = LoadFigures()
    mark = uuid.uuid4().bytes
    progress = ProgressMeter("record", records.total)
    async with _producer(session, writing, records.size) as producer, _consumer(session) as consumer:
        partitions = await _assigned(consumer, topic)
        for partition, end in (await consumer.end_offsets(partitions)).items():
            consumer.seek(partition, end)
        begun = time.perf_counter()

        async def send() -> None:
            padding = _value(records.size)
            for number in range(records.total):
                await _in_time(begun, number, records.per_second)
                began = time.perf_counter()
                headers = ((SEND_TIME, mark + time.perf_counter_ns().to_bytes(8, "big")),)
                sent = await producer.send_bytes(topic, padding, None, headers, None, None)
                sent.add_callback(written.acknowledged, began, len(padding)).add_errback(written.refused)
            await producer.flush()

        sending = asyncio.create_task(send())
        quiet_since = time.perf_counter()
        try:
            while measured.records < records.total:
                for record in await consumer.poll(POLL_MS, POLL_RECORDS):
                    sent_at = next((data for name, data in record.headers if name == SEND_TIME), None)
                    if sent_at is None or not sent_at.startswith(mark):
                        continue  # somebody else's
                    now = time.perf_counter_ns()
                    measured.records += 1
                    measured.bytes += len(record.value or b"")
                    measured.latencies.add((now - int.from_bytes(sent_at[len(mark) :], "big")) / 1e6)
                    quiet_since = time.perf_counter()
                progress.update(measured.records)
                if sending.done():
                    await sending
                    written.check(records.total)
                    if time.perf_counter() - quiet_since > session.timeout_ms / 1000:
                        raise Failure(
                            f"{records.total - measured.records:,} records did not come back in time"
                        )
            await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        measured.seconds = time.perf_counter() - begun
    progress.clear()
    return measured


async def _in_time(begun: float, number: int, per_second: float) -> None:
    """By the clock and not by the answers: a cluster that is slow does not get its records later."""
    if per_second:
        wait = begun + number / per_second - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)


def _value(size: int) -> bytes:
    """Text that compresses about as well as JSON does, and not to nothing."""
    import random

    return bytes(random.Random(size).choices(b'abcdefghij0123456789{}":, ', k=size))


async def _assigned(consumer: Consumer, topic: str) -> list[TopicPartition]:
    from tidelog.aio import TopicPartition

    chosen = [TopicPartition(topic, index) for index in await consumer.partitions_for(topic)]
    consumer.assign(chosen)
    return chosen


def _producer(session: CommandSession, writing: Writing, size: int) -> Producer:
    from tidelog.aio import Producer

    return Producer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-bench",
        acks=writing.acks,
        compression_type=writing.compression,
        linger_ms=writing.linger_ms,
        batch_size=writing.batch_bytes,
        buffer_memory=max(BUFFER_BYTES, 2 * size),
        max_request_size=REQUEST_BYTES,
        request_timeout_ms=session.timeout_ms,
        delivery_timeout_ms=session.timeout_ms + writing.linger_ms,
        max_block_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
    )


def _consumer(session: CommandSession) -> Consumer:
    from tidelog.aio import Consumer

    return Consumer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-bench",
        auto_offset_reset="earliest",
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
        max_poll_records=POLL_RECORDS,
    )
