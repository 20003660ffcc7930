"""Offsets that are not in the log, and `auto_offset_reset`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.consumer.consumers import FETCH, ORDERS, consumer_on, drain, fill
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import EpochEndOffset


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"5"), ("latest", b"new")])
@staged
async def test_an_offset_below_the_log_goes_where_the_reset_says(
    stage: Stage, reset: str, first: bytes
) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(10)], per_batch=1)
    stage.world.logs[ORDERS].start = 5
    async with consumer_on(stage, auto_offset_reset=reset) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 2)
        polling = asyncio.ensure_future(consumer.poll(10_000))
        await asyncio.sleep(1)
        fill(stage, b"new")
        assert (await polling)[0].value == first


@staged
async def test_without_a_reset_an_offset_out_of_range_is_an_error_once_per_poll(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(stage, auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS])
        with pytest.raises(errors.OffsetOutOfRange, match="orders-0 has no position"):
            await consumer.poll(1000)
        consumer.seek(ORDERS, 77)
        for _ in range(2):
            with pytest.raises(errors.OffsetOutOfRange, match="offset 77 of orders-0"):
                await consumer.poll(1000)
        consumer.seek(ORDERS, 0)
        assert [record.value for record in await consumer.poll(1000)] == [b"a"]


@staged
async def test_an_unknown_topic_or_partition_is_an_error_at_once(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with consumer_on(stage) as consumer:
        start = stage.clock.monotonic_ms()
        with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'nope'"):
            await consumer.partitions_for("nope")
        consumer.assign([TopicPartition("orders", 3)])
        with pytest.raises(errors.UnknownTopicOrPartition, match="has no partition 3: it has 0 to 0"):
            await consumer.poll(10_000)
        assert stage.clock.monotonic_ms() - start < 1_000


@staged
async def test_a_log_that_was_cut_below_the_position_is_read_on_where_it_parts(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    fill(stage, b"a", b"b", b"c", b"d")
    cut = False

    async def diverge(answer: Any) -> None:
        nonlocal cut
        if not cut and asked[-1].topics and asked[-1].topics[0].partitions[0].last_fetched_epoch == 0:
            cut = True
            part = answer.responses[0].partitions[0]
            part.diverging_epoch, part.records = EpochEndOffset(0, 2), b""

    asked: list[Any] = []

    async def note(request: Any) -> int | None:
        asked.append(request)
        return None

    broker.scripts[FETCH], broker.after[FETCH] = note, diverge
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        assert [record.offset for record in await drain(consumer, 4)] == [0, 1, 2, 3]
        fill(stage, b"e")
        assert [record.offset for record in await drain(consumer, 3)] == [2, 3, 4]
    cut = False
    async with consumer_on(stage, auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        await drain(consumer, 5)
        fill(stage, b"f")
        with pytest.raises(errors.OffsetOutOfRange, match="was truncated at 2, below the position 5"):
            await consumer.poll(5_000)
