"""A consumer through broken connections, bad batches, silent brokers and new leaders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.consumer.consumers import FETCH, ORDERS, consumer_on, drain, fill
from tests.unit.client.scripted import Drop
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.consumer.fetch.assigned_partition import Record
from tidelog.client.errors import Unreachable
from tidelog.testing import seeds
from tidelog.types import TopicPartition


@pytest.mark.parametrize("seed", seeds(15))
@staged
async def test_everything_is_read_once_through_broken_connections_and_new_leaders(
    stage: Stage, seed: int
) -> None:
    brokers = [stage.broker(1), stage.broker(2)]
    stage.world.create("orders", partitions=3)
    random = stage.random

    async def trouble(_: Any) -> int | None:
        kind = random.random()
        if kind < 0.15:
            raise Drop
        if kind < 0.25:
            return random.choice(
                [
                    errors.NotLeaderOrFollower.code,
                    errors.KafkaStorageError.code,
                    errors.UnknownTopicId.code,
                ]
            )
        if kind < 0.4:
            stage.world.lead(TopicPartition("orders", random.randrange(3)), random.choice([1, 2]))
        return None

    for broker in brokers:
        broker.scripts[FETCH] = trouble
    async with consumer_on(stage, max_partition_fetch_bytes=400, retry_backoff_ms=5) as consumer:
        consumer.assign([TopicPartition("orders", part) for part in range(3)])
        received: list[Record] = []
        for at in range(40):
            where = TopicPartition("orders", at % 3)
            fill(stage, b"%d" % at, b"%d+" % at, partition=where)
            if random.random() < 0.3:
                received += await consumer.poll(random.randrange(50))
        while len(received) < 80:
            records = await consumer.poll(60_000)
            assert records
            received += records
    for part in range(3):
        offsets = [record.offset for record in received if record.partition == part]
        assert offsets == list(range(stage.world.logs[TopicPartition("orders", part)].end))


@staged
async def test_a_bad_batch_is_an_error_that_names_the_place_and_can_be_passed(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a", b"b", b"c", b"d", b"e", b"f")
    log = stage.world.logs[ORDERS]
    bad = bytearray(log.batches[1].data)
    bad[-1] ^= 1
    log.batches[1] = log.batches[1]._replace(data=bytes(bad))
    fill(stage, b"g")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        assert [record.value for record in await consumer.poll(1000)] == [b"a", b"b", b"c"]
        for _ in range(2):
            with pytest.raises(errors.CorruptMessage, match=r"orders-0 at offset 3: .*; seek past it"):
                await consumer.poll(1000)
        consumer.seek(ORDERS, 6)
        assert [record.value for record in await consumer.poll(1000)] == [b"g"]


@staged
async def test_checksums_are_not_looked_at_when_nobody_wants_that(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a")
    log = stage.world.logs[ORDERS]
    bad = bytearray(log.batches[0].data)
    bad[17] ^= 1  # of the checksum itself: the rest can be read
    log.batches[0] = log.batches[0]._replace(data=bytes(bad))
    for check in (True, False):
        async with consumer_on(stage, check_crcs=check) as consumer:
            consumer.assign([ORDERS])
            if check:
                with pytest.raises(errors.CorruptMessage):
                    await consumer.poll(1000)
            else:
                assert [record.value for record in await consumer.poll(1000)] == [b"a"]


@pytest.mark.parametrize("bad_first", [True, False])
@staged
async def test_good_records_of_one_partition_are_not_lost_to_a_bad_batch_of_another(
    stage: Stage, bad_first: bool
) -> None:
    stage.broker()
    stage.world.create("orders", partitions=2)
    other = TopicPartition("orders", 1)
    fill(stage, b"a", b"b")
    fill(stage, b"c", partition=other)
    log = stage.world.logs[ORDERS]
    log.batches[0] = log.batches[0]._replace(data=log.batches[0].data[:-1] + b"\xff")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS, other] if bad_first else [other, ORDERS])
        await asyncio.sleep(1)
        found, problems = [], []
        for _ in range(4):
            try:
                found += [record.value for record in await consumer.poll(100)]
            except errors.CorruptMessage as problem:
                problems.append(problem)
        assert found == [b"c"] and problems


@staged
async def test_a_broker_that_stays_away_is_an_error_after_the_request_timeout(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(stage, request_timeout_ms=5_000) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 1)
        broker.stop()
        start = stage.clock.monotonic_ms()
        with pytest.raises(Unreachable, match="connection refused"):
            await consumer.poll(600_000)
        assert 5_000 <= stage.clock.monotonic_ms() - start < 8_000
        polling = asyncio.ensure_future(consumer.poll(60_000))
        await asyncio.sleep(2)
        broker.start()
        fill(stage, b"b")
        assert [record.value for record in await polling] == [b"b"]


@staged
async def test_a_broker_frozen_in_the_middle_of_a_fetch_is_left_after_the_timeout(stage: Stage) -> None:
    broker = stage.broker(1)
    stage.broker(2)
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(
        stage, request_timeout_ms=2_000, bootstrap_servers="broker1:9092,broker2:9092"
    ) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 1)
        stage.network.cut("client", "broker1")
        stage.world.lead(ORDERS, 2)
        fill(stage, b"b")
        polling = asyncio.ensure_future(consumer.poll(60_000))
        assert [record.value for record in await polling] == [b"b"]
        stage.network.heal()
        assert broker.node == 1


@staged
async def test_who_is_told_of_another_leader_goes_there_at_once(stage: Stage) -> None:
    stage.world.tells = True
    first = stage.broker(1)
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(stage, retry_backoff_ms=5_000) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 1)
        stage.broker(2)  # not in any answer to Metadata so far
        stage.world.lead(ORDERS, 2)
        start, asked = stage.clock.monotonic_ms(), first.asked.count("Metadata")
        fill(stage, b"b")
        assert [record.value for record in await consumer.poll(60_000)] == [b"b"]
        assert stage.clock.monotonic_ms() - start < 1_000
        assert first.asked.count("Metadata") == asked
