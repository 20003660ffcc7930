"""Reading, seeking, pausing, closing, deserializing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.consumer.consumers import FETCH, ORDERS, batch, consumer_on, drain, fill
from tests.unit.client.stage import Stage, staged
from tidelog._speed.log.crc32c import crc32c
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.fetch.assigned_partition import Record
from tidelog.client.errors import ClientClosed
from tidelog.record import BatchBuilder, Codec, EndMarker, Marker, build_marker
from tidelog.schema.serializer import Json, SerializationError
from tidelog.types import TopicPartition


@staged
async def test_records_come_in_order_with_everything_that_was_sent(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(10)])
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        received = await drain(consumer, 10)
        assert [record.offset for record in received] == list(range(10))
        assert received[4] == Record("orders", 0, 4, 1_000, "create", b"k", b"4", (("h", b"1"),))
        assert await consumer.position(ORDERS) == 10
        assert await consumer.poll(100) == []


@pytest.mark.parametrize("codec", list(Codec))
@staged
async def test_compressed_batches_are_read(stage: Stage, codec: Codec) -> None:
    stage.broker()
    stage.world.create("orders")
    stage.world.logs[ORDERS].write(batch(b"a" * 100, b"b" * 100, codec=codec))
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        assert [record.value for record in await drain(consumer, 2)] == [b"a" * 100, b"b" * 100]


@staged
async def test_poll_returns_at_most_what_is_asked_for_and_loses_nothing(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders", partitions=3)
    for part in range(3):
        fill(stage, *[b"%d" % at for at in range(10)], partition=TopicPartition("orders", part))
    async with consumer_on(stage, max_poll_records=4) as consumer:
        consumer.assign([TopicPartition("orders", part) for part in range(3)])
        received: list[Record] = []
        while len(received) < 30:
            records = await consumer.poll(1000)
            assert len(records) <= 4
            received += records
            received += await consumer.poll(1000, max_records=1)
        for part in range(3):
            assert [record.offset for record in received if record.partition == part] == list(range(10))


@staged
async def test_a_poll_without_time_gets_ahead_all_the_same(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        for _ in range(1_000):
            records = await consumer.poll()
            if records:
                break
            await asyncio.sleep(0.001)
        assert [record.value for record in records] == [b"a"]


@staged
async def test_a_waiting_poll_wakes_up_when_a_record_is_written(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with consumer_on(stage, fetch_max_wait_ms=10_000) as consumer:
        consumer.assign([ORDERS])
        polling = asyncio.ensure_future(consumer.poll(60_000))
        await asyncio.sleep(3)
        start = stage.clock.monotonic_ms()
        fill(stage, b"new")
        assert [record.value for record in await polling] == [b"new"]
        assert stage.clock.monotonic_ms() - start < 20


@staged
async def test_iteration_goes_on_and_on(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(7)])
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        offsets = []
        async for record in consumer:
            offsets.append(record.offset)
            if record.offset == 6:
                break
        assert offsets == list(range(7))


@pytest.mark.parametrize("read_on", ["poll", "iterate"])
@staged
async def test_pausing_after_a_loop_leaves_the_rest_for_a_resume(stage: Stage, read_on: str) -> None:
    stage.broker()
    stage.world.create("orders", partitions=2)
    fill(stage, *[b"%d" % at for at in range(10)])
    fill(stage, *[b"%d" % at for at in range(10)], partition=TopicPartition("orders", 1))
    async with consumer_on(stage, max_poll_records=50) as consumer:
        partitions = [TopicPartition("orders", index) for index in (0, 1)]
        consumer.assign(partitions)
        received = []
        async for record in consumer:
            received.append((record.partition, record.offset))
            if len(received) == 3:
                break
        paused, other = partitions[received[-1][0]], partitions[1 - received[-1][0]]
        consumer.pause(paused)
        while sum(partition == other.partition for partition, _ in received) < 10:
            if read_on == "poll":
                records = await consumer.poll(1_000, 1)
            else:
                records = [await anext(aiter(consumer))]
            assert {record.partition for record in records} <= {other.partition}
            received += [(record.partition, record.offset) for record in records]
        assert await consumer.poll(1_000) == []
        consumer.resume(paused)
        while len(received) < 20:
            received += [(record.partition, record.offset) for record in await consumer.poll(1_000)]
        assert sorted(received) == [(part, offset) for part in (0, 1) for offset in range(10)]


@staged
async def test_control_batches_and_compacted_records_are_passed_over(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    log = stage.world.logs[ORDERS]
    log.write(batch(b"a", b"b"))
    log.producers[9] = (0, [])
    log.write(build_marker(EndMarker(Marker.COMMIT, 1), producer_id=9, producer_epoch=0, timestamp=1))
    log.write(batch(b"c"), gap=10)
    log.write(build_marker(EndMarker(Marker.ABORT, 1), producer_id=9, producer_epoch=0, timestamp=1))
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        received = await drain(consumer, 3)
        assert [(record.offset, record.value) for record in received] == [(0, b"a"), (1, b"b"), (13, b"c")]
        await consumer.poll(50)
        assert await consumer.position(ORDERS) == 15, "past the marker at the end"


@staged
async def test_a_batch_whose_last_records_were_compacted_away_is_passed_whole(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    data = bytearray(batch(b"a", b"b"))
    data[23:27] = (4).to_bytes(4, "big")  # it once had five records
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    stage.world.logs[ORDERS].write(bytes(data))
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 2)
        await consumer.poll(50)
        assert await consumer.position(ORDERS) == 5


@staged
async def test_seeking_starts_in_the_middle_of_a_batch_and_forgets_what_was_fetched(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(20)], per_batch=10)
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await consumer.poll(1000, max_records=1)
        consumer.seek(ORDERS, 14)
        assert [record.offset for record in await consumer.poll(1000)] == [14, 15, 16, 17, 18, 19]
        consumer.seek_to_beginning(ORDERS)
        assert (await consumer.poll(1000))[0].offset == 0
        consumer.seek_to_end()
        assert await consumer.position(ORDERS) == 20
        fill(stage, b"new")
        assert [record.offset for record in await consumer.poll(1000)] == [20]


@staged
async def test_a_seek_while_a_fetch_is_under_way_wins(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(20)])

    async def slow(_: Any) -> None:
        await asyncio.sleep(0.5)

    broker.scripts[FETCH] = slow
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 15)
        assert await consumer.poll(100) == []
        consumer.seek(ORDERS, 10)
        assert (await consumer.poll(5_000))[0].offset == 10


@staged
async def test_a_paused_partition_is_silent_until_resumed(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders", partitions=2)
    other = TopicPartition("orders", 1)
    fill(stage, b"a")
    fill(stage, b"b", partition=other)
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS, other])
        consumer.pause(ORDERS)
        assert [record.value for record in await drain(consumer, 1)] == [b"b"]
        assert await consumer.poll(2_000) == []
        consumer.resume(ORDERS)
        assert [record.value for record in await drain(consumer, 1)] == [b"a"]


@staged
async def test_assigning_anew_keeps_positions_of_what_stays(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders", partitions=2)
    other = TopicPartition("orders", 1)
    fill(stage, b"a", b"b")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 2)
        consumer.assign([ORDERS, other])
        assert consumer.assignment() == {ORDERS, other}
        fill(stage, b"c", partition=other)
        assert [record.value for record in await drain(consumer, 1)] == [b"c"]
        consumer.assign([other])
        with pytest.raises(ValueError, match="orders-0 is not assigned"):
            consumer.seek(ORDERS, 0)


@staged
async def test_a_closed_consumer_says_so(stage: Stage) -> None:
    stage.broker()
    consumer = consumer_on(stage)
    with pytest.raises(ClientClosed, match="not started"):
        await consumer.poll()
    await consumer.start()
    await consumer.close()
    with pytest.raises(ClientClosed, match="make a new one"):
        await consumer.poll()


@staged
async def test_closing_ends_a_poll_that_waits(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    consumer = consumer_on(stage)
    await consumer.start()
    consumer.assign([ORDERS])
    polling = asyncio.ensure_future(consumer.poll(3_600_000))
    await asyncio.sleep(1)
    start = stage.clock.monotonic_ms()
    await consumer.close()
    with pytest.raises(ClientClosed):
        await polling
    assert stage.clock.monotonic_ms() - start < 1_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto_offset_reset": "first"}, "auto_offset_reset cannot be 'first'"),
        ({"auto_offset_reset": -5}, "auto_offset_reset cannot be -5"),
        ({"max_poll_records": 0}, "max_poll_records cannot be 0"),
        ({"fetch_max_wait_ms": -1}, "fetch_max_wait_ms cannot be -1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Consumer(**options)


@staged
async def test_values_are_deserialized_and_null_stays_null(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    builder = BatchBuilder()
    builder.add(b"k", b'{"a": 1}', 1_000)
    builder.add(b"k", None, 1_000)
    stage.world.logs[ORDERS].write(builder.build())
    async with consumer_on(
        stage, key_deserializer=lambda data: data.decode(), value_deserializer=Json()
    ) as consumer:
        consumer.assign([ORDERS])
        assert [(record.key, record.value) for record in await drain(consumer, 2)] == [
            ("k", {"a": 1}),
            ("k", None),
        ]


@staged
async def test_a_record_that_cannot_be_deserialized_is_met_again_until_it_is_passed(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"1", b"2", b"x", b"4")
    async with consumer_on(stage, value_deserializer=int) as consumer:
        consumer.assign([ORDERS])
        assert [record.value for record in await consumer.poll(1_000)] == [1, 2]
        for _ in range(2):
            with pytest.raises(SerializationError, match=r"orders-0 at offset 2: .*seek past it"):
                await consumer.poll(1_000)
        consumer.seek(ORDERS, 3)
        assert [record.value for record in await consumer.poll(1_000)] == [4]
