"""Workers on a queue whose acknowledgements join the transaction of what they produce: consumed, processed, produced and
acknowledged as one."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, ConfigResource, NewTopic, errors
from tidelog.aio import Consumer, Producer, Record, ShareConsumer, TopicPartition

SECONDS_MAX = 90.0
NOTHING_MS = 600
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}

numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogBroker]:
    running = TidelogBroker(tmp_path_factory.mktemp("exactly-once"), SETTINGS)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def queue(broker: TidelogBroker) -> str:
    name = f"queue-{next(numbers)}"
    prepare(broker, name)
    return name


def prepare(broker: TidelogBroker, name: str, **group: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1), NewTopic(f"{name}-out", 1)])
        admin.alter_configs(
            {
                ConfigResource("topic", name): {"queue.groups": name},
                ConfigResource("group", name): {key.replace("_", "."): value for key, value in group.items()},
            }
        )


class Work:
    """A producer and a consumer of the queue, and the records that the consumer has in hand."""

    def __init__(self, producer: Producer, consumer: ShareConsumer, queue: str) -> None:
        self.producer = producer
        self.consumer = consumer
        self.target = f"{queue}-out"

    async def take(self, count: int) -> list[Record]:
        records: list[Record] = []
        async with asyncio.timeout(SECONDS_MAX):
            while not records:
                records = await self.consumer.poll(500, max_records=count)
        return records

    async def transform(self, records: list[Record]) -> None:
        """All of it, but the commit."""
        await self.producer.begin_transaction()
        for record in records:
            await self.producer.send(self.target, b"seen " + (record.value or b""))
        await self.producer.send_acknowledgements_to_transaction(records, self.consumer)

    async def rest(self) -> list[tuple[bytes | None, int]]:
        """What the queue still has to give, soon."""
        records = await self.consumer.poll(NOTHING_MS)
        return [(record.value, record.delivery_count) for record in records]


@asynccontextmanager
async def worker(broker: TidelogBroker, queue: str, **producer: int) -> AsyncIterator[Work]:
    bootstrap = broker.bootstrap
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"worker-{queue}", **producer) as writes,
        ShareConsumer(
            queue, group_id=queue, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
        ) as reads,
    ):
        yield Work(writes, reads, queue)


async def fill(broker: TidelogBroker, queue: str, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            await producer.send(queue, value)
    return values


async def written(broker: TidelogBroker, queue: str) -> list[bytes]:
    """What readers of committed data see in the output."""
    partition = TopicPartition(f"{queue}-out", 0)
    async with Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            values += [record.value or b"" for record in await consumer.poll(500)]
    return values


async def test_a_commit_acknowledges_and_shows_what_was_written(broker: TidelogBroker, queue: str) -> None:
    await fill(broker, queue, 3)
    async with worker(broker, queue) as work:
        records = await work.take(3)
        await work.transform(records)
        assert await written(broker, queue) == []
        await work.producer.commit_transaction()
        assert await written(broker, queue) == [b"seen 0", b"seen 1", b"seen 2"]
        assert await work.rest() == []


async def test_an_abort_delivers_again(broker: TidelogBroker, queue: str) -> None:
    await fill(broker, queue, 2)
    async with worker(broker, queue) as work:
        records = await work.take(2)
        await work.transform(records)
        await work.producer.abort_transaction()
        again = await work.take(2)
        assert [(record.value, record.delivery_count) for record in again] == [(b"0", 2), (b"1", 2)]
        await work.transform(again)
        await work.producer.commit_transaction()
        assert await written(broker, queue) == [b"seen 0", b"seen 1"]
        assert await work.rest() == []


async def test_nobody_gets_a_record_while_its_transaction_is_open(broker: TidelogBroker, queue: str) -> None:
    """Whatever its lock's duration, and though its worker's session has ended."""
    name = f"{queue}-short"
    prepare(broker, name, share_record_lock_duration_ms="1000")
    await fill(broker, name, 1)
    async with worker(broker, name) as work:
        await work.transform(await work.take(1))
        await work.consumer.close()
        async with ShareConsumer(name, group_id=name, bootstrap_servers=broker.bootstrap) as other:
            assert await other.poll(2_500) == []
            await work.producer.commit_transaction()
            assert await other.poll(NOTHING_MS) == []
    assert await written(broker, name) == [b"seen 0"]


async def test_a_transaction_that_times_out_delivers_again(broker: TidelogBroker, queue: str) -> None:
    await fill(broker, queue, 1)
    async with worker(broker, queue, transaction_timeout_ms=500) as work:
        await work.transform(await work.take(1))
        (again,) = await work.take(1)
        assert again.delivery_count == 2
        with pytest.raises(errors.TidelogError):
            await work.producer.commit_transaction()
        assert await written(broker, queue) == []


async def test_a_record_that_another_worker_has_finished_cannot_join(
    broker: TidelogBroker, queue: str
) -> None:
    """It would be in the output twice."""
    name = f"{queue}-short"
    prepare(broker, name, share_record_lock_duration_ms="1000")
    await fill(broker, name, 1)
    async with worker(broker, name) as slow:
        records = await slow.take(1)
        async with ShareConsumer(name, group_id=name, bootstrap_servers=broker.bootstrap) as other:
            while not await other.poll(500):
                pass
            await other.commit()
        with pytest.raises(errors.InvalidRecordState):
            await slow.transform(records)
        with pytest.raises(errors.TransactionAbortable):
            await slow.producer.commit_transaction()
        await slow.producer.abort_transaction()
    assert await written(broker, name) == []


async def test_a_rejected_record_is_gone_with_the_commit_alone(broker: TidelogBroker, queue: str) -> None:
    await fill(broker, queue, 1)
    async with worker(broker, queue) as work:
        for end, deliveries in ((work.producer.abort_transaction, 1), (work.producer.commit_transaction, 2)):
            (record,) = await work.take(1)
            assert record.delivery_count == deliveries
            await work.producer.begin_transaction()
            await work.producer.send_acknowledgements_to_transaction([record], work.consumer, "reject")
            await end()
        assert await work.rest() == []


async def test_a_consumer_that_accepts_by_itself_is_refused(broker: TidelogBroker, queue: str) -> None:
    await fill(broker, queue, 1)
    async with (
        worker(broker, queue) as work,
        ShareConsumer(queue, group_id=queue, bootstrap_servers=broker.bootstrap) as implicit,
    ):
        await work.consumer.close()
        records: list[Record] = []
        while not records:
            records = await implicit.poll(500)
        await work.producer.begin_transaction()
        with pytest.raises(ValueError, match="explicit"):
            await work.producer.send_acknowledgements_to_transaction(records, implicit)
        await work.producer.abort_transaction()


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
async def test_a_broker_that_starts_again_keeps_what_is_undecided(
    broker: TidelogBroker, queue: str, commit: bool, killed: bool
) -> None:
    await fill(broker, queue, 2)
    async with worker(broker, queue) as work:
        records = await work.take(2)
        await work.transform(records[:1])
        await work.producer.flush()
        if killed:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        async with ShareConsumer(queue, group_id=queue, bootstrap_servers=broker.bootstrap) as other:
            taken: list[Record] = []
            while not taken:
                taken = await other.poll(500)
            assert [record.value for record in taken] == [b"1"]
            if commit:
                await work.producer.commit_transaction()
                assert await other.poll(NOTHING_MS) == []
            else:
                await work.producer.abort_transaction()
                taken = []
                while not taken:
                    taken = await other.poll(500)
                assert [record.value for record in taken] == [b"0"]
    assert await written(broker, queue) == ([b"seen 0"] if commit else [])


async def wait_for_output(broker: TidelogBroker, queue: str, count: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while len(await written(broker, queue)) < count:
        assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {count} records"
        await asyncio.sleep(0.1)


def start_worker(broker: TidelogBroker, queue: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.conformance.queue_worker"]
    return subprocess.Popen(
        [*command, f"{queue}-{name}", broker.bootstrap, queue, f"{queue}-out"],
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("count", "kills"), [(300, 4), pytest.param(5_000, 60, marks=pytest.mark.deep)], ids=["4", "60"]
)
async def test_every_record_is_worked_on_exactly_once_whoever_is_killed(
    broker: TidelogBroker, queue: str, count: int, kills: int
) -> None:
    """Two workers and the broker are killed in turn."""
    random = Random(kills)
    values = await fill(broker, queue, count)
    workers = {name: start_worker(broker, queue, name) for name in "ab"}
    try:
        for kill in range(kills):
            await wait_for_output(broker, queue, (kill + 1) * count // (kills + 2))
            await asyncio.sleep(random.uniform(0, 0.05))
            victim = "ab"[kill % 2]
            if kill % 3 == 2:
                broker.kill()
                broker.start()
            else:
                workers[victim].kill()
                workers[victim].wait()
                workers[victim] = start_worker(broker, queue, victim)
        await wait_for_output(broker, queue, count)
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
    seen = Counter(await written(broker, queue))
    assert set(seen.values()) == {1}
    assert set(seen) == {b"seen " + value for value in values}
