"""A full buffer, topics that are not there, and the end of a producer."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.client.producer.producers import producer_on
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.errors import BufferExhausted, ClientClosed, DeliveryTimedOut, Unreachable
from tidelog.client.producer.producer import Producer


@staged
async def test_a_full_buffer_blocks_then_says_so(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, buffer_memory=2_000, max_block_ms=1_000) as producer:
        await (await producer.send("orders", b"x"))
        broker.stop()
        for _ in range(3):
            await producer.send("orders", b"x" * 500)
        start = stage.clock.monotonic_ms()
        with pytest.raises(BufferExhausted):
            await producer.send("orders", b"x" * 500)
        assert stage.clock.monotonic_ms() - start == 1_000
        blocked = asyncio.ensure_future(producer.send("orders", b"x" * 500))
        await stage.loop.settle()
        assert not blocked.done()
        broker.start()
        await (await blocked)
        assert producer._memory.used == 0


@staged
async def test_a_lingering_batch_leaves_early_when_room_is_needed(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, buffer_memory=2_000, linger_ms=60_000) as producer:
        start = stage.clock.monotonic_ms()
        for _ in range(20):
            await producer.send("orders", b"x" * 500)
        assert stage.clock.monotonic_ms() - start < 1_000


@staged
async def test_a_value_of_the_wrong_type_takes_no_memory(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage) as producer:
        with pytest.raises(TypeError):
            await producer.send("orders", "text")  # type: ignore[arg-type]
        assert producer._memory.used == 0


@staged
async def test_a_topic_nobody_creates_is_an_error_after_max_block(stage: Stage) -> None:
    stage.broker()
    async with producer_on(stage, max_block_ms=2_000) as producer:
        start = stage.clock.monotonic_ms()
        with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'nope' on broker1:9092"):
            await producer.send("nope", b"x")
        assert stage.clock.monotonic_ms() - start == 2_000


@staged
async def test_a_topic_that_appears_while_we_wait_is_used(stage: Stage) -> None:
    stage.broker()
    async with producer_on(stage) as producer:
        sending = asyncio.ensure_future(producer.send("orders", b"x"))
        await asyncio.sleep(3)
        stage.world.create("orders")
        assert (await (await sending)).offset == 0


@staged
async def test_close_delivers_and_closed_producers_say_so(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    producer = producer_on(stage, linger_ms=60_000)
    with pytest.raises(ClientClosed, match="not started"):
        await producer.send("orders", b"x")
    await producer.start()
    sent = await producer.send("orders", b"x")
    await producer.close()
    await producer.close()
    assert sent.result().offset == 0
    with pytest.raises(ClientClosed, match="closed: make a new one"):
        await producer.send("orders", b"x")


@staged
async def test_close_gives_up_after_its_timeout_and_says_what_is_left(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    producer = producer_on(stage)
    await producer.start()
    await (await producer.send("orders", b"x"))
    broker.stop()
    sent = [await producer.send("orders", b"x") for _ in range(3)]
    start = stage.clock.monotonic_ms()
    with pytest.raises(DeliveryTimedOut, match="3 records were not delivered within 2 s"):
        await producer.close(timeout=2)
    assert stage.clock.monotonic_ms() - start == 2_000
    for delivery in sent:
        with pytest.raises(ClientClosed):
            delivery.result()
    broker.start()


@staged
async def test_an_error_in_the_block_closes_without_waiting(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    start = stage.clock.monotonic_ms()
    with pytest.raises(ZeroDivisionError):
        async with producer_on(stage) as producer:
            await (await producer.send("orders", b"x"))
            broker.stop()
            sent = await producer.send("orders", b"x")
            raise ZeroDivisionError
    assert isinstance(sent.exception(), ClientClosed)
    assert stage.clock.monotonic_ms() - start < 1_000
    broker.start()


@staged
async def test_nobody_there_is_one_error_at_the_start(stage: Stage) -> None:
    producer = Producer(bootstrap_servers="nowhere:1,client:2,client:3", environment=stage.environment)
    with pytest.raises(Unreachable) as caught:
        await producer.start()
    assert str(caught.value) == (
        "cannot reach any broker: nowhere:1 (connection refused), client:2 (connection refused), "
        "client:3 (connection refused); is one of them running?"
    )


@staged
async def test_the_next_bootstrap_address_is_tried(stage: Stage) -> None:
    stage.broker(2)
    stage.world.create("orders", leader=2)
    async with Producer(
        bootstrap_servers=["nowhere:1", "broker2:9092"], environment=stage.environment
    ) as producer:
        assert (await (await producer.send("orders", b"x"))).offset == 0
