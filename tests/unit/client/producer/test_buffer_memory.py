from __future__ import annotations

import asyncio

import pytest

from tests.unit.client.stage import Stage, staged
from tidelog.client.errors import BufferExhausted
from tidelog.client.producer.buffer_memory import BufferMemory


@staged
async def test_room_is_given_in_the_order_it_was_asked_for(stage: Stage) -> None:
    memory = BufferMemory(100)
    assert memory.try_take(80)
    order: list[str] = []

    async def take(name: str, size: int) -> None:
        await memory.take(size, 1000)
        order.append(name)

    large = asyncio.ensure_future(take("large", 90))
    await stage.loop.settle()
    small = asyncio.ensure_future(take("small", 10))
    await stage.loop.settle()
    assert memory.exhausted and order == []
    assert not memory.try_take(1), "nobody passes those who wait"
    memory.give(80)
    await asyncio.gather(large, small)
    assert order == ["large", "small"]
    assert memory.used == 100


@staged
async def test_a_buffer_that_stays_full_says_so_after_the_time_given(stage: Stage) -> None:
    memory = BufferMemory(100)
    memory.try_take(100)
    start = stage.clock.monotonic_ms()
    with pytest.raises(BufferExhausted, match="buffer_memory of 100 bytes stayed full for 500 ms"):
        await memory.take(1, 500)
    assert stage.clock.monotonic_ms() - start == 500
    memory.give(100)
    assert memory.used == 0 and memory.try_take(100)


@pytest.mark.parametrize("given_first", [True, False])
@staged
async def test_who_gives_up_waiting_takes_no_room_with_him(stage: Stage, given_first: bool) -> None:
    memory = BufferMemory(100)
    memory.try_take(100)
    first = asyncio.ensure_future(memory.take(60, 1000))
    second = asyncio.ensure_future(memory.take(60, 1000))
    await stage.loop.settle()
    if given_first:
        memory.give(100)  # the room is the first one's now, who has not woken up yet
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    if not given_first:
        memory.give(100)
    await second
    assert memory.used == 60
    memory.give(60)
    assert memory.used == 0
