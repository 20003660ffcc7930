"""Sending, batches, partitions, compression, requests in flight."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.client.producer.producers import ORDERS, PRODUCE, batches, producer_on, values
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.producer.batch import RecordMetadata
from tidelog.client.producer.partitioner import murmur2
from tidelog.client.producer.producer import Producer
from tidelog.record import read_batches, read_records
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import MetadataRequest


@staged
async def test_a_record_is_acknowledged_with_its_place(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage) as producer:
        first = await producer.send("orders", b"one", key=b"k", headers=[("h", b"1")], timestamp=42)
        second = await producer.send("orders", None)
        assert await first == RecordMetadata("orders", 0, 0, 42)
        assert (await second).offset == 1
    (one, two) = [record for batch in stage.world.logs[ORDERS].batches for record in read_records(batch.data)]
    assert (one.key, one.value, one.timestamp, one.headers) == (b"k", b"one", 42, (("h", b"1"),))
    assert two.value is None and two.timestamp >= stage.clock.now_ms() - 10_000


@staged
async def test_records_sent_together_share_a_batch_and_full_batches_do_not_wait(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, linger_ms=1_000, batch_size=1_000) as producer:
        start = stage.clock.monotonic_ms()
        few = [await producer.send("orders", b"x") for _ in range(10)]
        await few[-1]
        assert 1_000 <= stage.clock.monotonic_ms() - start < 1_100
        assert batches(stage) == 1
        start = stage.clock.monotonic_ms()
        many = [await producer.send("orders", b"x" * 90) for _ in range(10)]
        await many[0]
        assert stage.clock.monotonic_ms() - start < 100


@staged
async def test_flush_does_not_wait_for_linger(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, linger_ms=60_000) as producer:
        sent = await producer.send("orders", b"x")
        start = stage.clock.monotonic_ms()
        await producer.flush()
        assert sent.done() and stage.clock.monotonic_ms() - start < 100


@staged
async def test_keys_go_where_murmur2_says_and_partitions_can_be_named(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders", partitions=5)
    async with producer_on(stage) as producer:
        for key in (b"a", b"b", b"c", b"d"):
            sent = await producer.send("orders", b"v", key=key)
            assert (await sent).partition == (murmur2(key) & 0x7FFFFFFF) % 5
        assert (await (await producer.send("orders", b"v", key=b"a", partition=3))).partition == 3
        with pytest.raises(errors.UnknownTopicOrPartition, match="has no partition 5: it has 0 to 4"):
            await producer.send("orders", b"v", partition=5)


@staged
async def test_records_without_a_key_stick_for_a_batch_spread_over_time_and_avoid_what_has_no_leader(
    stage: Stage,
) -> None:
    stage.broker()
    stage.world.create("orders", partitions=4)
    stage.world.leaders[TopicPartition("orders", 2)] = (-1, 0)
    async with producer_on(stage, batch_size=1_000) as producer:
        sent = [await producer.send("orders", b"x" * 100) for _ in range(400)]
        where = [(await delivery).partition for delivery in sent]
    assert set(where) == {0, 1, 3}
    moves = sum(before != after for before, after in pairwise(where))
    assert 40 <= moves <= 60, "about one for every 1,000 bytes"


@staged
async def test_a_partitioner_of_ones_own_decides(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders", partitions=3)
    last = producer_on(stage, partitioner=lambda topic, key, count: count - 1)
    async with last as producer:
        assert (await (await producer.send("orders", b"v"))).partition == 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@staged
async def test_batches_are_compressed_as_asked(stage: Stage, codec: str) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, compression_type=codec) as producer:
        for at in range(100):
            await producer.send("orders", b"value %d" % at)
    assert values(stage) == [b"value %d" % at for at in range(100)]
    names = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
    codecs = [
        stored_batch.header.compression
        for batch in stage.world.logs[ORDERS].batches
        for stored_batch in read_batches(batch.data)
    ]
    assert {names[number] for number in codecs} == {codec}


@pytest.mark.parametrize("acks", [0, 1, "all"])
@staged
async def test_all_kinds_of_acknowledgement_deliver(stage: Stage, acks: int | str) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, acks=acks, batch_size=100) as producer:
        sent = [await producer.send("orders", b"%d" % at) for at in range(50)]
        where = [await delivery for delivery in sent]
    assert [metadata.offset for metadata in where] == ([-1] * 50 if acks == 0 else list(range(50)))
    await stage.clock.advance_ms(100)
    assert values(stage) == [b"%d" % at for at in range(50)]


@pytest.mark.parametrize("most", [1, 2, 5])
@staged
async def test_so_many_requests_are_in_flight_and_no_more(stage: Stage, most: int) -> None:
    broker = stage.broker()
    stage.world.create("orders", partitions=4)
    arrived = 0

    async def count(_: Any) -> None:
        nonlocal arrived
        arrived += 1

    async with producer_on(stage, batch_size=0, max_in_flight_requests=most) as producer:
        for part in range(4):
            await (await producer.send("orders", b"first", partition=part))
        # The broker answers in order, one by one: what it has not read yet is in flight all the same.
        broker.scripts[PRODUCE] = count
        for at in range(8):
            await producer.send("orders", b"x", partition=at % 4)
            await asyncio.sleep(0)
        assert sum(producer._sender._in_flight.values()) == most  # type: ignore[union-attr]
        await producer.flush()
        assert most <= arrived <= 8


@staged
async def test_an_older_broker_without_topic_ids_gets_names(stage: Stage) -> None:
    broker = stage.broker()
    broker.served[MetadataRequest] = (0, 9)
    stage.world.create("orders")
    async with producer_on(stage) as producer:
        assert (await (await producer.send("orders", b"x"))).offset == 0
    assert ("Produce", 12) in broker.versions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acks": 2}, "acks cannot be 2"),
        ({"acks": 1, "enable_idempotence": True}, "needs acks='all'"),
        ({"retries": 0, "enable_idempotence": True}, "needs retries"),
        ({"max_in_flight_requests": 6, "enable_idempotence": True}, "up to 5"),
        ({"linger_ms": -1}, "linger_ms cannot be -1"),
        ({"buffer_memory": 0}, "buffer_memory cannot be 0"),
        ({"request_timeout_ms": 0}, "request_timeout_ms cannot be 0: it must be at least 1"),
        ({"bootstrap_servers": "host:port"}, "not a broker address"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Producer(**options)
