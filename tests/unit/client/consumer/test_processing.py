"""`consumer.process` on a virtual clock: when it ends, and what it tries again."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.unit.client.consumer.consumers import ORDERS, batch, consumer_on, fill
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.consumer.processing.dead_letters import REASON_SIZE_MAX, described, encoded, reason_of
from tidelog.client.errors import ClientClosed, ProcessingFailed
from tidelog.client.topic_names import check_dead_letters
from tidelog.schema.serializer import SerializationError
from tidelog.types import TopicPartition


@staged
async def test_records_that_trickle_in_keep_it_from_being_idle(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    seen: list[int] = []

    async def trickle() -> None:
        for at in range(10):
            fill(stage, b"%d" % at)
            await asyncio.sleep(0.5)

    async def work(record: Any) -> None:
        seen.append(record.offset)

    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        writing = asyncio.ensure_future(trickle())
        begun = stage.clock.monotonic_ms()
        await consumer.process(work, idle_timeout_ms=1_000)
        assert seen == list(range(10))
        assert 5_500 <= stage.clock.monotonic_ms() - begun < 6_500
        await writing


@staged
async def test_a_topic_that_is_not_there_is_idle(stage: Stage) -> None:
    stage.broker()
    async with consumer_on(stage) as consumer:
        consumer.subscribe("missing")
        async with asyncio.timeout(10):
            await consumer.process(print, idle_timeout_ms=1_000)


@staged
async def test_the_end_does_not_wait_for_another_try_of_others(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"0", b"1")

    async def work(record: Any) -> None:
        if record.offset == 0:
            raise ValueError("again, later")
        await asyncio.sleep(1)
        raise SerializationError("never")

    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        begun = stage.clock.monotonic_ms()
        with pytest.raises(ProcessingFailed, match="at offset 1 failed 1 times"):
            await consumer.process(work, order="none", retry_backoff_ms=600_000, retry_backoff_max_ms=600_000)
        assert stage.clock.monotonic_ms() - begun < 5_000
        assert await consumer.position(ORDERS) == 0


@staged
async def test_closing_it_elsewhere_ends_it_with_an_error_and_leaves_the_task_alone(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"0", b"1")
    begun: list[int] = []

    async def work(record: Any) -> None:
        begun.append(record.offset)
        await asyncio.sleep(1_000)

    async def application() -> str:
        with pytest.raises(ClientClosed, match="closed while it was processing"):
            await consumer.process(work, workers=1, order="none")
        await asyncio.sleep(1)  # it was not cancelled
        return "went on"

    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        task = asyncio.ensure_future(application())
        await asyncio.sleep(1)
        await consumer.close()
        assert not task.done(), "whoever closes does not wait for what the application does next"
        assert await task == "went on" and task.cancelling() == 0
    assert begun == [0]


@staged
async def test_what_the_work_waits_for_may_be_cancelled_and_it_is_tried_again(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, b"0")
    attempts = 0

    async def work(record: Any) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await consumer.process(work, idle_timeout_ms=500)
        assert attempts == 2 and await consumer.position(ORDERS) == 1


@staged
async def test_leaving_the_program_in_the_work_ends_it_all_in_order(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    stage.world.logs[ORDERS].write(batch(*[b"%d" % at for at in range(9)]))

    async def work(record: Any) -> None:
        if record.offset == 5:
            raise SystemExit(3)

    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        # Caught here: a task that ends with it ends the loop.
        try:
            await consumer.process(work, order="partition", dead_letter_topic="letters")
        except SystemExit as leaving:
            assert leaving.code == 3
        else:
            pytest.fail("it went on")
        assert await consumer.position(ORDERS) == 5


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def test_whatever_an_error_says_becomes_text_of_a_bounded_length() -> None:
    assert encoded(reason_of(ValueError("bad name \udcff"))) == b"bad name \\udcff"
    assert len(reason_of(ValueError("x" * 2_000_000))) <= REASON_SIZE_MAX + 4
    assert len(described(ValueError("x" * 2_000_000))) <= REASON_SIZE_MAX + 4
    assert reason_of(Mute()) == "its message cannot be read" and described(Mute()) == "Mute"


@pytest.mark.parametrize(
    ("letters", "problem"),
    [
        ("orders", ValueError),
        ("orders-failed", ValueError),
        ("by-hand", ValueError),
        ("", errors.InvalidTopicException),
        ("no name!", errors.InvalidTopicException),
    ],
)
def test_dead_letters_do_not_come_back(letters: str, problem: type[Exception]) -> None:
    topics = ["orders"] if letters == "orders" else []
    with pytest.raises(problem, match=re.escape(repr(letters)) if letters else "empty"):
        check_dead_letters(letters, topics, re.compile("orders-.*"), {"by-hand"})
    check_dead_letters("letters", ["orders"], re.compile("orders-.*"), {"by-hand"})


@staged
async def test_dead_letters_are_checked_before_anything_is_processed(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with consumer_on(stage) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(ValueError, match="dead_letter_topic cannot be 'orders'"):
            await consumer.process(print, dead_letter_topic="orders", idle_timeout_ms=100)
